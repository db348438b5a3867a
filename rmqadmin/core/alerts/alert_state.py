"""Whether an alert is on, with hysteresis: what swings about a threshold does not ring each time."""

from __future__ import annotations

import msgspec

from rmqadmin.core.alerts.alert_rules import AlertRule

_INFINITE = float("inf")


class Bounds(msgspec.Struct, frozen=True):
    """What is known of a value: it is not less than ``least`` and not more than ``most``."""

    least: float
    most: float

    @classmethod
    def exactly(cls, value: float | None) -> Bounds:
        """None: nothing is known."""
        return UNKNOWN_VALUE if value is None else cls(value, value)

    @classmethod
    def at_least(cls, value: float) -> Bounds:
        return cls(value, _INFINITE)

    @classmethod
    def at_most(cls, value: float) -> Bounds:
        return cls(-_INFINITE, value)


UNKNOWN_VALUE = Bounds(-_INFINITE, _INFINITE)


class AlertState:
    """One rule for one name. ``since_ms``: when it began, or was over, by the value, not by the rule's patience."""

    def __init__(self, rule: AlertRule):
        self.rule = rule
        self.is_on = False
        self.since_ms = 0
        self._turning_ms: int | None = None

    def look(self, at_ms: int, value: Bounds) -> bool:
        """Whether the alert has begun now, or is over now. What is not known neither begins nor ends anything."""
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
