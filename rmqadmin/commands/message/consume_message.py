"""``consumeMessage``: shows some messages of a topic, from the beginning or from an offset. Commits no offset."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import A_BROKER_NAME, LONG, Topic
from rmqadmin.cli.options.common_options import Value, option
from rmqadmin.cli.options.message_options import EndBefore, Sql92
from rmqadmin.core.messages.queue_reading import (
    MQADMIN_STATUS,
    QueuePlace,
    QueuePull,
    QueueRead,
    all_queues,
    place,
    places_of,
    pulls,
    readable_queues,
    sql92_filter,
)
from rmqadmin.core.messages.read_messages import BodyView, ReadMessages, decompressed
from rmqadmin.core.mqadmin_text import queue_text
from rmqadmin.core.topics.routes import broker_addr_of
from rmqclient.pull import PullStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import TopicRoute
from rmqproto.errors import NotFoundError, UsageError
from rmqproto.filters.message_filter import AcceptsProperties
from rmqproto.names import TOOLS_CONSUMER_GROUP
from rmqproto.times import TimeRange, time_range

CONSUME_COUNT_DEFAULT = 128


class Part(msgspec.Struct, frozen=True):
    """The part of one queue to read. ``heading``: mqadmin's line above it."""

    place: QueuePlace
    heading: str = ""
    is_beyond_end: bool = False


class ConsumedMessages(ReadMessages, frozen=True):
    """Messages in the order of their queues."""

    headings: list[str] = []

    def mqadmin_text(self) -> str:
        text = ""
        for heading, read in zip(self.headings, self.reads, strict=True):
            text += heading
            for pulled in read.pulls:
                if pulled.status is PullStatus.FOUND:
                    text += "Consume ok\n" + "".join(map(self.view.mqadmin_line, pulled.as_java_has_them()))
                else:
                    what = "no matched msg." if pulled.status is PullStatus.NO_MATCHED else "print msg finished."
                    said = f"status={MQADMIN_STATUS[pulled.status]}, offset={pulled.next_offset}"
                    text += f"{queue_text(read.place.queue)} {what} {said}\n"
        return text


def consume_message(
    call: Call,
    topic: Topic,
    broker_name: Annotated[
        str | None, A_BROKER_NAME, Value.BROKER_NAME, option("-b", "--brokerName", "This broker's queues only.")
    ] = None,
    queue_id: Annotated[int | None, option("-i", "--queueId", "With -b: this queue only.", min=0)] = None,
    offset: Annotated[int | None, LONG, option("-o", "--offset", "With -i: from this offset on.", min=0)] = None,
    consumer_group: Annotated[
        str, Value.GROUP, option("-g", "--consumerGroup", "Read in the name of this group.")
    ] = TOOLS_CONSUMER_GROUP,
    begin_timestamp: Annotated[
        str | None,
        Value.TIME,
        option("-s", "--since", "--beginTimestamp", "Stored at or after (1h: an hour ago); or a range A..B."),
    ] = None,
    end_timestamp: EndBefore = None,
    message_number: Annotated[int, LONG, option("-c", "--MessageNumber", "How many messages.")] = CONSUME_COUNT_DEFAULT,
    sql92: Sql92 = None,
) -> ConsumedMessages:
    """Reads queue after queue, each from its oldest message on, until there are enough.

    rmqadmin consumeMessage -t OrderTopic -c 10
    rmqadmin consumeMessage -t OrderTopic -b broker-a -i 0 -o 2 -c 2
    rmqadmin -o json consumeMessage -t OrderTopic -s -1h..now
    rmqadmin consumeMessage -t OrderTopic -c 1 --sql92 "price > 100"
    """
    accepts = sql92_filter(sql92)
    between = _checked(call, broker_name, queue_id, offset, begin_timestamp, end_timestamp, message_number)
    route = call.admin.topic_route(topic)
    if queue_id is None:
        places = places_of(call.admin, _queues(call, route, topic, broker_name), between, call.answers)
        parts = list(map(Part, places))
        if accepts is None:
            parts = _shared_out(places, message_number, is_mqadmins=call.as_mqadmin)
    else:
        queue = MessageQueue(topic, broker_name or "", queue_id)
        where = place(call.admin, queue, broker_addr_of(route, queue.broker_name), between)
        span_max = message_number if accepts is None else where.end_offset
        parts = [_from_offset(where, offset or 0, span_max, is_mqadmins=call.as_mqadmin)]
        if parts[0].is_beyond_end and not call.as_mqadmin:
            raise NotFoundError(
                f"the queue has no message at {offset or 0}", hint=f"It ends at queue offset {where.end_offset}."
            )
    reads = _read(call, [part.place for part in parts], consumer_group, accepts, message_number)
    return ConsumedMessages(
        reads, BodyView("UTF-8", with_body=True), headings=[part.heading for part in parts[: len(reads)]]
    )


