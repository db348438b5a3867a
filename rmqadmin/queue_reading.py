"""Reading queues from one offset to another without being a consumer: nothing is committed, nobody is disturbed.

Every pull counts in the broker's "get" statistics. A tag filter is applied by the broker, which knows hashes of tags,
and once more here; a batch without a match is no end.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from rmqadmin.lookup import FoundMessage
from rmqadmin.times import TimeRange
from rmqclient.admin import AdminClient
from rmqclient.admin.messages import TOOLS_CONSUMER_GROUP
from rmqclient.pull import PULL_BATCH_COUNT, PullStatus
from rmqproto import properties as props
from rmqproto.bodies import MessageQueue, TopicRoute
from rmqproto.record import StoredMessage

READ_COUNT_DEFAULT = 10_000
"""Messages that one call shows unless it is told otherwise: they are held in memory."""

MQADMIN_STATUS = {
    PullStatus.FOUND: "FOUND",
    PullStatus.NO_NEW: "NO_NEW_MSG",
    PullStatus.NO_MATCHED: "NO_MATCHED_MSG",
    PullStatus.OFFSET_ILLEGAL: "OFFSET_ILLEGAL",
}
"""``PullStatus`` of Apache's client."""

_PERM_READ = 4
_ALL_TAGS = "*"


class QueuePlace(msgspec.Struct, frozen=True):
    """A queue, where it is, and what is wanted of it: queue offsets from ``begin`` up to but not including ``end``."""

    queue: MessageQueue
    broker_addr: str
    begin_offset: int
    end_offset: int


class Pulled(msgspec.Struct, frozen=True):
    """One pull. ``min_offset`` and ``max_offset`` are the queue's ends at that moment."""

    status: PullStatus
    messages: list[FoundMessage]
    next_offset: int
    min_offset: int
    max_offset: int

    def as_java_has_them(self) -> list[FoundMessage]:
        """The messages with the two properties that Apache's client adds to what it pulls."""
        ends = {props.MIN_OFFSET: str(self.min_offset), props.MAX_OFFSET: str(self.max_offset)}
        return [msgspec.structs.replace(one, properties={**one.properties, **ends}) for one in self.messages]


class QueueRead(msgspec.Struct, frozen=True):
    """What was read of one queue."""

    place: QueuePlace
    pulls: list[Pulled]


def readable_queues(route: TopicRoute, topic: str) -> list[tuple[MessageQueue, str]]:
    """A topic's queues that may be read, sorted, with their brokers' addresses."""
    addrs = {broker.broker_name: broker.selected_addr() for broker in route.broker_datas}
    return sorted(
        (MessageQueue(topic, queues.broker_name, queue_id), addr)
        for queues in route.queue_datas
        if queues.perm & _PERM_READ and (addr := addrs.get(queues.broker_name)) is not None
        for queue_id in range(queues.read_queue_nums)
    )


def place(admin: AdminClient, queue: MessageQueue, broker_addr: str, between: TimeRange) -> QueuePlace:
    """All of a queue, or what was stored from a time on and before another."""
    begin = admin.min_offset(broker_addr, queue.topic, queue.queue_id)
    end = admin.max_offset(broker_addr, queue.topic, queue.queue_id)
    if between.begin_ms is not None:
        begin = admin.search_offset(broker_addr, queue.topic, queue.queue_id, between.begin_ms)
    if between.end_ms is not None:
        end = admin.search_offset(broker_addr, queue.topic, queue.queue_id, between.end_ms)
    return QueuePlace(queue, broker_addr, begin, end)


def pulls(
    admin: AdminClient,
    where: QueuePlace,
    *,
    expression: str = _ALL_TAGS,
    group: str = TOOLS_CONSUMER_GROUP,
    is_exact: bool = False,
) -> Iterator[Pulled]:
    """Pulls until ``end_offset``, the queue's end, or where a pull leads nowhere. A pull may bring messages from past
    ``end_offset``, as mqadmin's do, unless it ``is_exact``."""
    offset = where.begin_offset
    while offset < where.end_offset:
        count = min(PULL_BATCH_COUNT, where.end_offset - offset) if is_exact else PULL_BATCH_COUNT
        answer = admin.pull_message(
            where.broker_addr, where.queue, offset, max_count=count, expression=expression, group=group
        )
        found = [_found(stored, where) for stored in answer.messages]
        yield Pulled(
            answer.status,
            [message for message in found if _is_wanted(message, expression)],
            answer.next_begin_offset,
            answer.min_offset,
            answer.max_offset,
        )
        if answer.status in (PullStatus.NO_NEW, PullStatus.OFFSET_ILLEGAL) or answer.next_begin_offset <= offset:
            return
        offset = answer.next_begin_offset


def _found(stored: StoredMessage, where: QueuePlace) -> FoundMessage:
    return FoundMessage(stored, where.queue.broker_name, where.broker_addr, stored.properties)


def _is_wanted(message: FoundMessage, expression: str) -> bool:
    wanted = {tag.strip() for tag in expression.split("||")}
    return _ALL_TAGS in wanted or message.properties.get(props.TAGS) in wanted
