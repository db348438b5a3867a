"""What the members of a group manage, and how many members and threads a peak of messages needs."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from rmqadmin.core.groups.group_standing import GroupStanding
from rmqadmin.core.groups.running_info import Pace, mean_ms
from rmqadmin.core.units import duration, rate
from rmqproto.wording import counted


class Node(msgspec.Struct, frozen=True):
    """A machine that runs one member, and what a message costs there. ``waiting_ms``: for databases and other services;
    None to take what the members' consume time leaves."""

    cores: float
    computing_ms: float
    waiting_ms: float | None = None

    def thread_count(self, consume_ms: float | None) -> int | None:
        """How many threads keep its cores busy: cores x (waiting + computing) / computing."""
        waiting_ms = self.waiting_ms
        if waiting_ms is None and consume_ms is not None:
            waiting_ms = max(0.0, consume_ms - self.computing_ms)
        if waiting_ms is None:
            return None
        return max(1, round(self.cores * (waiting_ms + self.computing_ms) / self.computing_ms))


class PeakNeed(msgspec.Struct, frozen=True, kw_only=True):
    """``basis``: where ``member_tps`` is from, which is None if nobody says it. ``thread_count``: those of all members
    together. ``node_thread_count``: those of one machine."""

    peak_tps: float | None = None
    member_tps: float | None = None
    basis: str | None = None
    member_count: int | None = None
    thread_count: int | None = None
    queue_count: int = 0
    node_thread_count: int | None = None

    def lines(self) -> Iterator[str]:
        if self.node_thread_count is not None:
            yield f"threads of one machine: {self.node_thread_count:,}, by cores x (waiting + computing) / computing"
        if self.peak_tps is None:
            return
        peak = f"a peak of {rate(self.peak_tps)}/s needs"
        if self.member_count is None or self.member_tps is None:
            yield f"{peak}: not known, because no member says what it manages; give --cores and --computing-ms"
            return
        members = counted(self.member_count, "member")
        threads = "" if self.thread_count is None else f", or {counted(self.thread_count, 'thread')} in all"
        yield f"{peak} {members}{threads}: one manages {rate(self.member_tps)}/s ({self.basis})"
        if self.member_count > self.queue_count:
            queues = counted(self.queue_count, "queue")
            yield f"more than {queues} can feed: add queues first (rmqadmin updateTopic -r NUMBER -w NUMBER)"


def mean_pace(standing: GroupStanding) -> Pace | None:
    """What a member manages on average, of those that say it."""
    paces = [one.pace for one in (standing.owners.members if standing.owners else ()) if one.pace is not None]
    if not paces:
        return None
    threads = [one.thread_count for one in paces if one.thread_count is not None]
    return Pace(
        sum(one.consumed_tps for one in paces) / len(paces),
        mean_ms((one.consumed_tps, one.consume_ms) for one in paces),
        round(sum(threads) / len(threads)) if threads else None,
    )


def needs(standing: GroupStanding, peak_tps: float | None, node: Node | None) -> PeakNeed:
    """What a peak needs. What a member does while messages wait is what it manages; if none wait, its threads and its
    consume time say it; and of a ``node``, its cores and the computing time."""
    pace, tps, basis = mean_pace(standing), None, None
    consume_ms = None if pace is None else pace.consume_ms
    if node is not None:
        tps, basis = node.cores * 1000 / node.computing_ms, "cores / computing time"
    elif standing.lag_count and pace is not None and pace.consumed_tps:
        tps, basis = pace.consumed_tps, "what it does while messages wait"
    elif standing.lag_count and standing.trend is not None and standing.clients.count:
        tps, basis = standing.trend.consumed_tps / standing.clients.count, "what was committed while messages wait"
    elif pace is not None and pace.most_tps is not None:
        tps, basis = pace.most_tps, f"{counted(pace.thread_count or 0, 'thread')} / {duration(consume_ms)}"
    is_known = peak_tps is not None and bool(tps)
    return PeakNeed(
        peak_tps=peak_tps,
        member_tps=tps or None,
        basis=basis if tps else None,
        member_count=math.ceil(peak_tps / tps) if peak_tps is not None and tps else None,
        thread_count=math.ceil(peak_tps * consume_ms / 1000) if is_known and peak_tps and consume_ms else None,
        queue_count=standing.queue_count,
        node_thread_count=None if node is None else node.thread_count(consume_ms),
    )
