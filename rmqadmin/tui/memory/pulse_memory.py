"""The pulse of a cluster: the latest readings and their history, what is wrong and since when, and the log of changes.
It is given readings and asks no server."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from rmqadmin.core.alerts.alert_rules import AlertRule, Condition
from rmqadmin.core.alerts.alert_state import UNKNOWN_VALUE, Bounds
from rmqadmin.core.groups.rebalances import Rebalances
from rmqadmin.core.groups.retention import near_ms
from rmqadmin.core.health.health_finding import Check, HealthFinding
from rmqadmin.core.servers.ha_sets import HaSet
from rmqadmin.core.servers.set_changes import SetChanges
from rmqadmin.core.system_names import is_made_by_brokers
from rmqadmin.core.tables.marks import Mark
from rmqadmin.core.units import at_least, count, elapsed
from rmqadmin.tui.memory import troubles
from rmqadmin.tui.memory.alert_book import AlertBook
from rmqadmin.tui.memory.changes import ChangeLog, ChangeSeen, Subject, SubjectKind
from rmqadmin.tui.memory.cluster import Lacks, SeenBroker, gone_text
from rmqadmin.tui.memory.history import NumberChange, NumberHistory, Series
from rmqadmin.tui.memory.pulse_lines import (
    BrokerLine,
    LettersLine,
    Line,
    OverTime,
    WorstLine,
    growth_text,
    trend_text,
)
from rmqadmin.tui.memory.readings import (
    BrokerReading,
    GroupLag,
    GroupLags,
    LettersReading,
    MembersReading,
    NameServerReading,
    RowReading,
    WorstGroup,
)
from rmqadmin.tui.memory.standstill import Standstills
from rmqadmin.tui.memory.trouble_list import TroubleLine, TroubleList, worst_first
from rmqadmin.tui.memory.troubles import GroupPace, Rule
from rmqadmin.tui.memory.verdict import Verdict
from rmqproto.ha import MASTER_ID
from rmqproto.names import DLQ_PREFIX
from rmqproto.wording import counted

TREND_WITHIN_MS, FALL_OVER_MS = 300_000, 60_000
"""How far back a trend looks. If a lag has not fallen in the last FALL_OVER_MS, an earlier fall is ignored."""

WORST_COUNT = 5
"""How many of the groups furthest behind are shown."""

LINE_SAMPLES = 60
"""The number of samples in a sparkline."""

_TOLD_BESIDE = frozenset({Rule.GONE, Rule.SILENT, Rule.INACTIVE, Rule.DISK})
"""Troubles that other columns of a broker's row show."""

_BROKER_FIELDS = ("in_tps", "out_tps", "disk_ratio", "put_ms")


class _LettersTold(NamedTuple):
    """The latest log entry of a group's dead letters, when the first of them came, and how many."""

    change: ChangeSeen
    begin_ms: int
    more_count: int


