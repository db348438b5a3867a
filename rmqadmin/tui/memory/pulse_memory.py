"""The pulse of a cluster: the latest readings and their history, what is wrong and since when, and the log of changes.
It is given readings and asks no server. ``brokers``, ``groups`` and ``letters`` have what belongs to one of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from rmqadmin.core.alerts.alert_rules import AlertRule, Condition
from rmqadmin.core.health.facts import BrokerFacts
from rmqadmin.core.health.finding import Check, Finding, Subject, SubjectKind
from rmqadmin.core.names import is_made_by_brokers
from rmqadmin.core.servers.ha_sets import HaSet
from rmqadmin.core.servers.set_changes import SetChanges
from rmqadmin.core.tables.marks import BY_GRADE, Mark
from rmqadmin.tui.memory.alert_book import AlertBook
from rmqadmin.tui.memory.broker_memory import BrokerMemory
from rmqadmin.tui.memory.cluster import SeenBroker
from rmqadmin.tui.memory.group_memory import GroupMemory
from rmqadmin.tui.memory.history import ChangeLog, NumberHistory, Series, cluster_series
from rmqadmin.tui.memory.letters_memory import LettersMemory
from rmqadmin.tui.memory.readings import LINE_SAMPLES, Depth, GroupLags, Line, OverTime, RowReading, WorstGroup
from rmqadmin.tui.memory.wrong_list import Verdict, Wrong, WrongList, worst_first
from rmqproto.names import DLQ_PREFIX
from rmqproto.wording import counted


class PulseMemory:
    """The pulse. Not thread-safe."""

    def __init__(self, now_ms: Callable[[], int], alert_rules: Sequence[AlertRule] = ()):
        self.history = NumberHistory()
        self.log = ChangeLog()
        self.since_ms: int | None = None
        """When the first look was; None before it."""
        self.alerts = AlertBook(alert_rules, self.log)
        self._now_ms = now_ms
        self._wrong = WrongList(self.log)
        self.brokers = BrokerMemory(now_ms, self.history, self.log, self._wrong)
        self.groups = GroupMemory(now_ms, self.history, self.log, self._wrong)
        self.letters = LettersMemory(now_ms, self.history, self.log, self._wrong)
        self._topics: tuple[frozenset[str], frozenset[str]] | None = None
        self.are_sets_known = self.is_set_wrong = False
        """Whether sets of brokers have been read, and whether anything is wrong with one."""
        self.set_changes = SetChanges()
        """The changes of sets of brokers, as far as screens have read them."""

    # --- readings ----------------------------------------------------------------------------------------------------

    def take_brokers(self, seen: Mapping[str, SeenBroker], facts: Mapping[str, BrokerFacts]) -> None:
        """Takes all brokers, with ``facts`` of those that are not gone."""
        if self.since_ms is None:
            self.since_ms = self._now_ms()
        self.brokers.take(seen, facts)
        self.alerts.look_at_brokers(self._now_ms(), seen, facts)

    def take_lags(self, found: GroupLags) -> None:
        before = self.groups.lags or {}
        self.groups.take_lags(found)
        self.alerts.look_at_lags(self._now_ms(), found, before)

    def take_worst(self, worst: Sequence[WorstGroup]) -> None:
        """Takes the groups that may have the longest lag time, the longest first."""
        self.alerts.look_at_lag_times(self._now_ms(), worst, self.groups.lags or {}, are_all=not self.groups.lacks)
        self.groups.take_worst(worst)

    def take_letters(self, groups: Collection[str], found: Mapping[str, Depth]) -> None:
        """Takes all ``groups`` with dead letters, and ``found``, the depths of some of them."""
        self.letters.take(groups, found)
        self.alerts.look(self._now_ms(), Condition.DEAD_LETTERS, "group", self.letters.grown())

    def take_rows(self, kind: SubjectKind, found: Mapping[str, RowReading]) -> None:
        """Takes what a screen has read of its rows. Sums that lack a broker are ignored, because the pulse's own sums
        may lack other brokers."""
        at_ms = self._now_ms()
        for name, reading in found.items():
            if not reading.lacking and (kind is not SubjectKind.GROUP or not self.groups.lacking_of(name)):
                for field, value in reading.numbers.items():
                    self.history.add(Series(kind, name, field), at_ms, value)
        if kind is SubjectKind.TOPIC:
            rates = {name: None if one.lacking else one.numbers.get("in_tps") for name, one in found.items()}
            self.alerts.look_at_rates(at_ms, "topic", rates, are_all=False)

    def take_topics(self, topics: Collection[str], broker_names: Collection[str]) -> None:
        """Takes all topics and brokers that the nameserver knows. Topics of a broker that has gone do not count as
        deleted, and topics of a broker that has come do not count as new."""
        brokers = frozenset(broker_names)
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
        if not any(one.gone_since_ms is not None for one in (self.brokers.seen or {}).values()):
            self.alerts.keep(Condition.ZERO_RATE, "topic", topics)

    def take_sets(self, sets: Sequence[HaSet]) -> None:
        """Takes what a screen has read of masters and slaves."""
        for change in self.set_changes.look(self._now_ms(), sets):
            self.log.add(change.at_ms, Subject(SubjectKind.BROKER_SET, change.broker_name), change.text, change.mark)

    def take_set_findings(self, sets: Sequence[HaSet], findings: Sequence[Finding]) -> None:
        """Takes what is wrong with masters, slaves and controllers: also a broker that was lost before the dashboard
        started, if its set still knows it."""
        names = {Subject(SubjectKind.BROKER_SET, name): one for one in sets for name in _names_of(one)}
        subjects = dict.fromkeys([*names, *(each.subject for each in findings)])
        self._wrong.keep(SubjectKind.BROKER_SET, [subject.name for subject in subjects])
        for subject in subjects:
            is_known = subject not in names or names[subject].in_sync_count is not None
            found = [one for one in findings if one.subject == subject]
            self._wrong.judge(self._now_ms(), subject, found, unknown=() if is_known else tuple(Check))
        self.are_sets_known, self.is_set_wrong = True, bool(findings)

    # --- what is shown -----------------------------------------------------------------------------------------------

    @property
    def is_complete(self) -> bool:
        """Whether brokers, groups and dead letters have been read at least once."""
        return self.brokers.seen is not None and self.groups.lags is not None and self.letters.is_known

    def wrong(self) -> list[Wrong]:
        """All that is wrong, the worst and longest first."""
        return worst_first([*map(self.brokers.told_now, self._wrong.all()), *self.alerts.lines()])

    def over_time(self, subject: Subject, fields: Collection[str]) -> OverTime:
        """What the row of a subject shows over time, with the last values of ``fields``."""
        lag = (self.groups.lags or {}).get(subject.name) if subject.kind is SubjectKind.GROUP else None
        return OverTime(
            {field: self.history.values(Series(subject.kind, subject.name, field), LINE_SAMPLES) for field in fields},
            "" if lag is None else self.groups.trend(subject.name, lag.lag_count),
        )

    def findings(self, kind: SubjectKind) -> dict[str, tuple[Finding, ...]]:
        """What is wrong with subjects of one kind, by their names, the worst first."""
        found: dict[str, tuple[Finding, ...]] = {}
        for one in self.wrong():
            if one.finding.subject.kind is kind:
                found[one.finding.subject.name] = (*found.get(one.finding.subject.name, ()), one.finding)
        return found

    def cluster_values(self, field: str, count: int) -> Line:
        """The last values of a sum over all brokers or groups: ``in_tps``, ``out_tps``, ``lag_count``."""
        return self.history.values(cluster_series(field), count)

    def is_part(self, field: str) -> bool:
        """Whether the last of the ``cluster_values`` lacks a broker."""
        return bool(self.history.lacking(cluster_series(field)))

    def verdict(self) -> Verdict:
        """Whether all is well. Says nothing about what has not been read."""
        wrong = self.wrong()
        if wrong:
            first = wrong[0].finding
            also = f", and {len(wrong) - 1:,} more" if len(wrong) > 1 else ""
            return Verdict(f"{first.subject.name}: {first.what}{also}", BY_GRADE[first.grade])
        if not self.is_complete:
            return Verdict("asking …", None)
        if self.groups.lacks:
            name, why = next(iter(self.groups.lacks.items()))
            return Verdict(f"unknown how groups are on {name}: {why}", Mark.WARN)
        if not self.brokers.seen:
            return Verdict("the name server knows no broker", Mark.BAD)
        brokers, groups = counted(len(self.brokers.seen), "broker"), counted(len(self.groups.lags or ()), "group")
        return Verdict(f"all is well: {brokers}, {groups}, {self.letters.text()}{self._unasked_text()}", Mark.GOOD)

    def _unasked_text(self) -> str:
        unknown = self.groups.unasked_count
        members = f"; members of {counted(unknown, 'group')} unknown" if unknown else ""
        sets = "" if self.are_sets_known else "; masters and slaves unknown"
        return f"{members}{sets}{'' if self.brokers.name_servers else '; each name server unknown'}"


def _names_of(one: HaSet) -> list[str]:
    """The subjects of findings about a set."""
    controllers = [one.controller_addrs, *one.controller_addrs.split(";")] if one.has_controllers else []
    return [one.broker_name, *map(one.name_of, one.members), *controllers]
