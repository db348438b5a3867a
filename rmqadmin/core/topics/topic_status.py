"""Where a topic's queues begin and end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from rmqadmin.core.mqadmin_text import BROKER_NAME_WIDTH, cut
from rmqadmin.core.results import TIME, Result, Row, doc
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.statistics import TopicOffset


class QueueRow(Row, frozen=True):
    broker_name: Annotated[str, doc("broker name", key=True)]
    queue_id: Annotated[int, doc("queue id", key=True)]
    min_offset: Annotated[int, doc("queue offset of the oldest message", minor=True)]
    max_offset: Annotated[int, doc("queue offset that the next message will get", minor=True)]
    message_count: Annotated[int, doc("messages in the queue", vital=True)]
    last_updated_ms: Annotated[int | None, TIME, doc("when the newest message was stored; unknown if there is none")]


class TopicTotals(Row, frozen=True):
    message_count: Annotated[int, doc("messages in all queues")]
    put_tps: Annotated[float, doc("messages stored a second, all brokers together")]


class TopicStatus(Result, frozen=True):
    """Where a topic's queues begin and end."""

    row_type: ClassVar[type[Row]] = QueueRow
    offsets: dict[MessageQueue, TopicOffset]
    put_tps: float

    def rows(self) -> Sequence[QueueRow]:
        return [
            QueueRow(
                broker_name=queue.broker_name,
                queue_id=queue.queue_id,
                min_offset=ends.min_offset,
                max_offset=ends.max_offset,
                message_count=ends.max_offset - ends.min_offset,
                last_updated_ms=ends.last_update_timestamp or None,
            )
            for queue, ends in sorted(self.offsets.items())
        ]

    def summary(self) -> TopicTotals:
        return TopicTotals(message_count=sum(row.message_count for row in self.rows()), put_tps=self.put_tps)

    def mqadmin_text(self) -> str:
        from rmqproto.times import mqadmin_time

        text = f"{'#Broker Name':32}  {'#QID':4}  {'#Min Offset':20}  {'#Max Offset':20}    #Last Updated\n"
        for row in self.rows():
            moment = mqadmin_time(row.last_updated_ms, milliseconds=True) if row.last_updated_ms else ""
            name = cut(row.broker_name, BROKER_NAME_WIDTH)
            text += f"{name:32}  {row.queue_id:<4}  {row.min_offset:<20}  {row.max_offset:<20}    {moment}\n"
        return text + "\nTopic Put TPS: 0.0\n"  # mqadmin never adds up the brokers' rates
