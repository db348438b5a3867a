"""Admin calls about offsets: the ends of queues, and the offsets of groups in them."""

from __future__ import annotations

from rmqclient.admin.caller import AdminCaller
from rmqproto import bodies, headers
from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers.base import Header, from_ext

CONSUME_STATS_TIMEOUT_FACTOR = 3
"""A broker looks up one message per queue to date a group's offset; mqadmin gives it three times as long."""


class OffsetCalls(AdminCaller):
    """``broker_addr`` is ``host:port`` throughout; all offsets are queue offsets, all times ms since the epoch."""

    def max_offset(self, broker_addr: str, topic: str, queue_id: int) -> int:
        """The queue offset that the next message will get (30); 0 for an unknown queue."""
        header = headers.consuming.QueueHeader(topic=topic, queue_id=queue_id)
        return self._offset(broker_addr, RequestCode.GET_MAX_OFFSET, header)

    def min_offset(self, broker_addr: str, topic: str, queue_id: int) -> int:
        """The offset of the oldest message (31); 0 for an empty or unknown queue."""
        header = headers.consuming.QueueHeader(topic=topic, queue_id=queue_id)
        return max(0, self._offset(broker_addr, RequestCode.GET_MIN_OFFSET, header))

    def queue_ends(self, broker_addr: str, queue: MessageQueue) -> bodies.statistics.TopicOffset:
        """Where a queue begins and ends, also one that ``topic_stats`` leaves out; not when it was last written."""
        ends = [ask(broker_addr, queue.topic, queue.queue_id) for ask in (self.min_offset, self.max_offset)]
        return bodies.statistics.TopicOffset(min_offset=ends[0], max_offset=ends[1], last_update_timestamp=0)

    def search_offset(self, broker_addr: str, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """The offset of the first message stored at or after a time; the end if all are older (29)."""
        header = headers.consuming.SearchOffsetHeader(topic=topic, queue_id=queue_id, timestamp=timestamp_ms)
        return self._offset(broker_addr, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)

    def earliest_store_time(self, broker_addr: str, topic: str, queue_id: int) -> int | None:
        """The store time of a queue's oldest message (32); None if the queue is empty."""
        header = headers.consuming.QueueHeader(topic=topic, queue_id=queue_id)
        answer = self.call(broker_addr, RequestCode.GET_EARLIEST_MSG_STORETIME, header)
        timestamp_ms = from_ext(answer.ext, headers.consuming.TimestampAnswer).timestamp
        return timestamp_ms if timestamp_ms >= 0 else None

    def consumer_offset(self, broker_addr: str, group: str, topic: str, queue_id: int) -> int | None:
        """A group's offset in one queue (14); None if it has none. Only a stored offset is returned: the request tells
        the broker not to answer 0 in its place."""
        header = headers.consuming.QueryConsumerOffsetHeader(
            consumer_group=group, topic=topic, queue_id=queue_id, set_zero_if_not_found=False
        )
        accept = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
        answer = self.call(broker_addr, RequestCode.QUERY_CONSUMER_OFFSET, header, accept=accept)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        return from_ext(answer.ext, headers.consuming.OffsetAnswer).offset

    def update_consumer_offset(
        self, broker_addr: str, group: str, topic: str, queue_id: int, committed_offset: int
    ) -> None:
        """Sets a group's offset in one queue (15). RefusedError with code 17 or 26 for an unknown topic or group.
        Online consumers overwrite it at their next commit; ``reset_offset`` prevents that."""
        header = headers.consuming.UpdateConsumerOffsetHeader(
            consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=committed_offset
        )
        self.call(broker_addr, RequestCode.UPDATE_CONSUMER_OFFSET, header)

    def reset_offset(
        self,
        broker_addr: str,
        topic: str,
        group: str,
        timestamp_ms: int,
        *,
        force: bool = True,
        queue_id: int = -1,
        queue_offset: int | None = None,
    ) -> dict[MessageQueue, int]:
        """Moves a group to a time (-1: the end), or one of its queues to an offset, whether it is online or not (222).
        Returns the new offsets by queue. Without ``force`` a broker that leaves resets to the clients only moves
        offsets back. RefusedError with code 17 or 26 for an unknown topic or group, 1 for an offset that is not in the
        queue."""
        header = headers.consuming.ResetOffsetHeader(
            topic=topic,
            group=group,
            timestamp=timestamp_ms,
            is_force=force,
            queue_id=queue_id,
            offset=queue_offset,
        )
        return self.read(
            broker_addr, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header, bodies.statistics.ResetOffsets
        ).offset_table

    def clone_group_offset(
        self, broker_addr: str, source_group: str, target_group: str, topic: str | None = None, *, offline: bool = False
    ) -> None:
        """Copies a group's offsets on one broker (314). Apache's broker copies nothing if ``topic`` is None."""
        header = headers.tables.CloneGroupOffsetHeader(
            src_group=source_group, dest_group=target_group, topic=topic, offline=offline
        )
        self.call(broker_addr, RequestCode.CLONE_GROUP_OFFSET, header)

    def consume_stats(self, broker_addr: str, group: str, topic: str | None = None) -> bodies.statistics.ConsumeStats:
        """A group's progress in every queue in which it has an offset, or in those of one topic (208)."""
        header = headers.tables.ConsumeStatsHeader(consumer_group=group, topic=topic)
        timeout_s = self.timeout_s * CONSUME_STATS_TIMEOUT_FACTOR
        return self.read(
            broker_addr, RequestCode.GET_CONSUME_STATS, header, bodies.statistics.ConsumeStats, timeout_s=timeout_s
        )

    def consume_time_spans(self, broker_addr: str, topic: str, group: str) -> list[bodies.statistics.QueueTimeSpan]:
        """The time span of each queue's messages, and a group's position in it (303)."""
        header = headers.consuming.TopicGroupHeader(topic=topic, group=group)
        return self.read(
            broker_addr, RequestCode.QUERY_CONSUME_TIME_SPAN, header, bodies.statistics.QueueTimeSpans
        ).consume_time_span_set

    def correction_offsets(
        self, broker_addr: str, topic: str, compare_group: str, filter_groups: list[str]
    ) -> dict[int, int]:
        """The least offset of ``filter_groups`` by queue id, where it is below that of ``compare_group`` (308)."""
        header = headers.tables.CorrectionOffsetHeader(
            topic=topic, compare_group=compare_group, filter_groups=",".join(filter_groups)
        )
        code = RequestCode.QUERY_CORRECTION_OFFSET
        return self.read(broker_addr, code, header, bodies.statistics.CorrectionOffsets).correction_offsets

    def all_consumer_offsets(self, broker_addr: str) -> bodies.statistics.ConsumerOffsetsBody:
        """Every offset of every group on one broker (43)."""
        return self.read(broker_addr, RequestCode.GET_ALL_CONSUMER_OFFSET, None, bodies.statistics.ConsumerOffsetsBody)

    def _offset(self, broker_addr: str, code: RequestCode, header: Header) -> int:
        return from_ext(self.call(broker_addr, code, header).ext, headers.consuming.OffsetAnswer).offset
