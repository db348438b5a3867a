"""Tells operators how far a stream is: the offsets of a consumer group, which nothing reads back. They are written
after a batch is committed, so they are never ahead of it."""

from __future__ import annotations

from time import monotonic

from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError, RocketMQError
from rmqreplay.source.live import LiveCluster
from rmqreplay.source.offset_ranges import queue_text
from rmqreplay.source.pulling import is_passing, is_silence
from spark_tools.spark_worker import tell
from spark_tools.streaming.offsets import Places

AGAIN_EVERY_S = 5.0
"""Offsets that stay are written as often as consumers write them: a broker may have lost them, or another have become
master."""


class GroupCommits:
    """Over an open cluster. A group that a broker refuses is an error as long as none has taken it. Later, an offset
    that cannot be written is told, once for each broker and reason, and tried again at the next batch: the stream goes
    on."""

    def __init__(self, cluster: LiveCluster, group: str):
        self._cluster = cluster
        self._group = group
        self._written: dict[MessageQueue, int] = {}
        self._again_at_s = 0.0
        self._was_taken = False
        self._failures: dict[str, str] = {}
        """Why brokers did not take an offset of the last batch."""

    def write(self, places: Places) -> None:
        if monotonic() >= self._again_at_s:
            self._written.clear()
            self._again_at_s = monotonic() + AGAIN_EVERY_S
        away, failures = set[str](), dict[str, str]()
        for queue, offset in places.items():
            if self._written.get(queue) == offset or queue.broker_name in away:
                continue
            try:
                address = self._cluster.master(queue.topic, queue.broker_name)
                self._cluster.admin.update_consumer_offset(address, self._group, queue.topic, queue.queue_id, offset)
            except RocketMQError as error:
                if isinstance(error, RefusedError) and not self._was_taken and not is_passing(error):
                    error.hint = self._hint(error, queue.topic)
                    raise
                if failures.setdefault(queue.broker_name, str(error)) != self._failures.get(queue.broker_name):
                    tell(f"the offset of {self._group} in {queue_text(queue)} is not written: {error}")
                    self._failures[queue.broker_name] = failures[queue.broker_name]
                if is_silence(error):  # to ask for each of its queues would hold the stream
                    away.add(queue.broker_name)
            else:
                self._written[queue], self._was_taken = offset, True
        self._failures = failures

    def _hint(self, error: RefusedError, topic: str) -> str | None:
        if error.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
            return f"commitGroup needs the group {self._group} on each broker: rmqadmin updateSubGroup"
        if error.code == ResponseCode.NO_PERMISSION:
            return f"commitGroup needs Sub on the topic {topic} and on the group {self._group}"
        return error.hint
