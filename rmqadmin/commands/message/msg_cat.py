"""``msg cat``: shows the messages of a topic that meet conditions, written by a format string or as rows."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.common_options import Value, argument, option
from rmqadmin.cli.options.message_options import (
    TAIL_DEFAULT,
    ConditionOptions,
    Follow,
    StopAfter,
    Tail,
    WindowOptions,
    check_follow,
)
from rmqadmin.core.messages.format_string import FormatString
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.messages.message_rows import StoredMessageRow, message_values
from rmqadmin.core.messages.message_source import QueueReader, Sieve, SiftExtent, covered_text, sifted
from rmqadmin.core.messages.queue_reading import places
from rmqadmin.core.results import ResultOf, Row
from rmqproto.errors import UsageError
from rmqproto.filters.message_conditions import MessageConditions, compile_conditions


class SiftedMessages(ResultOf[StoredMessageRow], frozen=True):
    """Messages in the order in which they were stored."""

    source: Iterable[Sequence[FoundMessage]]
    sieve: Sieve
    written: FormatString | None
    endless: bool
    as_document: bool

    def rows(self) -> Sequence[StoredMessageRow]:
        return [row for batch in self.batches() for row in batch]

    def batches(self) -> Iterator[Sequence[StoredMessageRow]]:
        for batch in self.source:
            yield [StoredMessageRow(**message_values(message)) for message in batch]

    def raw(self) -> Iterator[bytes] | None:
        written = self.written
        if written is None:
            return None
        return (b"".join(map(written.render, batch)) for batch in self.source)

    def is_endless(self) -> bool:
        return self.endless

    def summary(self) -> Row | None:
        return self.sieve.row() if self.as_document else None

    def remark(self) -> str | None:
        return str(self.sieve)

    def stopped_by(self, error: BaseException) -> str | None:
        self.sieve.end_by(error)
        return str(self.sieve)


def msg_cat(
    call: Call,
    window: WindowOptions,
    conditions: ConditionOptions,
    topic: Annotated[str, Value.TOPIC, argument("Topic name.")],
    written: Annotated[
        str | None, Value.FORMAT, option("-f", "--format", r"Format of each message: '%T{iso} %k %s\n'.")
    ] = None,
    limit: StopAfter = None,
    tail: Tail = None,
    follow: Follow = False,
) -> SiftedMessages:
    r"""All queues together, in the order in which messages were stored. Nothing is consumed: no offset moves. At the
    end, standard error has how many messages were scanned and matched, and why it stopped.

    In FORMAT %t is the topic, %b broker, %p queue, %o queue offset, %O commit log offset, %k keys, %g tag, %s body, %S
    its size, %h properties, %P{NAME} one of them, %T time of storing, %B time of making, %i unique key, %I offset id.
    docs/messages.md has the rest.

      rmqadmin msg cat OrderTopic --from -1h
      rmqadmin msg cat OrderTopic -f '%T{iso} %k %s\n' --tail 20
      rmqadmin msg cat OrderTopic --tag 'paid || shipped' --property region=eu --grep '(?i)refund'
      rmqadmin -o jsonl msg cat OrderTopic --jsonpath '$.order.id=42' --limit 1
    """
    form = None if written is None else FormatString(written)
    if follow and call.as_document:
        raise UsageError(f"{call.format} shows all messages at once, and with --follow they have no end")
    between = window.between(call.now_ms(), call.notice)
    check_follow(between, follow=follow)
    wanted = MessageConditions(start_time_ms=between.begin_ms, end_time_ms=between.end_ms, **conditions.as_conditions())
    sieve = Sieve(compile_conditions(wanted))
    reader = QueueReader(call.admin, conditions.tag, sieve, call.notice, None if follow else call.answers)
    if follow and tail is None and window.start is None:
        tail = TAIL_DEFAULT
    found = places(call.admin, topic, between, window.queues or [], call.answers, call.notice)
    sieve.covered = covered_text(is_part=window.is_given)
    source = sifted(reader, found, SiftExtent(limit, tail, follow))
    return SiftedMessages(source, sieve, form, endless=follow, as_document=call.as_document)