class PulseMemory:
    """The pulse. Not thread-safe."""

    def __init__(self, now_ms: Callable[[], int], alert_rules: Sequence[AlertRule] = ()):
        self.history = NumberHistory()
        self.log = ChangeLog()
        self.alerts = AlertBook(alert_rules, self.log)
        self._now_ms = now_ms
        self._seen: Mapping[str, SeenBroker] | None = None
        self._brokers: Mapping[str, BrokerReading] = {}
        self._lags: Mapping[str, GroupLag] | None = None
        self._lacks: Lacks = {}
        self._worst: Sequence[WorstGroup] = ()
        self._worst_ms = 0
        self._name_servers: Mapping[str, NameServerReading] = {}
        self._oldest: Mapping[str, WorstGroup] = {}
        self._still = Standstills()
        self._topics: tuple[frozenset[str], frozenset[str]] | None = None
        self._topics_read: tuple[list[str], frozenset[str]] | None = None
        self._letters: dict[str, LettersReading] | None = None
        self._letters_unread_count = 0
        self._letters_told: dict[str, _LettersTold] = {}
        self._silent_since_ms: int | None = None
        self._members: dict[str, MembersReading] = {}
        self._wrong = TroubleList(self.log)
        self._rebalances: dict[str, Rebalances] = {}
        self.are_sets_known = self.is_set_wrong = False
        """Whether sets of brokers have been read, and whether anything is wrong with one."""
        self.set_changes = SetChanges()
        """The changes of sets of brokers, as far as screens have read them."""

    # --- readings ----------------------------------------------------------------------------------------------------

    def take_brokers(self, seen: Mapping[str, SeenBroker], readings: Mapping[str, BrokerReading]) -> None:
        """Takes all brokers, with ``readings`` of those that are not gone."""
        at_ms = self._now_ms()
        if self._silent_since_ms is not None:
            away = elapsed(at_ms - self._silent_since_ms)
            self.log.add(at_ms, None, f"the name server answers again, after {away}", Mark.GOOD)
            self._silent_since_ms = None
        for key in seen:
            reading = readings.get(key)
            if self._seen is not None:
                self._tell_broker(at_ms, key, seen[key], self._seen, reading)
            for field in _BROKER_FIELDS:
                self.history.add(Series(SubjectKind.BROKER, key, field), at_ms, getattr(reading, field, None))
        counted_at: dict[str, Iterable[str]] = {"in_tps": _masters(seen), "out_tps": seen}
        for field, keys in counted_at.items():
            values = {key: getattr(readings.get(key), field, None) for key in keys}
            known = [value for value in values.values() if value is not None]
            lacking = [key for key, value in values.items() if value is None]
            self.history.add(_cluster_series(field), at_ms, sum(known) if known else None, lacking)
        kept = {key: before for key, before in self._brokers.items() if key in seen and key not in readings}
        self._seen, self._brokers = dict(seen), {**kept, **readings}
        self._wrong.keep(SubjectKind.BROKER, seen)
        for key, one in seen.items():
            gone = None if one.gone_since_ms is None else gone_text(one.gone_since_ms, at_ms)
            self._judge_broker(at_ms, key, self._brokers.get(key, BrokerReading()), gone)
        self._alert_brokers(at_ms, readings)

    def _tell_broker(
        self,
        at_ms: int,
        key: str,
        now: SeenBroker,
        seen_before: Mapping[str, SeenBroker],
        reading: BrokerReading | None,
    ) -> None:
        """Logs a new broker, a restart, and a process that has taken another id, as in a handover."""
        known, addr, before = seen_before.get(key), now.replica.broker_addr, self._brokers.get(key)
        mark: Mark | None = Mark.WARN
        if known is not None and known.replica.broker_addr != addr:
            text = f"is {addr} now, was {known.replica.broker_addr}"
        elif known is None and now.gone_since_ms is not None:
            text, mark = "is gone", Mark.BAD
        elif known is None:
            ids = [one for one, each in seen_before.items() if each.replica.broker_addr == addr]
            text, mark = f"was {ids[0]} before" if ids else "broker is new", None
        elif reading and before and reading.boot_ms and before.boot_ms not in (None, reading.boot_ms):
            text = "was restarted"
        else:
            return
        self.log.add(at_ms, Subject(SubjectKind.BROKER, key), text, mark)

    def take_silence(self, why: str) -> None:
        """Notes that the nameserver cannot be asked, and so nobody is. The log must say that it misses changes
        meanwhile."""
        if self._silent_since_ms is None and self._seen is not None:
            self._silent_since_ms = self._now_ms()
            self.log.add(self._silent_since_ms, None, f"cannot ask the name server: {why}", Mark.BAD)

    def _alert_brokers(self, at_ms: int, readings: Mapping[str, BrokerReading]) -> None:
        here = {key: readings.get(key, BrokerReading()) for key in self._seen or ()}
        percents = {key: None if one.disk_ratio is None else one.disk_ratio * 100 for key, one in here.items()}
        gone = {key: float(one.gone_since_ms is not None) for key, one in (self._seen or {}).items()}
        self._alert(at_ms, Condition.DISK, "broker", percents)
        self._alert(at_ms, Condition.BROKER_GONE, "broker", gone)
        self._alert(at_ms, Condition.ZERO_RATE, "broker", {key: _is_zero(one.in_tps) for key, one in here.items()})

    def _alert(
        self, at_ms: int, condition: Condition, about: str, values: Mapping[str, float | None], *, are_all: bool = True
    ) -> None:
        bounds = {name: Bounds.exactly(value) for name, value in values.items()}
        self.alerts.look(at_ms, condition, about, bounds, are_all=are_all)

    def _judge_broker(self, at_ms: int, key: str, reading: BrokerReading, gone: str | None) -> None:
        unknown = set(Rule) if gone or reading.error else set()
        if any(one.error is not None for one in self._name_servers.values()):
            unknown.add(Rule.CLOSED)
        found = troubles.of_broker(key, reading, gone, self._closed_at(key))
        self._wrong.judge(at_ms, Subject(SubjectKind.BROKER, key), found, unknown=unknown)

    def _closed_at(self, key: str) -> list[str]:
        """The name servers that let nobody write a master."""
        name, _, broker_id = key.partition("/")
        if broker_id != str(MASTER_ID):
            return []
        return [addr for addr, one in self._name_servers.items() if name in one.closed]

    def take_name_servers(self, found: Mapping[str, NameServerReading]) -> None:
        """Takes every name server by itself: the others are used while one answers, so its absence is easily missed."""
        at_ms = self._now_ms()
        self._name_servers = dict(found)
        self._wrong.keep(SubjectKind.NAME_SERVER, found)
        for addr, reading in found.items():
            self._wrong.judge(at_ms, Subject(SubjectKind.NAME_SERVER, addr), troubles.of_name_server(addr, reading))

    def take_lags(self, found: GroupLags) -> None:
        at_ms = self._now_ms()
        before = self._lags
        if before is not None:
            fewer, more = self._lacks.keys() <= found.lacks.keys(), found.lacks.keys() <= self._lacks.keys()
            self.log.add_names(at_ms, SubjectKind.GROUP, before, found.groups, tells_new=fewer, tells_deleted=more)
        for group, lag in found.groups.items():
            known = _same_sum(lag, None if before is None else before.get(group))
            if known is not None and lag.consumed < known.consumed and lag.lag_count > known.lag_count:
                back = count(known.consumed - lag.consumed)
                self.log.add(at_ms, Subject(SubjectKind.GROUP, group), f"offsets went back by {back}", Mark.WARN)
            lag_series = _lag_series(group)
            is_stuck = any(one.rule is Rule.STUCK for one in self._wrong.of(Subject(SubjectKind.GROUP, group)))
            self._still.look(at_ms, group, lag, is_stuck=is_stuck)
            if lag.lag_count or self.history.samples(lag_series):
                is_unknown = lag.lacking and not lag.lag_count
                self.history.add(lag_series, at_ms, None if is_unknown else lag.lag_count, lag.lacking)
        total = sum(lag.lag_count for lag in found.groups.values())
        self.history.add(_cluster_series("lag_count"), at_ms, total, found.total_lacking)
        self._alert_groups(at_ms, found, before or {})
        self._lags, self._lacks = found.groups, found.lacks
        self._members = {group: members for group, members in self._members.items() if group in found.groups}
        if not found.lacks:
            self._rebalances = {group: one for group, one in self._rebalances.items() if group in found.groups}
        self._wrong.keep(SubjectKind.GROUP, found.groups)
        self._still.keep(found.groups)
        for group in found.groups:
            self._judge_group(at_ms, group)

    def _alert_groups(self, at_ms: int, found: GroupLags, before: Mapping[str, GroupLag]) -> None:
        """Checks alerts of groups. A sum that lacks a broker is a lower bound."""
        lags = {
            group: Bounds.at_least(lag.lag_count) if lag.lacking else Bounds.exactly(lag.lag_count)
            for group, lag in found.groups.items()
        }
        self.alerts.look(at_ms, Condition.LAG, "group", lags, are_all=not found.lacks)
        idle = {
            group: None if lag.lacking or known is None else _is_zero(lag.consumed - known.consumed)
            for group, lag in found.groups.items()
            for known in [_same_sum(lag, before.get(group))]
        }
        self._alert(at_ms, Condition.ZERO_RATE, "group", idle, are_all=not found.lacks)

    def _judge_group(self, at_ms: int, group: str) -> None:
        lag, members = (self._lags or {}).get(group), self._members.get(group)
        unknown = set[str]()
        if members is not None and not members.member_ids:
            unknown.add(Rule.STUCK)
        worst, still = self._oldest.get(group), self._still.of(group)
        oldest_ms = None if worst is None else worst.oldest_waiting_ms
        standing = GroupPace(still, self._lag_change(group), None if oldest_ms is None else at_ms - oldest_ms)
        if standing.lag_change is None or (lag is not None and lag.lag_count and standing.lag_ms is None):
            unknown.add(Rule.BEHIND)
        kept_ms = None if worst is None else near_ms(worst.oldest_waiting_ms, worst.reserved_ms, at_ms)
        if lag is not None and lag.lag_count and (worst is None or worst.oldest_waiting_ms is None):
            unknown.add(Rule.RETENTION)
        if members is None or members.member_ids is None:
            unknown |= {Rule.OFFLINE, Rule.SHARING}
        if lag is not None and lag.lacking and not lag.lag_count:  # messages may wait on a silent broker
            unknown |= {Rule.OFFLINE, Rule.STUCK, Rule.RETENTION, Rule.BEHIND}
        subject = Subject(SubjectKind.GROUP, group)
        before = {one.rule for one in self._wrong.of(subject)}
        self._wrong.judge(
            at_ms,
            subject,
            troubles.of_group(group, lag, members, standing, kept_ms, before),
            unknown=unknown,
            by_members=members is not None,
            shared="" if members is None else members.summary,
        )

    def take_worst(self, worst: Sequence[WorstGroup]) -> None:
        """Takes the groups that may have the longest lag time, the longest first. The first few are shown."""
        at_ms = self._now_ms()
        self._worst, self._worst_ms = worst[:WORST_COUNT], at_ms
        self._oldest = {one.group: one for one in worst}
        self._alert_lag_times(at_ms, worst)
        for one in worst:
            lag_ms = None if one.oldest_waiting_ms is None else max(0, at_ms - one.oldest_waiting_ms)
            series = Series(SubjectKind.GROUP, one.group, "lag_ms")
            self.history.add(series, at_ms, lag_ms, self._lacking_of(one.group))
            self._judge_group(at_ms, one.group)

    def _alert_lag_times(self, at_ms: int, worst: Sequence[WorstGroup]) -> None:
        """Checks alerts of lag times. For a group whose waiting messages were not read, its bound is an upper limit."""
        known = {one.group: at_ms - one.oldest_waiting_ms for one in worst if one.oldest_waiting_ms is not None}

        def bounds(group: str, lag: GroupLag) -> Bounds:
            if group in known:
                return Bounds.at_least(known[group]) if lag.lacking else Bounds.exactly(known[group])
            if lag.lacking or any(one.group == group for one in worst):
                return UNKNOWN_VALUE
            return Bounds.at_most(0 if lag.bound_ms is None else at_ms - lag.bound_ms)

        values = {group: bounds(group, lag) for group, lag in self.groups.items()}
        self.alerts.look(at_ms, Condition.LAG_TIME, "group", values, are_all=not self._lacks)

    def take_rows(self, kind: SubjectKind, found: Mapping[str, RowReading]) -> None:
        """Takes what a screen has read of its rows. Sums that lack a broker are ignored, because the pulse's own sums
        may lack other brokers."""
        at_ms = self._now_ms()
        for name, reading in found.items():
            if not reading.lacking and (kind is not SubjectKind.GROUP or not self._lacking_of(name)):
                for field, value in reading.numbers.items():
                    self.history.add(Series(kind, name, field), at_ms, value)
        if kind is SubjectKind.TOPIC:
            rates = {name: None if one.lacking else _is_zero(one.numbers.get("in_tps")) for name, one in found.items()}
            self._alert(at_ms, Condition.ZERO_RATE, "topic", rates, are_all=False)

    def take_topics(self, topics: Collection[str], broker_names: Collection[str]) -> None:
        """Takes all topics and brokers that the nameserver knows. Topics of a broker that has gone do not count as
        deleted, and topics of a broker that has come do not count as new."""
        read = list(topics), frozenset(broker_names)
        if read != self._topics_read:  # looking at ten thousand names takes 10 ms
            self._topics_read = read
            self._take_other_topics(*read)
        if not any(one.gone_since_ms is not None for one in (self._seen or {}).values()):
            self.alerts.keep(Condition.ZERO_RATE, "topic", topics)

    def _take_other_topics(self, topics: Collection[str], brokers: frozenset[str]) -> None:
        own = frozenset(
            topic
            for topic in topics
            if not is_made_by_brokers(topic, brokers) and not topic.startswith(DLQ_PREFIX)  # logged as dead letters
        )
        if self._topics is not None:
            before, brokers_before = self._topics
            fewer, more = brokers <= brokers_before, brokers_before <= brokers
            self.log.add_names(self._now_ms(), SubjectKind.TOPIC, before, own, tells_new=fewer, tells_deleted=more)
        self._topics = own, brokers

    def take_letters(self, groups: Collection[str], found: Mapping[str, LettersReading]) -> None:
        """Takes all ``groups`` with dead letters, and ``found``, the depths of some of them."""
        at_ms = self._now_ms()
        is_first = self._letters is None
        letters = {group: one for group, one in (self._letters or {}).items() if group in groups}
        self._letters_told = {group: told for group, told in self._letters_told.items() if group in groups}
        self._wrong.keep(SubjectKind.DEAD_LETTERS, groups)
        for group, reading in found.items():
            before = letters.get(group)
            is_other_sum = before is not None and set(before.lacking) != set(reading.lacking)
            series, subject = _letters_series(group), Subject(SubjectKind.DEAD_LETTERS, group)
            self.history.add(series, at_ms, reading.depth_count, reading.lacking)
            is_new_group = before is None and not is_first and not self._letters_unread_count
            known = None if is_other_sum else before.depth_count if before else 0 if is_new_group else None
            if reading.depth_count is not None and known is not None and reading.depth_count > known:
                self._tell_letters(at_ms, subject, reading.depth_count - known)
            letters[group] = reading
            self._wrong.judge(at_ms, subject, troubles.of_letters(group, reading, self._growth(group)))
        grown = {group: self._grown(group, reading) for group, reading in letters.items()}
        self.alerts.look(at_ms, Condition.DEAD_LETTERS, "group", grown)
        self._letters, self._letters_unread_count = letters, sum(group not in letters for group in groups)

    def take_members(self, group: str, reading: MembersReading) -> None:
        at_ms = self._now_ms()
        before = self._members.get(group)
        is_same = before is not None and before.is_part == reading.is_part
        if is_same and before is not None and before.member_ids is not None and reading.member_ids is not None:
            for names, word in (
                (reading.member_ids - before.member_ids, "joined"),
                (before.member_ids - reading.member_ids, "left"),
            ):
                for name in sorted(names):
                    self.log.add(at_ms, Subject(SubjectKind.GROUP, group), f"member {name} {word}")
        self._members[group] = reading
        if reading.owners is not None:
            done = self._rebalances.setdefault(group, Rebalances()).look(at_ms, reading.owners)
            if done is not None:
                self.log.add(at_ms, Subject(SubjectKind.GROUP, group), done.text())
        self._judge_group(at_ms, group)

    def rebalances(self, group: str) -> Rebalances:
        """How a group's queues have moved between members; empty until its members have been read."""
        return self._rebalances.get(group) or Rebalances()

    def take_sets(self, sets: Sequence[HaSet]) -> None:
        """Takes what a screen has read of masters and slaves."""
        for change in self.set_changes.look(self._now_ms(), sets):
            self.log.add(change.at_ms, Subject(SubjectKind.BROKER_SET, change.broker_name), change.text, change.mark)

    def take_set_findings(self, sets: Sequence[HaSet], findings: Sequence[HealthFinding]) -> None:
        """Takes what is wrong with masters, slaves and controllers: also a broker that was lost before the dashboard
        started, if its set still knows it."""
        names = {name: one for one in sets for name in _names_of(one)}
        subjects = dict.fromkeys([*names, *(each.subject for each in findings)])
        self._wrong.keep(SubjectKind.BROKER_SET, subjects)
        for name in subjects:
            is_known = name not in names or names[name].in_sync_count is not None
            subject = Subject(SubjectKind.BROKER_SET, name)
            self._wrong.judge(
                self._now_ms(), subject, troubles.of_set(name, findings), unknown=() if is_known else tuple(Check)
            )
        self.are_sets_known, self.is_set_wrong = True, bool(findings)

    def _lag_change(self, group: str) -> NumberChange | None:
        return self.history.change(_lag_series(group), TREND_WITHIN_MS)

    def _trend(self, group: str, lag_count: int) -> str:
        change, latest = self._lag_change(group), self.history.change(_lag_series(group), FALL_OVER_MS)
        is_over = change is not None and change.by < 0 and latest is not None and latest.by >= 0
        return trend_text(latest if is_over else change, lag_count)

    def _growth(self, group: str) -> NumberChange | None:
        return self.history.change(_letters_series(group), TREND_WITHIN_MS)

    def _tell_letters(self, at_ms: int, subject: Subject, more_count: int) -> None:
        """Logs new dead letters. Those of a few minutes share one entry, because a group that fails now and then would
        fill the log."""
        told = self._letters_told.get(subject.name)
        if told is None or at_ms - told.begin_ms > TREND_WITHIN_MS:
            text = counted(more_count, "new dead letter")
            change, begin_ms = self.log.add(at_ms, subject, text, Mark.WARN), at_ms
        else:
            begin_ms, more_count = told.begin_ms, told.more_count + more_count
            text = f"{counted(more_count, 'new dead letter')} in {elapsed(at_ms - begin_ms)}"
            change = self.log.replace(told.change, at_ms, text)
        self._letters_told[subject.name] = _LettersTold(change, begin_ms, more_count)

    def _grown(self, group: str, reading: LettersReading) -> Bounds:
        """How many dead letters have come in the last minutes; a lower bound if not all of that time, or not all
        brokers, are known."""
        growth = self._growth(group)
        if growth is None:
            return UNKNOWN_VALUE
        return Bounds.exactly(growth.by) if growth.is_whole and not reading.lacking else Bounds.at_least(growth.by)

    # --- what is shown -----------------------------------------------------------------------------------------------

    @property
    def groups(self) -> Mapping[str, GroupLag]:
        """Every group of the latest reading."""
        return self._lags or {}

    @property
    def lacks(self) -> Lacks:
        """The brokers whose groups are missing from it, and why."""
        return self._lacks

    def _lacking_of(self, group: str) -> tuple[str, ...]:
        """The brokers that may have more of a group. For an unknown group, all that do not answer."""
        lag = self.groups.get(group)
        return tuple(self._lacks) if lag is None else lag.lacking

    @property
    def letters_unread_count(self) -> int:
        """How many groups have dead letters that have not been counted yet."""
        return self._letters_unread_count

    @property
    def is_complete(self) -> bool:
        """Whether brokers, groups and dead letters have been read at least once."""
        return self._seen is not None and self._lags is not None and self._letters is not None

    def broker_lines(self) -> dict[str, BrokerLine]:
        """A line for every broker, present or gone, by ``NAME/ID``."""
        now_ms = self._now_ms()

        def line(key: str, seen: SeenBroker) -> BrokerLine:
            reading = self._brokers.get(key, BrokerReading(error="asking …"))
            gone = None if seen.gone_since_ms is None else gone_text(seen.gone_since_ms, now_ms)
            lines = (
                self.history.values(Series(SubjectKind.BROKER, key, field), LINE_SAMPLES) for field in _BROKER_FIELDS
            )
            values = dict(zip(_BROKER_FIELDS, lines, strict=True))
            return BrokerLine(
                reading.in_tps, values["in_tps"], reading.out_tps, values["out_tps"],
                reading.disk_ratio, values["disk_ratio"], reading.put_ms, values["put_ms"], gone or reading.error,
            )  # fmt: skip

        return {key: line(key, seen) for key, seen in (self._seen or {}).items()}

    def worst_lines(self) -> dict[str, WorstLine]:
        """The groups furthest behind, as of their reading: nobody knows whether a message still waits while no broker
        answers."""
        return {
            one.group: WorstLine(
                one.lag_count,
                None if one.oldest_waiting_ms is None else self._worst_ms - one.oldest_waiting_ms,
                self.history.values(_lag_series(one.group), LINE_SAMPLES),
                self._trend(one.group, one.lag_count),
                self._lacking_of(one.group),
            )
            for one in self._worst
        }

    def letters_lines(self) -> dict[str, LettersLine]:
        """A line for each group that has dead letters that were not redriven, or may have some; most first."""
        shown = {group: one for group, one in (self._letters or {}).items() if one.left_count != 0}
        return {
            group: LettersLine(
                one.left_count,
                self.history.values(_letters_series(group), LINE_SAMPLES),
                growth_text(self._growth(group)),
                one.lacking,
                one.error,
            )
            for group, one in sorted(shown.items(), key=lambda item: -(item[1].left_count or 0))
        }

    def over_time(self, subject: Subject, fields: Collection[str]) -> OverTime:
        """What the row of a subject shows over time, with the last values of ``fields``."""
        alerts = [one.trouble for one in self.alerts.lines() if one.trouble.subject == subject]
        group = subject.kind is SubjectKind.GROUP
        beside = () if group else _TOLD_BESIDE
        wrong = [*(one for one in self._wrong.of(subject) if one.rule not in beside), *alerts]
        lag = self.groups.get(subject.name) if group else None
        return OverTime(
            {field: self.history.values(Series(subject.kind, subject.name, field), LINE_SAMPLES) for field in fields},
            "" if lag is None else self._trend(subject.name, lag.lag_count),
            "; ".join(one.text for one in wrong) or None,
            next((Mark.BAD for one in wrong if one.mark is Mark.BAD), wrong[0].mark if wrong else None),
        )

    def trouble_lines(self) -> dict[str, TroubleLine]:
        """All troubles, the worst and longest first."""
        return {
            f"{one.trouble.subject.kind}/{one.trouble.subject.name}/{one.trouble.rule}": one
            for one in self._wrong_lines()
        }

    def _wrong_lines(self) -> list[TroubleLine]:
        return worst_first([*map(self._told_now, self._wrong.lines()), *self.alerts.lines()])

    def _told_now(self, line: TroubleLine) -> TroubleLine:
        """How long a broker has been gone goes on while the name server cannot be asked."""
        trouble = line.trouble
        since_ms = self._seen[trouble.subject.name].gone_since_ms if self._seen and trouble.rule is Rule.GONE else None
        if since_ms is None:
            return line
        told = msgspec.structs.replace(trouble, text=gone_text(since_ms, self._now_ms()))
        return msgspec.structs.replace(line, trouble=told)

    def cluster_values(self, field: str, count: int) -> Line:
        """The last values of a sum over all brokers or groups: ``in_tps``, ``out_tps``, ``lag_count``."""
        return self.history.values(_cluster_series(field), count)

    def is_part(self, field: str) -> bool:
        """Whether the last of the ``cluster_values`` lacks a broker."""
        return bool(self.history.lacking(_cluster_series(field)))

    def verdict(self) -> Verdict:
        """Whether all is well. Says nothing about what has not been read."""
        wrong = self._wrong_lines()
        if wrong:
            first = wrong[0].trouble
            also = f", and {len(wrong) - 1:,} more" if len(wrong) > 1 else ""
            return Verdict(f"{first.subject.name}: {first.text}{also}", first.mark)
        if not self.is_complete:
            return Verdict("asking …", None)
        if self._lacks:
            name, why = next(iter(self._lacks.items()))
            return Verdict(f"unknown how groups are on {name}: {why}", Mark.WARN)
        if not self._seen:
            return Verdict("the name server knows no broker", Mark.BAD)
        brokers, groups = counted(len(self._seen), "broker"), counted(len(self._lags or ()), "group")
        return Verdict(f"all is well: {brokers}, {groups}, {self._letters_text()}{self._unasked_text()}", Mark.GOOD)

    def _letters_text(self) -> str:
        letters = (self._letters or {}).values()
        left = sum(one.left_count or 0 for one in letters)
        is_part = self._letters_unread_count or any(one.lacking or one.depth_count is None for one in letters)
        if not left:
            none = "no dead letters left" if any(one.redriven_count for one in letters) else "no dead letters"
            return "dead letters unknown" if is_part else none
        text = counted(left, "dead letter")
        return at_least(text) if is_part else text

    def _unasked_text(self) -> str:
        unknown = sum(
            group not in self._members or self._members[group].member_ids is None for group in self._lags or ()
        )
        members = f"; members of {counted(unknown, 'group')} unknown" if unknown else ""
        sets = "" if self.are_sets_known else "; masters and slaves unknown"
        return f"{members}{sets}{'' if self._name_servers else '; each name server unknown'}"


