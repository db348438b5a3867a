"""The alerts of the user's rules: which are on and since when. Each beginning and end goes into the log of changes, and
is news once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from rmqadmin.core.alerts.alert_rules import AlertRule, Condition
from rmqadmin.core.alerts.alert_state import AlertState, Bounds
from rmqadmin.core.tables.marks import Mark
from rmqadmin.core.units import count, duration
from rmqadmin.tui.memory.changes import ChangeLog, Subject, SubjectKind
from rmqadmin.tui.memory.trouble_list import TroubleLine
from rmqadmin.tui.memory.troubles import Trouble

_KINDS = {"topic": SubjectKind.TOPIC, "group": SubjectKind.GROUP, "broker": SubjectKind.BROKER}


class AlertNews(msgspec.Struct, frozen=True):
    """An alert that has begun or ended. ``rings`` if the user wants a sound."""

    subject: Subject
    text: str
    mark: Mark
    rings: bool


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
            mark = _mark(state.rule) if state.is_on else Mark.GOOD
            said = f"alert: {text}" if state.is_on else f"alert is over: {_what(state.rule)}"
            self._log.add(at_ms, subject, said, mark)
            self._news.append(AlertNews(subject, said, mark, state.is_on and state.rule.bell))

    def take_news(self) -> list[AlertNews]:
        """The alerts that have begun or ended since the last call."""
        news, self._news = self._news, []
        return news

    def lines(self) -> list[TroubleLine]:
        found = []
        for (number, name), (state, value) in self._states.items():
            if state.is_on:
                trouble = Trouble(
                    _subject(state.rule, name), f"alert {number + 1}", f"alert: {_text(state.rule, value)}",
                    _mark(state.rule),
                )  # fmt: skip
                found.append(TroubleLine(trouble, state.since_ms))
        return found


def _subject(rule: AlertRule, name: str) -> Subject:
    is_letters = rule.condition is Condition.DEAD_LETTERS
    return Subject(SubjectKind.DEAD_LETTERS if is_letters else _KINDS[rule.about], name)


def _mark(rule: AlertRule) -> Mark:
    return Mark.BAD if rule.is_critical else Mark.WARN


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


def _text(rule: AlertRule, value: Bounds) -> str:
    form = _FORMS.get(rule.condition)
    if form is None:
        return _what(rule)
    return f"{_what(rule)} {form(value.least)}, more than {form(rule.above)}"
