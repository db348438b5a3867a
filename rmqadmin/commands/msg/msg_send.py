"""``msg send``: sends messages from words, files and standard input, whole, split, or as JSON Lines."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import cycle
from typing import Annotated, ClassVar

import typer

from rmqadmin.call import Call
from rmqadmin.core.messages.bodies_in import STANDARD_INPUT, behind_sizes, between_nuls, lines, message_of_line, whole
from rmqadmin.core.messages.sent_rows import SentRow, say_if_new, sent_row
from rmqadmin.core.results import Result, Row
from rmqadmin.core.topics.routes import queues_to_send_to
from rmqadmin.options.command_options import Texts, pairs
from rmqadmin.options.message_options import MessageKeys, MessageTag
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
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
    by_nul: Annotated[bool, typer.Option("--nul", help="A NUL byte ends each message.")] = False,
    by_size: Annotated[
        bool, typer.Option("--sized", help="Each message follows its size: four bytes, big-endian.")
    ] = False,
    as_json_lines: Annotated[
        bool, typer.Option("--jsonl", help="Every line is a message as `printMsg -o jsonl` writes it.")
    ] = False,
    key: MessageKeys = None,
    tags: MessageTag = None,
    properties: Annotated[
        Texts, typer.Option("--property", metavar="K=V", help="A property of each message. Repeatable.")
    ] = None,
) -> SentMessages:
    """A BODY is sent as it is, @FILE sends what the file holds, - reads standard input. Messages go to the queues in
    turn; sending stops at the first message that is not stored. --jsonl reads what `printMsg -o jsonl` writes, --sized
    what `msg cat -f '%R%s'` writes.

    Examples:
      rmqadmin msg send OrderTopic 'order 1' 'order 2' -k ORDER-1 -c paid
      rmqadmin msg send OrderTopic 'order 3' --dry-run
    """
    ways = {"--lines": by_line, "--nul": by_nul, "--sized": by_size, "--jsonl": as_json_lines}
    said = [option for option, is_said in ways.items() if is_said]
    if len(said) > 1:
        raise UsageError(f"{' and '.join(said)} exclude each other")
    if as_json_lines and (key or tags or properties):
        raise UsageError("with --jsonl each line has its own keys, tag and properties")
    told = pairs("--property", properties)
    of_each = Message(topic, b"", tags=tags or None, keys=(key or "").split(), properties=told)
    wanted = sources or [STANDARD_INPUT]
    say_if_new(call.admin, topic, call.notice, dry_run=call.dry_run)
    queues = _in_turn(queues_to_send_to(call.admin, topic))
    sent: list[SentRow] = []
    try:
        for message in _messages(wanted, of_each, said[0] if said else None):
            queue, addr = next(queues)
            sent.append(sent_row(queue, None if call.dry_run else call.admin.send_message(addr, queue, message)))
    except RocketMQError as error:
        if not sent:
            raise
        return SentMessages(sent, str(error))
    return SentMessages(sent)


def _in_turn(queues: Sequence[tuple[MessageQueue, str]]) -> Iterator[tuple[MessageQueue, str]]:
    """The queues in turn, from a random one on. Otherwise messages that a script sends one by one would all go to the
    first queue."""
    first = random.randrange(len(queues))
    return cycle([*queues[first:], *queues[:first]])


_CUT = {"--lines": lines, "--nul": between_nuls, "--sized": behind_sizes}


def _messages(sources: Sequence[str], of_each: Message, way: str | None) -> Iterator[Message]:
    """The messages. ``of_each``: the fields that all share, unless each line sets its own."""
    if way == "--jsonl":
        yield from (message_of_line(of_each.topic, line) for line in lines(sources))
        return
    bodies = map(whole, sources) if way is None else _CUT[way](sources)
    yield from (replace(of_each, body=body) for body in bodies)
