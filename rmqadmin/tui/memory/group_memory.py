"""Groups over time: their lag, members and standing still, what is wrong with them, and what has changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence

import msgspec

from rmqadmin.core.groups.group_standing import GroupStanding, QueueStanding
from rmqadmin.core.groups.lag import Idle, LagTrend
from rmqadmin.core.groups.queue_owners import Rebalances
from rmqadmin.core.health.finding import Check, Subject, SubjectKind
from rmqadmin.core.health.group_checks import STUCK_AFTER_MS, group_findings
from rmqadmin.core.tables.marks import Mark
from rmqadmin.core.units import count, duration
from rmqadmin.tui.memory.cluster import Lacks
from rmqadmin.tui.memory.history import ChangeLog, NumberChange, NumberHistory, Series, cluster_series
from rmqadmin.tui.memory.readings import (
    LINE_SAMPLES,
    TREND_WITHIN_MS,
    GroupLag,
    GroupLags,
    GroupState,
    WorstGroup,
    WorstLine,
    same_sum,
    trend_text,
)
from rmqadmin.tui.memory.wrong_list import FROM_MEMBERS, WrongList
from rmqproto.bodies.statistics import lag_of
from rmqproto.wording import NAMES_TOLD_MAX, names_told

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
    """Since when each group has consumed nothing, by one reading after the other. A broker that is lost meanwhile
    changes the sums, but not that."""

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


FALL_OVER_MS = 60_000
"""If a lag has not fallen for so long, an earlier fall is ignored; nor is anything said of it before it was watched for
so long."""

WORST_COUNT = 5
"""How many of the groups furthest behind are shown."""


class GroupMemory:
    def __init__(self, now_ms: Callable[[], int], history: NumberHistory, log: ChangeLog, wrong: WrongList):
        self._now_ms, self._history, self._log, self._wrong = now_ms, history, log, wrong
        self.lags: Mapping[str, GroupLag] | None = None
        """Every group of the latest reading; None before the first."""
        self.lacks: Lacks = {}
        """The brokers whose groups are missing from it, and why."""
        self._worst: Mapping[str, WorstGroup] = {}
        self._worst_ms = 0
        self._still = Standstills()
        self._members: dict[str, GroupState] = {}
        self._member_counts: dict[str, int] = {}
        """As last known."""
        self._were_online: set[str] = set()
        self._rebalances: dict[str, Rebalances] = {}

    # --- readings ----------------------------------------------------------------------------------------------------

    def take_lags(self, found: GroupLags) -> None:
        at_ms, before = self._now_ms(), self.lags
        if before is not None:
            fewer, more = self.lacks.keys() <= found.lacks.keys(), found.lacks.keys() <= self.lacks.keys()
            self._log.add_names(at_ms, SubjectKind.GROUP, before, found.groups, tells_new=fewer, tells_deleted=more)
        for group, lag in found.groups.items():
            subject, known = Subject(SubjectKind.GROUP, group), same_sum(lag, (before or {}).get(group))
            if known is not None and lag.consumed < known.consumed and lag.lag_count > known.lag_count:
                back = count(known.consumed - lag.consumed)
                self._log.add(at_ms, subject, f"offsets went back by {back}", Mark.WARN)
            is_stuck = any(one.finding.check == Check.STUCK for one in self._wrong.of(subject))
            self._still.look(at_ms, group, lag, is_stuck=is_stuck)
            series = _lag_series(group)
            if lag.lag_count or any(value is not None for _, value in self._history.samples(series)):
                is_unknown = lag.lacking and not lag.lag_count
                self._history.add(series, at_ms, None if is_unknown else lag.lag_count, lag.lacking)
        total = sum(lag.lag_count for lag in found.groups.values())
        self._history.add(cluster_series("lag_count"), at_ms, total, found.total_lacking)
        self.lags, self.lacks = found.groups, found.lacks
        self._members = {group: members for group, members in self._members.items() if group in found.groups}
        if not found.lacks:
            self._rebalances = {group: one for group, one in self._rebalances.items() if group in found.groups}
            self._were_online &= found.groups.keys()
            self._member_counts = {group: one for group, one in self._member_counts.items() if group in found.groups}
        self._wrong.keep(SubjectKind.GROUP, found.groups)
        self._still.keep(found.groups)
        for group in found.groups:
            self._judge(at_ms, group)

    def take_worst(self, worst: Sequence[WorstGroup]) -> None:
        """Takes the groups that may have the longest lag time, the longest first. The first few are shown."""
        self._worst, self._worst_ms = {one.group: one for one in worst}, self._now_ms()
        for one in worst:
            lag_ms = None if one.oldest_waiting_ms is None else max(0, self._worst_ms - one.oldest_waiting_ms)
            series = Series(SubjectKind.GROUP, one.group, "lag_ms")
            self._history.add(series, self._worst_ms, lag_ms, self.lacking_of(one.group))
            self._judge(self._worst_ms, one.group)

    def take_members(self, group: str, reading: GroupState) -> None:
        at_ms, subject = self._now_ms(), Subject(SubjectKind.GROUP, group)
        before, ids = self._members.get(group), reading.member_ids
        ids_before = None if before is None or bool(before.lacks) is not bool(reading.lacks) else before.member_ids
        if ids is not None and ids_before is not None:
            for names, word in ((ids - ids_before, "joined"), (ids_before - ids, "left")):
                if len(names) > NAMES_TOLD_MAX:
                    self._log.add(at_ms, subject, f"{len(names):,} members {word}: {names_told(sorted(names))}")
                    continue
                for name in sorted(names):
                    self._log.add(at_ms, subject, f"member {name} {word}")
        self._members[group] = reading
        if ids is not None:
            self._member_counts[group] = len(ids)
        if ids:
            self._were_online.add(group)
        if reading.owners is not None and not reading.lacks:
            done = self._rebalances.setdefault(group, Rebalances()).look(at_ms, reading.owners)
            if done is not None:
                self._log.add(at_ms, subject, done.text())
        self._judge(at_ms, group)

    # --- what is wrong -----------------------------------------------------------------------------------------------

    def _judge(self, at_ms: int, group: str) -> None:
        standing, members = self._standing(group), self._members.get(group)
        lag = (self.lags or {}).get(group)
        unknown, stays = set[str](), set[str]()
        if members is None or members.member_ids is None:
            stays |= FROM_MEMBERS
        if lag is not None and lag.lacking and not lag.lag_count:  # messages may wait on a silent broker
            stays |= {Check.LAG, Check.STUCK, Check.RETENTION}
        if lag is not None and lag.lag_count and standing.oldest_waiting_ms is None:
            unknown |= {Check.RETENTION, Check.LAG}
        is_offline = standing.member_count == 0
        if is_offline:
            unknown.add(Check.STUCK)
            if not standing.was_online and (standing.idle is None or standing.idle.for_ms < STUCK_AFTER_MS):
                unknown.add(Check.LAG)  # somebody may consume without being a member
        found = [one for one in group_findings(standing, at_ms) if one.check != Check.OFFSETS]
        if standing.trend is None and not is_offline:  # not watched for long enough
            unknown.add(Check.LAG)
            found = [one for one in found if one.check != Check.LAG]
        subject = Subject(SubjectKind.GROUP, group)
        self._wrong.judge(
            at_ms,
            subject,
            found,
            unknown=unknown,
            stays=stays,
            new=(Check.LAG,) if is_offline and standing.was_online else (),
            by_members=members is not None,
        )

    def _standing(self, group: str) -> GroupStanding:
        """The facts of `doctor`, from what is known over time."""
        lag, members, worst = (self.lags or {}).get(group), self._members.get(group), self._worst.get(group)
        still, change = self._still.of(group), self._lag_change(group)
        trend = None
        if lag is not None and change is not None and change.over_ms >= FALL_OVER_MS:
            trend = LagTrend(change.over_ms / 1000, lag.lag_count - round(change.by), lag.lag_count, 0)
        behind = {} if lag is None else lag.behind
        queues = {queue: QueueStanding(queue=queue, entry=entry) for queue, entry in behind.items()}
        if worst is not None and (oldest := worst.oldest_queue or next(iter(behind), None)) in queues:
            queues[oldest] = msgspec.structs.replace(
                queues[oldest], oldest_waiting_ms=worst.oldest_waiting_ms, reserved_ms=worst.reserved_ms,
                broker_addr=worst.broker_addr,
            )  # fmt: skip
        return GroupStanding(
            group=group,
            queues=list(queues.values()),
            trend=trend,
            owners=None if members is None else members.owners,
            lacking=dict.fromkeys(() if lag is None else lag.lacking, ""),
            member_count=self._member_counts.get(group),
            idle=None if still is None else still.idle,
            was_online=group in self._were_online,
        )

    # --- what is shown -----------------------------------------------------------------------------------------------

    def _lag_change(self, group: str) -> NumberChange | None:
        return self._history.change(_lag_series(group), TREND_WITHIN_MS)

    def drain_text(self, group: str) -> str:
        """When no lag is left if it goes on like this, to end a sentence; empty if that is not known."""
        trend = self._standing(group).trend
        if trend is None or not trend.lag_count:
            return ""
        return ", never done" if trend.drain_ms is None else f", done in {duration(trend.drain_ms)}"

    def trend(self, group: str, lag_count: int) -> str:
        change, latest = self._lag_change(group), self._history.change(_lag_series(group), FALL_OVER_MS)
        is_over = change is not None and change.by < 0 and latest is not None and latest.by >= 0
        return trend_text(latest if is_over else change, lag_count)

    def lacking_of(self, group: str) -> tuple[str, ...]:
        """The brokers that may have more of a group. For an unknown group, all that do not answer."""
        lag = (self.lags or {}).get(group)
        return tuple(self.lacks) if lag is None else lag.lacking

    def waiting_by_topic(self, group: str) -> dict[str, int]:
        """How many messages wait for a group in each topic."""
        waiting = Counter[str]()
        if (lag := (self.lags or {}).get(group)) is not None:
            for queue, entry in lag.behind.items():
                waiting[queue.topic] += lag_of(entry)
        return dict(waiting.most_common())

    def waiting_of(self, topic: str) -> dict[str, int]:
        """How many messages of a topic wait for each group that is behind in it."""
        waiting = Counter[str]()
        for group, lag in (self.lags or {}).items():
            if any(queue.topic == topic for queue in lag.behind):
                waiting[group] = self.waiting_by_topic(group)[topic]
        return dict(waiting.most_common())

    def rebalances(self, group: str) -> Rebalances:
        """How a group's queues have moved between members; empty until its members have been read."""
        return self._rebalances.get(group) or Rebalances()

    @property
    def unasked_count(self) -> int:
        """Of how many groups nobody knows the members."""
        known = [group for group, one in self._members.items() if one.member_ids is not None]
        return len((self.lags or {}).keys() - set(known))

    def worst_lines(self) -> dict[str, WorstLine]:
        """The groups furthest behind, as of their reading: nobody knows whether a message still waits while no broker
        answers."""
        return {
            one.group: WorstLine(
                one.lag_count,
                None if one.oldest_waiting_ms is None else self._worst_ms - one.oldest_waiting_ms,
                self._history.values(_lag_series(one.group), LINE_SAMPLES),
                self.trend(one.group, one.lag_count),
                self.lacking_of(one.group),
            )
            for one in list(self._worst.values())[:WORST_COUNT]
        }


def _lag_series(group: str) -> Series:
    return Series(SubjectKind.GROUP, group, "lag_count")
