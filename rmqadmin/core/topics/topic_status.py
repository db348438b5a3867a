"""Where a topic's queues begin and end."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Annotated

from rmqadmin.core.mqadmin_text import BROKER_NAME_WIDTH, cut
from rmqadmin.core.results import TIME, ResultOf, Row, doc
from rmqadmin.core.topics.stored_queues import StoredQueue, UnreadQueue, read_again, unread_text
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.statistics import TopicOffset


class QueueRow(Row, frozen=True):
    broker_name: Annotated[str, doc("broker name", key=True)]
    queue_id: Annotated[int, doc("queue id", key=True)]
    min_offset: Annotated[int, doc("queue offset of the oldest message", minor=True)]
    max_offset: Annotated[int, doc("queue offset that the next message will get", minor=True)]
    message_count: Annotated[int, doc("messages in the queue", vital=True)]
    unread: Annotated[
        bool | None, doc("true: consumers do not read it, the topic has fewer read queues", sparse=True, vital=True)
    ]
    last_updated_ms: Annotated[int | None, TIME, doc("when the newest message was stored; unknown if there is none")]
    topic: Annotated[str | None, doc("topic name, where several are shown", key=True, sparse=True)] = None


class TopicTotals(Row, frozen=True):
    message_count: Annotated[int, doc("messages in all queues")]
    unread_count: Annotated[int | None, doc("messages in queues that consumers do not read", sparse=True)]
    put_tps: Annotated[float, doc("messages stored a second, all brokers together")]


class TopicStatus(ResultOf[QueueRow], frozen=True):
    """Where a topic's queues begin and end, or those of several. ``unread``: those that consumers do not read."""

    offsets: dict[MessageQueue, TopicOffset]
    put_tps: float
    unread: dict[MessageQueue, StoredQueue] = {}

    def rows(self) -> Sequence[QueueRow]:
        is_several = len({queue.topic for queue in self.offsets}) > 1
        return [
            QueueRow(
                topic=queue.topic if is_several else None,
                broker_name=queue.broker_name,
                queue_id=queue.queue_id,
                min_offset=ends.min_offset,
                max_offset=ends.max_offset,
                message_count=ends.max_offset - ends.min_offset,
                unread=queue in self.unread or None,
                last_updated_ms=ends.last_update_timestamp or None,
            )
            for queue, ends in sorted(self.offsets.items())
        ]

    def summary(self) -> TopicTotals:
        return TopicTotals(
            message_count=sum(row.message_count for row in self.rows()),
            unread_count=sum(one.message_count for one in self._unread()) or None,
            put_tps=self.put_tps,
        )

    def _unread(self) -> list[UnreadQueue]:
        return [
            UnreadQueue(queue, one.broker_addr, ends.min_offset, ends.max_offset)
            for queue, one in self.unread.items()
            if (ends := self.offsets[queue]).max_offset > ends.min_offset
        ]

    def remark(self) -> str | None:
        unread = self._unread()
        if not unread:
            return None
        by_topic = groupby(sorted(unread, key=lambda one: one.queue), lambda one: one.queue.topic)
        again = "; ".join(read_again(topic, list(of_topic)) for topic, of_topic in by_topic)
        return f"{unread_text(unread)}; to let them be read: {again}"

    def mqadmin_text(self) -> str:
        from rmqproto.times import mqadmin_time

        text = f"{'#Broker Name':32}  {'#QID':4}  {'#Min Offset':20}  {'#Max Offset':20}    #Last Updated\n"
        for row in self.rows():
            moment = mqadmin_time(row.last_updated_ms, milliseconds=True) if row.last_updated_ms else ""
            name = cut(row.broker_name, BROKER_NAME_WIDTH)
            text += f"{name:32}  {row.queue_id:<4}  {row.min_offset:<20}  {row.max_offset:<20}    {moment}\n"
        return text + "\nTopic Put TPS: 0.0\n"  # mqadmin never adds up the brokers' rates


def joined_status(found: Sequence[TopicStatus]) -> TopicStatus:
    """Several topics in one."""
    return TopicStatus(
        {queue: ends for one in found for queue, ends in one.offsets.items()},
        round(sum(one.put_tps for one in found), 2),
        {queue: stored for one in found for queue, stored in one.unread.items()},
    )
