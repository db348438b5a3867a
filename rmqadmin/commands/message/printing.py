"""mqadmin's ways to read a topic, one queue, or a file of a compacted log."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import A_BROKER_NAME, Topic, TrueFalse
from rmqadmin.cli.options.common_options import Value, option
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
from rmqadmin.core.files import read_bytes
from rmqadmin.core.messages.lookup import FoundMessage, found_message
from rmqadmin.core.messages.message_rows import (
    StoredMessageRow,
    checked_charset,
    message_ext_text,
    message_values,
    unpacked,
)
from rmqadmin.core.messages.message_source import QueueReader, Sieve
from rmqadmin.core.messages.queue_reading import all_queues, place, places_of, readable_queues, sql92_filter
from rmqadmin.core.messages.read_messages import BodyView, ReadMessages, read_places
from rmqadmin.core.results import ResultOf, Row, doc
from rmqadmin.core.topics.routes import broker_addr_of
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import ProtocolError, UsageError
from rmqproto.message import properties as props
from rmqproto.message.record import MAGIC_BLANK, StoredMessage, decode_record_untrusted
from rmqproto.times import time_range


def print_msg(
    call: Call,
    topic: Topic,
    extent: ReadExtent,
    charset_name: Charset = "UTF-8",
    sub_expression: Expression = "*",
    begin_timestamp: Begin = None,
    end_timestamp: EndBefore = None,
    print_body: PrintBody = TrueFalse.TRUE,
    lmq_parent_topic: Annotated[
        str | None, Value.TOPIC, option("-l", "--lmqParentTopic", "Look up this topic's route (LMQ parent).")
    ] = None,
    sql92: Sql92 = None,
) -> ReadMessages:
    """Reads queue after queue, or in order of time with --tail and --follow. Nothing is consumed: no offset moves.

    rmqadmin printMsg -t OrderTopic
    rmqadmin printMsg -t OrderTopic -s 'paid || shipped' -b -1h..now -d false
    rmqadmin printMsg -t OrderTopic --tail 20
    rmqadmin -o jsonl printMsg -t OrderTopic --follow --limit 100
    rmqadmin printMsg -t OrderTopic --sql92 "price > 100 AND region IN ('eu', 'us')"
    """
    accepts = sql92_filter(sql92)
    view = BodyView(checked_charset("-c", charset_name.strip()), print_body is TrueFalse.TRUE)
    between = time_range(begin_timestamp, end_timestamp, call.now_ms(), "-b/--since", "-e/--until", tell=call.notice)
    extent.check(between)
    route = call.admin.topic_route(lmq_parent_topic or topic)
    queues = readable_queues(route, topic) if call.as_mqadmin else all_queues(call.admin, route, topic, call.notice)
    places = places_of(call.admin, queues, between, call.answers)
    expression = sub_expression.strip()
    if call.as_mqadmin:
        limit = extent.checked_for_mqadmin()
        reads = read_places(call.admin, places, expression, limit, call.notice, accepts=accepts)
        return ReadMessages(reads, view)
    answers = None if extent.follow else call.answers
    reader = QueueReader(call.admin, expression, Sieve.by_properties(accepts), call.notice, answers)
    return ReadMessages([], view, extent.source(reader, places, between))


class TagRow(Row, frozen=True):
    tags: Annotated[str | None, doc("tag; none for messages without one", key=True)]
    message_count: Annotated[int, doc("messages that have it")]


class TagCounts(ResultOf[TagRow], frozen=True):
    """With -f true: how many messages have which tag."""

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
    broker_name: Annotated[str, A_BROKER_NAME, Value.BROKER_NAME, option("-a", "--brokerName", "Broker name.")],
    queue_id: QueueId,
    extent: ReadExtent,
    charset_name: Charset = "UTF-8",
    sub_expression: Expression = "*",
    begin_timestamp: Begin = None,
    end_timestamp: EndBefore = None,
    print_messages: Annotated[
        TrueFalse, option("-p", "--printMsg", "With --output mqadmin: show messages.")
    ] = TrueFalse.FALSE,
    print_body: PrintBody = TrueFalse.FALSE,
    calculate: Annotated[TrueFalse, option("-f", "--calculate", "Count messages by tag.")] = TrueFalse.FALSE,
    sql92: Sql92 = None,
) -> QueueMessages | TagCounts:
    """Finds a rare tag anywhere in the queue; mqadmin stops at the first batch without a match.

    rmqadmin printMsgByQueue -t OrderTopic -a broker-a -i 0 -p true -d true
    rmqadmin printMsgByQueue -t OrderTopic -a broker-a -i 0 -f true
    """
    accepts = sql92_filter(sql92)
    view = BodyView(checked_charset("-c", charset_name.strip()), print_body is TrueFalse.TRUE)
    queue = MessageQueue(topic, broker_name, queue_id)
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


FILE_SIZE_MAX_BYTES = 2 << 30
"""Apache maps the file, which cannot be larger than this."""

_BLANK_MAGIC = MAGIC_BLANK.to_bytes(4, "big", signed=True)
"""Stands behind its size, where a full file of a commit log has no room for another message."""


class LoggedMessages(ResultOf[StoredMessageRow], frozen=True):
    """The messages of a file, up to the first bytes that are not a message."""

    found: list[FoundMessage]
    broken: str | None = None
    """What is wrong with the bytes behind the last message; None if nothing is."""

    def rows(self) -> Sequence[StoredMessageRow]:
        return [StoredMessageRow(**message_values(message)) for message in self.found]

    def mqadmin_text(self) -> str:
        return "".join(f"{message_ext_text(message, message.stored.body)}\n" for message in self.found)

    def damage(self) -> str | None:
        return self.broken


def dump_compaction_log(
    call: Call,
    file: Annotated[str | None, Value.FILE, option("-f", "--file", "A file of store/compaction/compactionLog.")] = None,
) -> LoggedMessages:
    """Asks no server. Only reads the file; mqadmin maps it for writing. Any file of whole records will do, such as one
    of a commit log.

      rmqadmin dumpCompactionLog -f compaction.log
      rmqadmin -o jsonl dumpCompactionLog -f compaction.log
    """
    if file is None:
        raise UsageError("miss dump log file name", hint="Give it with -f.")
    path = Path(file.strip())
    if path.is_dir():
        raise UsageError(f"file {path} is a directory.", hint="Give one of the files in it.")
    if path.exists() and path.stat().st_size > FILE_SIZE_MAX_BYTES:
        raise UsageError(f"{path} is larger than 2 GiB", hint="A file of a log has at most 1 GiB.")
    records, broken = _records(read_bytes(path))
    if broken is not None and not records:
        raise UsageError(f"{path} is not a log: {broken}", hint="The files of a log are named by 20 digits.")
    found = [unpacked(found_message(stored, "", ""), call.notice) for stored in records]
    return LoggedMessages(found, broken and f"{path} is damaged: {broken}")


def _records(data: bytes) -> tuple[list[StoredMessage], str | None]:
    """The messages up to the first bytes that are not a message, and what is wrong with these bytes: nothing if they
    are a blank record, or zeros, which means that the rest is not written yet."""
    at = 0
    found: list[StoredMessage] = []
    while at < len(data):
        try:
            message = decode_record_untrusted(data, at)
        except ProtocolError as error:
            is_end = data.startswith(_BLANK_MAGIC, at + 4) or data.count(0, at) == len(data) - at
            return found, None if is_end else str(error)
        found.append(message)
        at += message.size_bytes
    return found, None
