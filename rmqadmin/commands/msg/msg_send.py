"""``msg send``: messages from words, files and standard input, whole, line by line, or as JSON Lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Annotated, ClassVar

import typer

from rmqadmin.call import Call
from rmqadmin.core.messages.bodies_in import STANDARD_INPUT, lines, message_of_line, whole
from rmqadmin.core.messages.sent_rows import SentRow, say_if_new, sent_row
from rmqadmin.core.results import Result, Row
from rmqadmin.core.topics.routes import queues_to_send_to
from rmqadmin.options.message_options import MessageKeys, MessageTag
from rmqclient.message import Message
from rmqproto.errors import RocketMQError, UsageError


class SentMessages(Result, frozen=True):
    """Where each message went."""

    row_type: ClassVar[type[Row]] = SentRow
    sent: list[SentRow]
    failure: str | None = None

    def rows(self) -> Sequence[SentRow]:
        return self.sent

    def problem(self) -> str | None:
        if self.failure is None:
            return None
        return f"message {len(self.sent) + 1} was not sent, nor what comes behind it: {self.failure}"


def msg_send(
    call: Call,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic name.")],
    sources: Annotated[
        list[str] | None, typer.Argument(metavar="[BODY|@FILE|-]...", help="Default: -, standard input.")
    ] = None,
    by_line: Annotated[bool, typer.Option("--lines", help="Every line is a message.")] = False,
    as_json_lines: Annotated[
        bool, typer.Option("--jsonl", help="Every line is a message as `printMsg -o jsonl` writes it.")
    ] = False,
    key: MessageKeys = None,
    tags: MessageTag = None,
) -> SentMessages:
    """A BODY is sent as it is, @FILE is the body that a file holds, - is standard input. Goes to the queues in turn and
    stops at the first message that is not stored. What `printMsg -o jsonl` writes, --jsonl reads.

    Examples:
      rmqadmin msg send OrderTopic 'order 1' 'order 2' -k ORDER-1 -c paid
      rmqadmin msg send OrderTopic 'order 3' --dry-run
    """
    if by_line and as_json_lines:
        raise UsageError("--lines and --jsonl exclude each other")
    if as_json_lines and (key or tags):
        raise UsageError("with --jsonl each line has its own keys and tag")
    wanted = sources or [STANDARD_INPUT]
    say_if_new(call.admin, topic, call.notice, dry_run=call.dry_run)
    queues = cycle(queues_to_send_to(call.admin, topic))
    sent: list[SentRow] = []
    try:
        for message in _messages(topic, wanted, key, tags, by_line=by_line, as_json_lines=as_json_lines):
            queue, addr = next(queues)
            sent.append(sent_row(queue, None if call.dry_run else call.admin.send_message(addr, queue, message)))
    except RocketMQError as error:
        if not sent:
            raise
        return SentMessages(sent, str(error))
    return SentMessages(sent)


def _messages(
    topic: str, sources: Sequence[str], key: str | None, tags: str | None, *, by_line: bool, as_json_lines: bool
) -> Iterator[Message]:
    if as_json_lines:
        yield from (message_of_line(topic, line) for line in lines(sources))
        return
    bodies = lines(sources) if by_line else map(whole, sources)
    yield from (Message(topic, body, tags=tags or None, keys=(key or "").split()) for body in bodies)
