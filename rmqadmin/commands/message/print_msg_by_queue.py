"""``printMsgByQueue``: shows all messages of one queue, or how many have which tag."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, ClassVar

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import A_BROKER_NAME, Topic, TrueFalse
from rmqadmin.cli.options.message_options import (
    Begin,
    Charset,
    EndBefore,
    Expression,
    PrintBody,
    QueueId,
    ReadExtent,
    Sql92,
)
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.messages.message_rows import checked_charset
from rmqadmin.core.messages.message_source import QueueReader
from rmqadmin.core.messages.queue_reading import place, sql92_filter
from rmqadmin.core.messages.read_messages import BodyView, ReadMessages, read_places
from rmqadmin.core.messages.sieve import Sieve
from rmqadmin.core.results import Result, Row, doc
from rmqadmin.core.topics.routes import broker_addr_of
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import UsageError
from rmqproto.message import properties as props
from rmqproto.times import time_range


class TagRow(Row, frozen=True):
    tags: Annotated[str | None, doc("tag; none for messages without one", key=True)]
    message_count: Annotated[int, doc("messages that have it")]


class TagCounts(Result, frozen=True):
    """With -f true: how many messages have which tag."""

    row_type: ClassVar[type[Row]] = TagRow
    counts: dict[str | None, int]
    mqadmin_messages: str
    cut_remark: str | None = None

    def remark(self) -> str | None:
        return self.cut_remark

    def rows(self) -> Sequence[TagRow]:
        found = sorted(self.counts.items(), key=lambda item: (-item[1], item[0] or ""))
        return [TagRow(tags=tag, message_count=count) for tag, count in found]

    def mqadmin_text(self) -> str:
        named = [(tag, count) for tag, count in self.counts.items() if tag and tag.strip()]
        named.sort(key=lambda item: (-item[1], item[0]))
        return self.mqadmin_messages + "".join(f"Tag: {tag:30} Count: {count}\n" for tag, count in named)


class QueueMessages(ReadMessages, frozen=True):
    """Messages of one queue."""

    prints: bool = True

    def mqadmin_text(self) -> str:
        if not self.prints:
            return ""  # without -p true mqadmin reads everything and shows nothing
        found = [message for read in self.reads for pulled in read.pulls for message in pulled.as_java_has_them()]
        return "".join(map(self.view.mqadmin_line, found))


def print_msg_by_queue(
    call: Call,
    topic: Topic,
    broker_name: Annotated[
        str, A_BROKER_NAME, Value.BROKER_NAME, typer.Option("-a", "--brokerName", metavar="BROKER", help="Broker name.")
    ],
    queue_id: QueueId,
    extent: ReadExtent,
    charset_name: Charset = "UTF-8",
    sub_expression: Expression = "*",
    begin_timestamp: Begin = None,
    end_timestamp: EndBefore = None,
    print_messages: Annotated[
        TrueFalse,
        typer.Option("-p", "--printMsg", case_sensitive=False, help="With --output mqadmin: show messages."),
    ] = TrueFalse.FALSE,
    print_body: PrintBody = TrueFalse.FALSE,
    calculate: Annotated[
        TrueFalse, typer.Option("-f", "--calculate", case_sensitive=False, help="Count messages by tag.")
    ] = TrueFalse.FALSE,
    sql92: Sql92 = None,
) -> QueueMessages | TagCounts:
    """Finds a rare tag anywhere in the queue; mqadmin stops at the first batch without a match.

      Examples:
    rmqadmin printMsgByQueue -t OrderTopic -a broker-a -i 0 -p true -d true
    rmqadmin printMsgByQueue -t OrderTopic -a broker-a -i 0 -f true
    """
    accepts = sql92_filter(sql92)
    view = BodyView(checked_charset("-c", charset_name.strip()), print_body is TrueFalse.TRUE)
    queue = MessageQueue(topic.strip(), broker_name.strip(), queue_id)
    between = time_range(begin_timestamp, end_timestamp, call.now_ms(), "-b/--since", "-e/--until", tell=call.notice)
    extent.check(between)
    addr = broker_addr_of(call.admin.topic_route(queue.topic), queue.broker_name)
    places, expression = [place(call.admin, queue, addr, between)], sub_expression.strip()
    counts_tags = calculate is TrueFalse.TRUE
    prints = print_messages is TrueFalse.TRUE
    if call.as_mqadmin:
        limit = extent.checked_for_mqadmin()
        reads = read_places(call.admin, places, expression, limit, call.notice, accepts=accepts)
        messages = QueueMessages(reads, view, prints=prints)
        pulled = [pull.messages for read in reads for pull in read.pulls]
        return TagCounts(_tags(pulled), messages.mqadmin_text()) if counts_tags else messages
    reader = QueueReader(call.admin, expression, Sieve.by_properties(accepts), call.notice)
    if counts_tags and extent.follow:
        raise UsageError("-f counts messages, and with --follow they have no end")
    source = extent.source(reader, places, between)
    if not counts_tags:
        return QueueMessages([], view, source, prints=prints)
    return TagCounts(_tags(source), "", source.cut_remark())


def _tags(batches: Iterable[Sequence[FoundMessage]]) -> dict[str | None, int]:
    return dict(Counter(message.properties.get(props.TAGS) for batch in batches for message in batch))
