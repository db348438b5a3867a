"""The alerts of the user's rules: which are on and since when. Each beginning and end goes into the log of changes, and
is news once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from rmqadmin.core.alerts.alert_rules import UNKNOWN_VALUE, AlertRule, AlertState, Bounds, Condition
from rmqadmin.core.health.facts import BrokerFacts
from rmqadmin.core.health.finding import Finding, Grade, Subject, SubjectKind
from rmqadmin.core.tables.marks import BY_GRADE, Mark
from rmqadmin.core.units import count, duration
from rmqadmin.tui.memory.cluster import SeenBroker
from rmqadmin.tui.memory.history import ChangeLog
from rmqadmin.tui.memory.readings import GroupLag, GroupLags, WorstGroup, same_sum
from rmqadmin.tui.memory.wrong_list import Wrong

_KINDS = {"topic": SubjectKind.TOPIC, "group": SubjectKind.GROUP, "broker": SubjectKind.BROKER}


class AlertNews(msgspec.Struct, frozen=True):
    """An alert that has begun or ended. ``rings`` if the user wants a sound."""

    subject: Subject
    text: str
    mark: Mark
    rings: bool


class AlertRow(msgspec.Struct, frozen=True):
    """A rule, and one of the names that it is on for, if any."""

    rule: AlertRule
    number: int
    name: str | None = None
    text: str | None = None
    since_ms: int | None = None


class AlertBook:
    def __init__(self, rules: Sequence[AlertRule], log: ChangeLog):
        self.rules = rules
        self._log = log
        self._states: dict[tuple[int, str], tuple[AlertState, Bounds]] = {}
        self._news: list[AlertNews] = []

    def wanted(self, condition: Condition, about: str, names: Iterable[str]) -> list[str]:
        """Those of ``names`` of which some rule needs this condition."""
        rules = [rule for rule in self.rules if rule.condition is condition and rule.about == about]
        return [name for name in names if any(rule.is_for(name) for rule in rules)] if rules else []

    def look(
        self, at_ms: int, condition: Condition, about: str, values: Mapping[str, Bounds], *, are_all: bool = True
    ) -> None:
        """Checks values against the rules. With ``are_all``, names without a value no longer exist, and their alerts
        are dropped without a log entry."""
        for number, rule in enumerate(self.rules):
            if rule.condition is not condition or rule.about != about:
                continue
            if are_all:
                self._drop_others(number, values)
            for name, value in values.items():
                if rule.is_for(name):
                    self._look_at(at_ms, number, name, value)

    def keep(self, condition: Condition, about: str, names: Collection[str]) -> None:
        """Drops the alerts of names that no longer exist, without a log entry."""
        for number, rule in enumerate(self.rules):
            if rule.condition is condition and rule.about == about:
                self._drop_others(number, names)

    def _drop_others(self, number: int, names: Collection[str]) -> None:
        for place in [one for one in self._states if one[0] == number and one[1] not in names]:
            del self._states[place]

    def _look_at(self, at_ms: int, number: int, name: str, value: Bounds) -> None:
        state, before = self._states.get((number, name)) or (AlertState(self.rules[number]), value)
        turned = state.look(at_ms, value)
        if state.is_on and value.least <= state.rule.until:
            value = before  # the text keeps the last known value
        self._states[number, name] = state, value
        if turned:
            subject = _subject(state.rule, name)
            text = _text(state.rule, value)
            mark = BY_GRADE[_grade(state.rule)] if state.is_on else Mark.GOOD
            said = f"alert: {text}" if state.is_on else f"alert is over: {_what(state.rule)}"
            self._log.add(at_ms, subject, said, mark)
            self._news.append(AlertNews(subject, said, mark, state.is_on and state.rule.bell))

    def take_news(self) -> list[AlertNews]:
        """The alerts that have begun or ended since the last call."""
        news, self._news = self._news, []
        return news

    def lines(self) -> list[Wrong]:
        found = []
        for (number, name), (state, value) in self._states.items():
            if state.is_on:
                subject, text = _subject(state.rule, name), f"alert: {_text(state.rule, value)}"
                found.append(Wrong(Finding(_grade(state.rule), f"alert {number + 1}", subject, text), state.since_ms))
        return found

    def rows(self) -> list[AlertRow]:
        """Every rule, those that are on first, once for each name."""
        on = [
            AlertRow(state.rule, number + 1, name, _text(state.rule, value), state.since_ms)
            for (number, name), (state, value) in self._states.items()
            if state.is_on
        ]
        numbers = {one.number for one in on}
        return [*on, *(AlertRow(rule, at) for at, rule in enumerate(self.rules, 1) if at not in numbers)]

    # --- what each reading says of the conditions --------------------------------------------------------------------

    def look_at_brokers(self, at_ms: int, seen: Mapping[str, SeenBroker], facts: Mapping[str, BrokerFacts]) -> None:
        """``facts`` of those that are not gone."""
        ratios = {key: facts[key].disk_ratio if key in facts else None for key in seen}
        percents = {key: Bounds.exactly(None if one is None else one * 100) for key, one in ratios.items()}
        gone = {key: Bounds.exactly(float(one.gone_since_ms is not None)) for key, one in seen.items()}
        self.look(at_ms, Condition.DISK, "broker", percents)
        self.look(at_ms, Condition.BROKER_GONE, "broker", gone)
        self.look_at_rates(at_ms, "broker", {key: facts[key].in_tps if key in facts else None for key in seen})

    def look_at_rates(self, at_ms: int, about: str, rates: Mapping[str, float | None], *, are_all: bool = True) -> None:
        values = {name: Bounds.exactly(None if one is None else float(one == 0)) for name, one in rates.items()}
        self.look(at_ms, Condition.ZERO_RATE, about, values, are_all=are_all)

    def look_at_lags(self, at_ms: int, found: GroupLags, before: Mapping[str, GroupLag]) -> None:
        """A sum that lacks a broker is a lower bound."""
        lags = {
            group: Bounds.at_least(lag.lag_count) if lag.lacking else Bounds.exactly(lag.lag_count)
            for group, lag in found.groups.items()
        }
        self.look(at_ms, Condition.LAG, "group", lags, are_all=not found.lacks)
        consumed = {
            group: None if lag.lacking or known is None else float(lag.consumed - known.consumed)
            for group, lag in found.groups.items()
            for known in [same_sum(lag, before.get(group))]
        }
        self.look_at_rates(at_ms, "group", consumed, are_all=not found.lacks)

    def look_at_lag_times(
        self, at_ms: int, worst: Sequence[WorstGroup], lags: Mapping[str, GroupLag], *, are_all: bool
    ) -> None:
        """For a group whose waiting messages were not read, its bound is an upper limit."""
        known = {one.group: one.oldest_waiting_ms for one in worst}

        def bounds(group: str, lag: GroupLag) -> Bounds:
            if (oldest_ms := known.get(group)) is not None:
                return Bounds.at_least(at_ms - oldest_ms) if lag.lacking else Bounds.exactly(at_ms - oldest_ms)
            if lag.lacking or group in known:
                return UNKNOWN_VALUE
            return Bounds.at_most(0 if lag.bound_ms is None else at_ms - lag.bound_ms)

        values = {group: bounds(group, lag) for group, lag in lags.items()}
        self.look(at_ms, Condition.LAG_TIME, "group", values, are_all=are_all)


def _subject(rule: AlertRule, name: str) -> Subject:
    is_letters = rule.condition is Condition.DEAD_LETTERS
    return Subject(SubjectKind.DEAD_LETTERS if is_letters else _KINDS[rule.about], name)


def _grade(rule: AlertRule) -> Grade:
    return Grade.ERROR if rule.is_critical else Grade.WARNING


def _count(value: float) -> str:
    return count(round(value))


_FORMS: dict[Condition, Callable[[float], str]] = {
    Condition.LAG: _count,
    Condition.LAG_TIME: duration,
    Condition.DISK: lambda value: f"{value:.1f}%",
    Condition.DEAD_LETTERS: _count,
}


def _what(rule: AlertRule) -> str:
    words = {
        Condition.LAG_TIME: "lag time", Condition.BROKER_GONE: "gone", Condition.DEAD_LETTERS: "new dead letters",
        Condition.ZERO_RATE: "nothing consumed" if rule.about == "group" else "nothing came in",
    }  # fmt: skip
    return words.get(rule.condition, rule.condition.value)


def condition_text(rule: AlertRule) -> str:
    """``lag more than 1,000 for 5m00s``"""
    form = _FORMS.get(rule.condition)
    more = "" if form is None else f" more than {form(rule.above)}"
    return f"{_what(rule)}{more}" + (f" for {duration(rule.for_ms)}" if rule.for_ms else "")


def _text(rule: AlertRule, value: Bounds) -> str:
    form = _FORMS.get(rule.condition)
    if form is None:
        return _what(rule)
    return f"{_what(rule)} {form(value.least)}, more than {form(rule.above)}"
