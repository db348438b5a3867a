"""Alert rules, as people write them in a TOML file: one ``[[alert]]`` table each, with thresholds as for ``rmqadmin
check``. And whether an alert is on, with hysteresis: a value that swings around a threshold does not ring each time."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec

from rmqadmin.core.files import parse_toml
from rmqadmin.core.health.plugin_text import Quantity, parse_thresholds
from rmqadmin.core.names import did_you_mean
from rmqproto.errors import UsageError
from rmqproto.times import parse_duration

RULES_MAX = 100


class Condition(StrEnum):
    LAG = "lag"
    LAG_TIME = "lag-time"
    ZERO_RATE = "zero-rate"
    DISK = "disk"
    BROKER_GONE = "broker-gone"
    DEAD_LETTERS = "dead-letters"


_QUANTITIES = {
    Condition.LAG: Quantity.COUNT, Condition.LAG_TIME: Quantity.TIME_MS, Condition.DISK: Quantity.PERCENT,
    Condition.DEAD_LETTERS: Quantity.COUNT,
}  # fmt: skip
"""Quantities of the rules that have a threshold. The others are true or false."""

_ABOUT = {
    Condition.LAG: ("group",), Condition.LAG_TIME: ("group",), Condition.ZERO_RATE: ("topic", "group", "broker"),
    Condition.DISK: ("broker",), Condition.BROKER_GONE: ("broker",), Condition.DEAD_LETTERS: ("group",),
}  # fmt: skip
"""The keys that say which names a rule applies to."""

_KEYS = ("when", "topic", "group", "broker", "above", "until", "for", "level", "bell")
_LEVELS = {"warning": False, "critical": True}


class AlertRule(msgspec.Struct, frozen=True):
    """``about`` is topic, group or broker, and ``pattern`` matches its names, with ``*`` and ``?``. The alert begins
    when the value has been above ``above`` for ``for_ms``, and ends when it has been at most ``until`` for as long.
    Units: messages, ms, percent, new dead letters; 1 and 0 for true and false."""

    condition: Condition
    about: str
    pattern: str
    above: float = 0.0
    until: float = 0.0
    for_ms: int = 0
    is_critical: bool = False
    bell: bool = True

    def is_for(self, name: str) -> bool:
        """Whether the rule applies to a name. A broker is ``NAME/ID``, or ``NAME``."""
        return fnmatchcase(name, self.pattern) or (
            self.about == "broker" and fnmatchcase(name.rpartition("/")[0], self.pattern)
        )


def read_alert_rules(path: Path, *, must_exist: bool) -> tuple[AlertRule, ...]:
    """Reads the rules. UsageError, with the file, the alert and the key, for anything invalid."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if not must_exist:
            return ()
        raise UsageError(f"{path}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from None
    try:
        return parse_alert_rules(text)
    except UsageError as error:
        raise UsageError(f"{path}: {error}", hint=error.hint) from None


def parse_alert_rules(text: str) -> tuple[AlertRule, ...]:
    document = parse_toml(text)
    for name in document:
        if name != "alert":
            raise UsageError(f"{name} is unknown", hint="Each alert is a table [[alert]].")
    tables = document.get("alert", [])
    if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        raise UsageError("alert is not a list of tables", hint="Write [[alert]], with two brackets.")
    if len(tables) > RULES_MAX:
        raise UsageError(f"there are {len(tables)} alerts, and at most {RULES_MAX} are allowed")
    return tuple(_rule(f"alert {number}", table) for number, table in enumerate(tables, 1))


def _rule(where: str, table: Mapping[str, Any]) -> AlertRule:
    for key in table:
        if key not in _KEYS:
            hint = did_you_mean(key, _KEYS) or f"Known are: {', '.join(_KEYS)}."
            raise UsageError(f"{where}: {key} is unknown", hint=hint)
    when = table.get("when")
    if when not in list(Condition):
        what = "when is missing" if when is None else f"when = {when!r} is unknown"
        raise UsageError(f"{where}: {what}", hint=f"Write one of: {', '.join(Condition)}.")
    condition = Condition(when)
    about, pattern = _subject(where, condition, table)
    quantity = _QUANTITIES.get(condition)
    above = until = 0.0
    if quantity is None:
        for key in {"above", "until"} & table.keys():
            raise UsageError(f"{where}: {condition} takes no {key}")
    else:
        above = _threshold(where, "above", table.get("above"), quantity)
        until = _threshold(where, "until", table["until"], quantity) if "until" in table else above
        if until > above:
            raise UsageError(f"{where}: until must not be more than above", hint="The alert ends at until or below.")
    level, bell = table.get("level", "warning"), table.get("bell", True)
    if not isinstance(level, str) or level not in _LEVELS:
        raise UsageError(f"{where}: level = {level!r} is unknown", hint=f"Write one of: {', '.join(_LEVELS)}.")
    if not isinstance(bell, bool):
        raise UsageError(f"{where}: bell = {bell!r} must be true or false")
    text = table.get("for", "0s")
    for_ms = parse_duration(text) if isinstance(text, str) else None
    if for_ms is None or for_ms < 0:
        raise UsageError(f"{where}: for = {text!r} is not a duration", hint='Write for example "30s".')
    return AlertRule(condition, about, pattern, above, until, for_ms, _LEVELS[level], bell)


def _subject(where: str, condition: Condition, table: Mapping[str, Any]) -> tuple[str, str]:
    allowed = _ABOUT[condition]
    given = [key for key in ("topic", "group", "broker") if key in table]
    for key in given:
        if key not in allowed:
            raise UsageError(f"{where}: {condition} takes no {key}", hint=f"It takes: {', '.join(allowed)}.")
    if len(given) > 1 or (not given and len(allowed) > 1):
        raise UsageError(f"{where}: {condition} needs one of: {', '.join(allowed)}")
    about = given[0] if given else allowed[0]
    pattern = table.get(about, "*")
    if not isinstance(pattern, str) or not pattern:
        raise UsageError(
            f"{where}: {about} = {pattern!r} is not a name", hint='Write a name, or for example "billing-*".'
        )
    return about, pattern


def _threshold(where: str, key: str, value: Any, quantity: Quantity) -> float:
    if value is None:
        raise UsageError(f"{where}: {key} is missing", hint=f"Write for example {quantity.value}.")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UsageError(f"{where}: {key} = {value!r} is not a number", hint=f"Write for example {quantity.value}.")
    return parse_thresholds(str(value), f"{where}: {key}", (quantity,))[quantity]


_INFINITE = float("inf")


class Bounds(msgspec.Struct, frozen=True):
    """What is known of a value: it is at least ``least`` and at most ``most``."""

    least: float
    most: float

    @classmethod
    def exactly(cls, value: float | None) -> Bounds:
        """Bounds for a known value. None: nothing is known."""
        return UNKNOWN_VALUE if value is None else cls(value, value)

    @classmethod
    def at_least(cls, value: float) -> Bounds:
        return cls(value, _INFINITE)

    @classmethod
    def at_most(cls, value: float) -> Bounds:
        return cls(-_INFINITE, value)


UNKNOWN_VALUE = Bounds(-_INFINITE, _INFINITE)


class AlertState:
    """The state of one rule for one name. ``since_ms`` is when the value crossed the threshold, not when the rule's
    waiting time was over."""

    def __init__(self, rule: AlertRule):
        self.rule = rule
        self.is_on = False
        self.since_ms = 0
        self._turning_ms: int | None = None

    def look(self, at_ms: int, value: Bounds) -> bool:
        """Whether the alert has just begun or just ended. An unknown value neither begins nor ends an alert."""
        turns = value.most <= self.rule.until if self.is_on else value.least > self.rule.above
        if not turns:
            self._turning_ms = None
            return False
        if self._turning_ms is None:
            self._turning_ms = at_ms
        if at_ms - self._turning_ms < self.rule.for_ms:
            return False
        self.is_on, self.since_ms, self._turning_ms = not self.is_on, self._turning_ms, None
        return True
