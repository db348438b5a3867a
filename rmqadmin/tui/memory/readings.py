"""One reading of a cluster's brokers, groups and dead letters, for the pulse."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rmqadmin.core.groups.queue_owners import QueueOwners
from rmqadmin.core.health.disk_limits import DISK_LIMITS_DEFAULT, DiskLimits
from rmqadmin.core.servers.broker_state import Replica
from rmqadmin.tui.memory.cluster import Lacks
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.statistics import ConsumeOffset


class BrokerReading(msgspec.Struct, frozen=True):
    """What a broker process says about itself; None for what it leaves out. ``put_ms``: the 99th percentile of puts.
    ``log_held_ms``: how long the running put has held the commit log. ``send_wait_ms``: how long the first send in the
    queue has waited. ``error`` says why it did not answer."""

    in_tps: float | None = None
    out_tps: float | None = None
    disk_ratio: float | None = None
    disk_limits: DiskLimits = DISK_LIMITS_DEFAULT
    put_ms: float | None = None
    log_held_ms: int | None = None
    send_wait_ms: int | None = None
    active: bool | None = None
    boot_ms: int | None = None
    error: str | None = None

    @classmethod
    def of(cls, replica: Replica, limits: DiskLimits) -> BrokerReading:
        return cls(
            in_tps=replica.number("putTps"),
            out_tps=replica.number("getTransferredTps"),
            disk_ratio=replica.number("commitLogDiskRatio"),
            disk_limits=limits,
            put_ms=replica.number("putLatency99"),
            log_held_ms=replica.count("pageCacheLockTimeMills"),
            send_wait_ms=replica.count("sendThreadPoolQueueHeadWaitTimeMills"),
            active=replica.is_serving,
            boot_ms=replica.count("bootTimestamp"),
            error=replica.error,
        )


class NameServerReading(msgspec.Struct, frozen=True):
    """What a name server tells clients. ``closed``: names of brokers to which they send nothing, by the routes of the
    topics that bear these names. ``error`` says why it did not answer."""

    closed: set[str] = set()
    error: str | None = None


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


class GroupLags(msgspec.Struct, frozen=True):
    """Every group that a broker has a configuration of, without the brokers in ``lacks``. ``total_lacking``: brokers
    missing from the total lag of all groups."""

    groups: Mapping[str, GroupLag]
    lacks: Lacks
    total_lacking: tuple[str, ...] = ()


class WorstGroup(msgspec.Struct, frozen=True):
    """A group far behind. ``oldest_waiting_ms``: when its oldest unconsumed message was stored; None if that message
    cannot be read. ``reserved_ms``: the shortest time that any of its brokers keeps messages; None if none says it."""

    group: str
    lag_count: int
    oldest_waiting_ms: int | None
    reserved_ms: int | None = None


class LettersReading(msgspec.Struct, frozen=True):
    """How many dead letters a group has, without the brokers in ``lacking``. ``error`` says why that is not known."""

    depth_count: int | None
    lacking: tuple[str, ...] = ()
    error: str | None = None
    redriven_count: int = 0

    @property
    def left_count(self) -> int | None:
        """How many were not redriven."""
        return None if self.depth_count is None else self.depth_count - self.redriven_count


class RowReading(msgspec.Struct, frozen=True):
    """Numbers of a row of some screen, by field. ``lacking``: brokers missing from its sums."""

    numbers: dict[str, float | None]
    lacking: tuple[str, ...] = ()


class MembersReading(msgspec.Struct, frozen=True):
    """A group's online members. ``summary``: in a few words, how its queues are assigned; ``balanced`` if nothing is
    wrong. ``member_ids`` is None if they could not be read. ``owners``: which member has which queue; None if that was
    not asked, or if a broker that may know more members did not answer (``is_part``)."""

    summary: str
    member_ids: frozenset[str] | None
    owners: QueueOwners | None = None
    is_part: bool = False
