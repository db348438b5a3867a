"""Whether a group catches up: how its lag changed between two readings of its offsets some seconds apart, and which
queues stood still.

Clients commit their offsets every five seconds. If readings are closer together than that, a queue that is being
consumed may seem to stand still.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

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
