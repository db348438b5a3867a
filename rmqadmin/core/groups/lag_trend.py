"""How old a lag is, how it changes, and how long the messages in it are still kept.

A broker deletes a file of its log when the newest message in it is older than ``fileReservedTime`` hours, so a message
is safe for that long after it was stored.
"""

import time
from collections.abc import Mapping
from enum import StrEnum

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.groups.consumption import GroupOffsets
from rmqadmin.core.units import duration
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.statistics import ConsumeOffset, lag_of

SAMPLE_DEFAULT_S = 6.0
"""Longer than the time between two commits of a client."""

LAG_AGE_MS = 5 * 60_000
"""A lag whose oldest message has waited for less than this is no cause for concern."""

FORETOLD_FROM_MS = 10_000
"""An earlier end than this is not foretold: a lag that comes and goes within two readings says nothing about it."""


class Idle(msgspec.Struct, frozen=True):
    """For how long a group with lag has consumed nothing, or no more than ``consumed_count`` messages between two that
    held it up, and how much its lag has grown in that time."""

    for_ms: int
    lag_grown_count: int
    consumed_count: int = 0


class LagMotion(StrEnum):
    GROWING = "growing"
    SHRINKING = "shrinking"
    STEADY = "steady"


class LagTrend(msgspec.Struct, frozen=True):
    """How a group's lag changed in ``elapsed_s``, over the queues in both readings."""

    elapsed_s: float
    lag_before_count: int
    lag_count: int
    consumed_count: int

    @property
    def motion(self) -> LagMotion:
        if self.lag_count == self.lag_before_count:
            return LagMotion.STEADY
        return LagMotion.GROWING if self.lag_count > self.lag_before_count else LagMotion.SHRINKING

    @property
    def consumed_tps(self) -> float:
        return self._per_s(self.consumed_count)

    @property
    def arrived_tps(self) -> float:
        return self._per_s(self.lag_count - self.lag_before_count + self.consumed_count)

    @property
    def drain_ms(self) -> int | None:
        """How long until no lag is left at this rate. None if the lag does not shrink."""
        if self.lag_count == 0:
            return 0
        shrunk_per_s = self._per_s(self.lag_before_count - self.lag_count)
        return round(self.lag_count / shrunk_per_s * 1000) if shrunk_per_s > 0 else None

    @property
    def drain_text(self) -> str:
        """When no lag is left, in words."""
        return "never at this rate" if self.drain_ms is None else f"in {duration(self.drain_ms)}"

    def _per_s(self, count: int) -> float:
        return count / self.elapsed_s if self.elapsed_s > 0 else 0.0


def trend_of(before: GroupOffsets, after: GroupOffsets, elapsed_s: float) -> LagTrend:
    both = [queue for queue in after.offsets if queue in before.offsets]
    return LagTrend(
        elapsed_s,
        sum(lag_of(before.offsets[queue]) for queue in both),
        sum(lag_of(after.offsets[queue]) for queue in both),
        sum(after.offsets[queue].consumer_offset - before.offsets[queue].consumer_offset for queue in both),
    )


def stuck_queues(before: GroupOffsets, after: GroupOffsets) -> list[MessageQueue]:
    """Queues whose committed offset did not move although messages were waiting all the time."""
    return [
        queue
        for queue, entry in after.offsets.items()
        if (first := before.offsets.get(queue)) is not None
        and lag_of(first) > 0
        and lag_of(entry) > 0
        and entry.consumer_offset == first.consumer_offset
    ]


def lost_count(entry: ConsumeOffset, min_offset: int) -> int:
    """Messages of a queue that were deleted before the group consumed them; ``min_offset`` is the queue offset of the
    first message that remains."""
    return max(0, min(min_offset, entry.broker_offset) - entry.consumer_offset)


QUEUES_READ_MAX = 32
"""How many queues of one group have a message read at once. For the others, the answer is the brokers' own."""


HEADS_MAX, HEADS_KEPT_S = 10_000, 60.0


