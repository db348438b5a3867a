"""Since when each group has consumed nothing, by one reading after the other. A broker that is lost meanwhile changes
the sums, but not that."""

from __future__ import annotations

from collections.abc import Container

import msgspec

from rmqadmin.core.groups.lag_trend import Idle
from rmqadmin.tui.memory.readings import GroupLag
from rmqproto.bodies.statistics import lag_of

MOVES_MIN = 2
"""In how many readings in a row a group that was stuck consumes something before it counts as consuming again. One that
gets past one message and stands still at the next is as stuck as before."""


class Standstill(msgspec.Struct, frozen=True):
    """A group between two readings: at ``begin_ms`` it stood still already, at ``end_ms`` it still did.
    ``lag_grown_count``: how many more messages wait since the first. ``consumed_count``: what it has consumed since all
    the same, in ``moves`` readings in a row until now."""

    begin_ms: int
    end_ms: int
    last: GroupLag
    lag_grown_count: int = 0
    consumed_count: int = 0
    moves: int = 0

    @property
    def idle(self) -> Idle:
        return Idle(self.end_ms - self.begin_ms, self.lag_grown_count, self.consumed_count)


class Standstills:
    """Of all groups."""

    def __init__(self) -> None:
        self._by_group: dict[str, Standstill] = {}

    def of(self, group: str) -> Standstill | None:
        """None for a group that was never read."""
        return self._by_group.get(group)

    def keep(self, groups: Container[str]) -> None:
        self._by_group = {group: one for group, one in self._by_group.items() if group in groups}

    def look(self, at_ms: int, group: str, lag: GroupLag, *, is_stuck: bool) -> None:
        """Takes a reading. ``is_stuck``: whether the group was stuck until now."""
        before = self._by_group.get(group)
        if before is not None and lag.lacking and not lag.lag_count:
            return  # messages may wait on a broker that is lost
        if before is None or not lag.lag_count or not before.last.lag_count:
            self._by_group[group] = Standstill(at_ms, at_ms, lag)
            return
        consumed, grown = _difference(before.last, lag)
        goes_on = is_stuck and consumed > 0 and before.moves + 1 < MOVES_MIN
        if consumed and not goes_on:
            self._by_group[group] = Standstill(at_ms, at_ms, lag)
            return
        self._by_group[group] = msgspec.structs.replace(
            before,
            end_ms=at_ms,
            last=lag,
            lag_grown_count=before.lag_grown_count + grown,
            consumed_count=before.consumed_count + consumed,
            moves=before.moves + 1 if consumed else 0,
        )


def _difference(before: GroupLag, after: GroupLag) -> tuple[int, int]:
    """What was consumed between two readings, and how much more waits. If they lack different brokers, only of the
    queues in which messages waited both times."""
    if set(before.lacking) == set(after.lacking):
        return after.consumed - before.consumed, after.lag_count - before.lag_count
    both = [(before.behind[queue], entry) for queue, entry in after.behind.items() if queue in before.behind]
    return (
        sum(now.consumer_offset - then.consumer_offset for then, now in both),
        sum(lag_of(now) - lag_of(then) for then, now in both),
    )