def _checked(
    call: Call,
    broker_name: str | None,
    queue_id: int | None,
    offset: int | None,
    begin: str | None,
    end: str | None,
    count: int,
) -> TimeRange:
    """The time range of ``-s`` and ``-e``. UsageError, in mqadmin's words, for invalid options."""
    if count <= 0:
        raise UsageError("Please input a positive messageNumber!")
    if queue_id is not None and broker_name is None:
        raise UsageError("Please set the brokerName before queueId!", hint="Add -b BROKER_NAME.")
    if offset is not None and queue_id is None:
        raise UsageError("Please set queueId before offset!", hint="Add -i QUEUE_ID.")
    now_ms = call.now_ms()
    between = time_range(begin, end, now_ms, "-s/--since", "-e/--until", tell=call.notice)
    if between.end_ms is not None and between.end_ms > now_ms:
        raise UsageError("Please set the endTimestamp before now!")
    return between


def _queues(call: Call, route: TopicRoute, topic: str, broker_name: str | None) -> list[tuple[MessageQueue, str]]:
    name = topic.strip()
    found = dict(readable_queues(route, name) if call.as_mqadmin else all_queues(call.admin, route, name, call.notice))
    if broker_name is not None:
        broker_addr_of(route, broker_name.strip())
        found = {queue: addr for queue, addr in found.items() if queue.broker_name == broker_name.strip()}
    if call.as_mqadmin:
        return [(queue, found[queue]) for queue in sorted(found)]
    return list(found.items())


def _shared_out(places: Sequence[QueuePlace], count: int, *, is_mqadmins: bool) -> list[Part]:
    """How many messages to take from each queue. ``is_mqadmins``: mqadmin also counts the offset after a queue's last
    message."""
    parts: list[Part] = []
    extra = 1 if is_mqadmins else 0
    left = count
    for where in places:
        if left == 0:
            break
        span = where.end_offset - where.begin_offset
        if span > left:
            heading = f"The older {left} message of the {where.queue.queue_id} queue will be provided\n"
            parts.append(Part(msgspec.structs.replace(where, end_offset=where.begin_offset + left), heading))
            left = 0
        else:
            parts.append(Part(msgspec.structs.replace(where, end_offset=where.end_offset + extra)))
            left -= span + extra
    return parts


def _from_offset(where: QueuePlace, offset: int, count: int, *, is_mqadmins: bool) -> Part:
    if offset > where.end_offset or (offset == where.end_offset and not is_mqadmins):
        nothing = msgspec.structs.replace(where, end_offset=where.begin_offset)
        heading = f"{queue_text(where.queue)} no matched msg, offset={offset}\n"
        return Part(nothing, heading, is_beyond_end=True)
    begin = max(where.begin_offset, offset)
    if where.end_offset - begin > count:
        cut = msgspec.structs.replace(where, begin_offset=begin, end_offset=begin + count)
        return Part(cut, f"The oldler {count} message will be provided\n")
    extra = 1 if is_mqadmins else 0
    return Part(msgspec.structs.replace(where, begin_offset=begin, end_offset=where.end_offset + extra))


def _read(
    call: Call, places: Sequence[QueuePlace], group: str, accepts: AcceptsProperties | None, count: int
) -> list[QueueRead]:
    """The messages of the places. With ``accepts``, the first ``count`` messages that it accepts; the places then cover
    more than ``count`` messages."""
    reads: list[QueueRead] = []
    left = count
    for where in places:
        found: list[QueuePull] = []
        for pulled in pulls(call.admin, where, accepts=accepts, group=group, is_exact=True, answers=call.answers):
            if accepts is not None:
                pulled = msgspec.structs.replace(pulled, messages=pulled.messages[:left])
                left -= len(pulled.messages)
            found.append(decompressed(pulled, call.notice))
            if left == 0:
                break
        reads.append(QueueRead(where, found))
        if left == 0:
            break
    return reads