class KnownHeads:
    """When the first waiting message of each queue was stored, for messages read in the last minute. A message stays
    the first until its group moves on, and a broker counts each reading of it as a delivered message. Any thread may
    use it."""

    def __init__(self) -> None:
        self._read: dict[tuple[MessageQueue, int], tuple[float, int]] = {}

    def get(self, queue: MessageQueue, queue_offset: int) -> int | None:
        read_s, stored_ms = self._read.get((queue, queue_offset), (0.0, 0))
        return stored_ms if time.monotonic() - read_s < HEADS_KEPT_S else None

    def put(self, queue: MessageQueue, queue_offset: int, stored_ms: int) -> None:
        if len(self._read) >= HEADS_MAX:
            self._read = {}
        self._read[queue, queue_offset] = time.monotonic(), stored_ms


def oldest_waiting(
    admin: AdminClient, addrs: Mapping[str, str], offsets: GroupOffsets, heads: KnownHeads | None = None
) -> tuple[MessageQueue, int] | None:
    """In which queue the oldest unconsumed message is, and when it was stored. None if there is no such message, or if
    it cannot be read. ``addrs``: broker addresses by name. ``heads``: messages that need not be read again."""
    waiting = [(queue, entry) for queue, entry in offsets.offsets.items() if lag_of(entry)]
    waiting.sort(key=lambda pair: pair[1].last_timestamp)
    oldest: tuple[MessageQueue, int] | None = None
    for queue, entry in waiting[:QUEUES_READ_MAX]:
        if oldest is not None and entry.last_timestamp >= oldest[1]:
            break
        stored_ms = first_waiting_ms(admin, addrs.get(queue.broker_name), queue, entry, heads)
        if stored_ms is not None and (oldest is None or stored_ms < oldest[1]):
            oldest = queue, stored_ms
    return oldest


def first_waiting_ms(
    admin: AdminClient,
    broker_addr: str | None,
    queue: MessageQueue,
    entry: ConsumeOffset,
    heads: KnownHeads | None = None,
) -> int | None:
    """When the first unconsumed message of one queue was stored. None if there is no such message, or if it cannot be
    read (the queue is not readable, or the message is gone)."""
    if broker_addr is None or not lag_of(entry):
        return None
    known_ms = None if heads is None else heads.get(queue, entry.consumer_offset)
    if known_ms is not None:
        return known_ms
    pulled = targets.or_none(lambda: admin.pull_message(broker_addr, queue, entry.consumer_offset, max_count=1))
    if pulled is None or not pulled.messages:
        return None
    stored_ms = pulled.messages[0].store_timestamp_ms
    if heads is not None:
        heads.put(queue, entry.consumer_offset, stored_ms)
    return stored_ms


_KEPT_S = 600.0
_HOUR_MS = 3_600_000


class KeptSettings:
    """What brokers' settings say of retention and disks, by address, as read in the last ten minutes. Any thread may
    use it."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, Mapping[str, str]]] = {}

    def reserved_ms(self, admin: AdminClient, broker_addr: str) -> int | None:
        """How long a broker keeps messages. None if it does not say."""
        hours = self.of(admin, broker_addr).get("fileReservedTime", "")
        return int(hours) * _HOUR_MS if hours.isdecimal() else None

    def of(self, admin: AdminClient, broker_addr: str) -> Mapping[str, str]:
        """A broker's settings; empty if it does not say."""
        asked_s, settings = self._known.get(broker_addr, (float("-inf"), {}))
        if time.monotonic() - asked_s >= _KEPT_S:
            settings = targets.or_none(lambda: admin.broker_config(broker_addr)) or {}
            self._known[broker_addr] = time.monotonic(), settings
        return settings


def read_min_offsets(admin: AdminClient, broker_addr: str, topic: str) -> dict[MessageQueue, int]:
    """The queue offset of the first message that remains in each queue. Empty if the broker does not say."""
    stats = targets.or_none(lambda: admin.topic_stats(broker_addr, topic))
    return {} if stats is None else {queue: ends.min_offset for queue, ends in stats.offset_table.items()}
