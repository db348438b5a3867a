"""Whether an alert is on, with hysteresis: a value that swings around a threshold does not ring each time."""

from __future__ import annotations

import msgspec

from rmqadmin.core.alerts.alert_rules import AlertRule

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