def _masters(seen: Mapping[str, SeenBroker]) -> list[str]:
    """The brokers that take messages. A slave counts as incoming what its master has counted already. A master whose id
    another has taken is missed by nobody."""
    masters = {key: one for key, one in seen.items() if one.replica.broker_id == MASTER_ID}
    here = {one.replica.broker_name for one in masters.values() if one.gone_since_ms is None}
    return [key for key, one in masters.items() if one.gone_since_ms is None or one.replica.broker_name not in here]


def _names_of(one: HaSet) -> list[str]:
    """The subjects of findings about a set."""
    controllers = [one.controller_addrs, *one.controller_addrs.split(";")] if one.has_controllers else []
    return [one.broker_name, *map(one.name_of, one.members), *controllers]


def _same_sum(lag: GroupLag, before: GroupLag | None) -> GroupLag | None:
    """The group's previous reading, if it lacked the same brokers."""
    return before if before is not None and set(before.lacking) == set(lag.lacking) else None


def _is_zero(rate: float | None) -> float | None:
    """1.0 if a rate is 0, else 0.0: the value that alerts take."""
    return None if rate is None else float(rate == 0)


def _lag_series(group: str) -> Series:
    return Series(SubjectKind.GROUP, group, "lag_count")


def _letters_series(group: str) -> Series:
    return Series(SubjectKind.DEAD_LETTERS, group, "depth_count")


def _cluster_series(field: str) -> Series:
    """The series of a sum over the cluster: ``in_tps``, ``out_tps``, ``lag_count``."""
    return Series("cluster", "", field)
