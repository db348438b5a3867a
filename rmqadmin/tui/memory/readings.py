"""What is known of a cluster: one reading of its groups and dead letters, and what the opening screen shows, with
earlier values and changes in words."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rmqadmin.core.groups.lag import FORETOLD_FROM_MS
from rmqadmin.core.groups.queue_owners import QueueOwners, without_heading
from rmqadmin.core.messages.dead_letters import DeadLetters
from rmqadmin.core.units import duration, rate
from rmqadmin.tui.memory.cluster import Lacks
from rmqadmin.tui.memory.history import NumberChange
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.statistics import ConsumeOffset


class GroupLag(msgspec.Struct, frozen=True):
    """A group's progress in all its queues. ``behind``: the queues in which messages wait. ``consumed``: the sum of its
    queue offsets, which grows by one a message. ``bound_ms``: no message has waited since before then; 0 if that is not
    known, None if none waits. ``broker_names``: brokers that know the group. ``lacking``: brokers that do not answer
    and may have more of it."""

    lag_count: int
    consumed: int
    bound_ms: int | None
    behind: dict[MessageQueue, ConsumeOffset]
    broker_names: tuple[str, ...]
    lacking: tuple[str, ...] = ()


def same_sum(lag: GroupLag, before: GroupLag | None) -> GroupLag | None:
    """The group's previous reading, if it lacked the same brokers."""
    return before if before is not None and set(before.lacking) == set(lag.lacking) else None


class GroupLags(msgspec.Struct, frozen=True):
    """Every group that a broker has a configuration of, without the brokers in ``lacks``. ``total_lacking``: brokers
    missing from the total lag of all groups."""

    groups: Mapping[str, GroupLag]
    lacks: Lacks
    total_lacking: tuple[str, ...] = ()


class WorstGroup(msgspec.Struct, frozen=True):
    """A group far behind. ``oldest_waiting_ms``: when its oldest unconsumed message was stored; None if that message
    cannot be read. It is in ``oldest_queue``, of the broker at ``broker_addr``, which keeps messages for
    ``reserved_ms``."""

    group: str
    lag_count: int
    oldest_waiting_ms: int | None
    reserved_ms: int | None = None
    oldest_queue: MessageQueue | None = None
    broker_addr: str | None = None


class Depth(msgspec.Struct, frozen=True):
    """The contents of a dead-letter topic, without the brokers in ``lacking``."""

    letters: DeadLetters
    lacking: tuple[str, ...] = ()

    @property
    def error(self) -> str | None:
        return self.letters.error


class RowReading(msgspec.Struct, frozen=True):
    """Numbers of a row of some screen, by field. ``lacking``: brokers missing from its sums."""

    numbers: dict[str, float | None]
    lacking: tuple[str, ...] = ()


class GroupState(msgspec.Struct, frozen=True):
    """How a group's queues are assigned. If that could not be read, ``owners`` is None and ``error`` says why. Members
    that only brokers in ``lacks`` know are missing."""

    owners: QueueOwners | None
    lacks: Lacks = {}
    error: str | None = None

    @property
    def member_ids(self) -> frozenset[str] | None:
        """The members' ids; None if they are not known: a broker that does not answer may know some."""
        if self.owners is None or (self.lacks and not self.owners.members):
            return None
        return frozenset(member.client_id for member in self.owners.members)

    def summary(self) -> str:
        if self.owners is None or self.member_ids is None:
            return "unknown"
        return without_heading(self.owners.summary())

    def nobody_text(self) -> str:
        """What to say if no member is known."""
        return "nobody is known to be online" if self.lacks else "nobody is online"


LINE_SAMPLES = 60
"""The number of samples in a sparkline."""

TREND_WITHIN_MS = 300_000
"""How far back a trend looks."""

Line = list[float | None]
"""The last values of a series, for a sparkline."""


class BrokerLine(msgspec.Struct, frozen=True):
    """A broker. ``error`` says that it is gone, or why it does not answer."""

    in_tps: float | None
    in_line: Line
    out_tps: float | None
    out_line: Line
    disk_ratio: float | None
    disk_line: Line
    put_ms: float | None
    put_line: Line
    error: str | None


class WorstLine(msgspec.Struct, frozen=True):
    """A group that is far behind. ``trend`` says how its lag changes."""

    lag_count: int
    lag_ms: int | None
    lag_line: Line
    trend: str
    lacking: tuple[str, ...]


class OverTime(msgspec.Struct, frozen=True):
    """What is known of a row beyond its latest numbers: the last values of some, and how its lag changes."""

    lines: dict[str, Line]
    trend: str = ""


def trend_text(change: NumberChange | None, lag_count: int) -> str:
    """``+12.0/s``, ``-30.0/s, done in 5m12s`` (if it is not nearly done), or ``steady`` if the change is too small to
    show. Empty if it is not known."""
    if change is None:
        return ""
    if rate(abs(change.per_s)) == rate(0):
        return "steady"
    if change.by > 0:
        return f"+{rate(change.per_s)}/s"
    left_ms = lag_count / -change.per_s * 1000
    falls = f"{rate(change.per_s)}/s"
    return falls if left_ms < FORETOLD_FROM_MS else f"{falls}, done in {duration(left_ms)}"
