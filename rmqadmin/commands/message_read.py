"""``printMsg`` and ``printMsgByQueue``: all messages of a topic or of a queue, between two times if wanted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, ClassVar

import msgspec
import typer

from rmqadmin.call import Call
from rmqadmin.commands.message_key import time_range
from rmqadmin.commands.message_offset import broker_addr_of
from rmqadmin.lookup import FoundMessage
from rmqadmin.message_options import Begin, EndBefore, PrintBody, QueueId
from rmqadmin.message_rows import StoredMessageRow, checked_charset, message_ext_text, message_values, plain_body
from rmqadmin.mqadmin_text import hash_order, queue_hash, queue_text
from rmqadmin.options import Topic, TrueFalse
from rmqadmin.output import Format
from rmqadmin.queue_reading import (
    MQADMIN_STATUS,
    READ_COUNT_DEFAULT,
    Pulled,
    QueuePlace,
    QueueRead,
    place,
    pulls,
    readable_queues,
)
from rmqadmin.results import Result, Row, doc
from rmqclient.pull import PullStatus
from rmqproto import properties as props
from rmqproto.bodies import MessageQueue
from rmqproto.java_hash import java_hash

Charset = Annotated[str, typer.Option("-c", "--charsetName", metavar="CHARSET", help="Charset of the bodies.")]
Expression = Annotated[
    str, typer.Option("-s", "--subExpression", metavar="TAGS", help="Only these tags: TagA || TagB.")
]
MaxCount = Annotated[int, typer.Option("--max-count", min=1, help="Stop after about so many messages.")]


class BodyView(msgspec.Struct, frozen=True):
    """How bodies are shown."""

    charset: str
    with_body: bool

    def mqadmin_line(self, message: FoundMessage) -> str:
        body = message.stored.body
        shown = body.decode(self.charset, "replace") if self.with_body else "NOT PRINT BODY"
        return f"MSGID: {message.message_id} {message_ext_text(message, body)} BODY: {shown}\n"


class ReadMessages(Result, frozen=True):
    """Messages in the order of their queues."""

    row_type: ClassVar[type[Row]] = StoredMessageRow
    reads: list[QueueRead]
    view: BodyView

    def rows(self) -> Sequence[StoredMessageRow]:
        return [
            StoredMessageRow(
                **message_values(message, message.stored.body, charset=self.view.charset, with_body=self.view.with_body)
            )
            for read in self.reads
            for pulled in read.pulls
            for message in pulled.messages
        ]

    def mqadmin_text(self) -> str:
        by_queue = {read.place.queue: read for read in self.reads}
        return "".join(self._queue_text(by_queue[queue]) for queue in hash_order(by_queue, queue_hash))

    def _queue_text(self, read: QueueRead) -> str:
        where = read.place
        name = queue_text(where.queue)
        text = f"minOffset={where.begin_offset}, maxOffset={where.end_offset}, {name}\n"
        for pulled in read.pulls:
            text += self._pull_text(name, pulled)
        return text + "-" * 56 + "\n"

    def _pull_text(self, name: str, pulled: Pulled) -> str:
        if pulled.status is PullStatus.FOUND:
            return "".join(map(self.view.mqadmin_line, pulled.as_java_has_them()))
        what = "no matched msg." if pulled.status is PullStatus.NO_MATCHED else "print msg finished."
        return f"{name} {what} status={MQADMIN_STATUS[pulled.status]}, offset={pulled.next_offset}\n"


def print_msg(
    call: Call,
    topic: Topic,
    charset_name: Charset = "UTF-8",
    sub_expression: Expression = "*",
    begin_timestamp: Begin = None,
    end_timestamp: EndBefore = None,
    print_body: PrintBody = TrueFalse.TRUE,
    lmq_parent_topic: Annotated[
        str | None,
        typer.Option("-l", "--lmqParentTopic", metavar="TOPIC", help="Look up this topic's route (LMQ parent)."),
    ] = None,
    max_count: MaxCount = READ_COUNT_DEFAULT,
) -> ReadMessages:
    """Queue after queue. Nothing is consumed: no offset moves.

    Examples:
      rmqadmin printMsg -t OrderTopic
      rmqadmin printMsg -t OrderTopic -s 'paid || shipped' -b -1h..now -d false
      rmqadmin -o jsonl printMsg -t OrderTopic --max-count 100
    """
    view = BodyView(checked_charset("-c", charset_name.strip()), print_body is TrueFalse.TRUE)
    route = call.admin.topic_route((lmq_parent_topic or topic).strip())
    between = time_range(begin_timestamp, end_timestamp, call.now_ms())
    places = [place(call.admin, queue, addr, between) for queue, addr in readable_queues(route, topic.strip())]
    return ReadMessages(read_places(call, places, sub_expression.strip(), max_count), view)


def read_places(call: Call, places: Sequence[QueuePlace], expression: str, max_count: int) -> list[QueueRead]:
    """Reads queue after queue until ``max_count`` messages are there; says so where there are more."""
    reads: list[QueueRead] = []
    count = 0
    is_exact = call.format is not Format.MQADMIN  # which shows what a batch brings past the end, too
    for where in places:
        found: list[Pulled] = []
        if count < max_count:
            for pulled in pulls(call.admin, where, expression=expression, is_exact=is_exact):
                found.append(decompressed(call, pulled))
                count += len(pulled.messages)
                if count >= max_count:
                    break
        reads.append(QueueRead(where, found))
    if count >= max_count:
        call.notice(f"stopped after {count} messages; --max-count reads more")
    return reads


def decompressed(call: Call, pulled: Pulled) -> Pulled:
    """Rows and texts want the body as it was sent; the other fields stay as stored."""
    messages = [
        msgspec.structs.replace(one, stored=msgspec.structs.replace(one.stored, body=plain_body(call, one)))
        for one in pulled.messages
    ]
    return msgspec.structs.replace(pulled, messages=messages)


# --- printMsgByQueue -------------------------------------------------------------------------------------------------


class TagRow(Row, frozen=True):
    tags: Annotated[str | None, doc("tag; none for messages without one", key=True)]
    message_count: Annotated[int, doc("messages that have it")]


class TagCounts(Result, frozen=True):
    """With -f true: how many messages have which tag."""

    row_type: ClassVar[type[Row]] = TagRow
    counts: dict[str | None, int]
    mqadmin_messages: str

    def rows(self) -> Sequence[TagRow]:
        found = sorted(self.counts.items(), key=lambda item: (-item[1], item[0] or ""))
        return [TagRow(tags=tag, message_count=count) for tag, count in found]

    def mqadmin_text(self) -> str:
        named = hash_order([tag for tag in self.counts if tag and tag.strip()], java_hash)
        ordered = sorted(named, key=lambda tag: -self.counts[tag])
        return self.mqadmin_messages + "".join(f"Tag: {tag:30} Count: {self.counts[tag]}\n" for tag in ordered)


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
    broker_name: Annotated[str, typer.Option("-a", "--brokerName", metavar="NAME", help="Broker name.")],
    queue_id: QueueId,
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
    max_count: MaxCount = READ_COUNT_DEFAULT,
) -> QueueMessages | TagCounts:
    """A tag that is rare is found wherever it is; mqadmin stops at the first batch without a match.

    Examples:
      rmqadmin printMsgByQueue -t OrderTopic -a broker-a -i 0 -p true -d true
      rmqadmin printMsgByQueue -t OrderTopic -a broker-a -i 0 -f true
    """
    view = BodyView(checked_charset("-c", charset_name.strip()), print_body is TrueFalse.TRUE)
    queue = MessageQueue(topic.strip(), broker_name.strip(), queue_id)
    addr = broker_addr_of(call.admin.topic_route(queue.topic), queue.broker_name)
    between = time_range(begin_timestamp, end_timestamp, call.now_ms())
    reads = read_places(call, [place(call.admin, queue, addr, between)], sub_expression.strip(), max_count)
    messages = QueueMessages(reads, view, prints=print_messages is TrueFalse.TRUE)
    if calculate is not TrueFalse.TRUE:
        return messages
    tags = Counter(
        message.properties.get(props.TAGS) for read in reads for pulled in read.pulls for message in pulled.messages
    )
    return TagCounts(dict(tags), messages.mqadmin_text())
