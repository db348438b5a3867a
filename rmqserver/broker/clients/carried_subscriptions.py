"""What groups asked for that are not known by heartbeats: the subscriptions that their pulls and pops carried
(``ConsumerManager.compensateSubscribeData``, 5.5.0). Only tools read them."""

from __future__ import annotations

from collections.abc import Callable

from rmqproto.bodies.groups import SubscriptionData
from rmqproto.filters.subscription import TAG, subscription_data

KEPT_MAX = 4096
"""How many are kept; with one more, the oldest is forgotten."""

EXPRESSION_KEPT_CHARS = 1024
"""A longer expression is not kept."""

KEPT_MS = 10 * 60 * 1000


class CarriedSubscriptions:
    def __init__(self, clock_ms: Callable[[], int]):
        self._clock_ms = clock_ms
        self._kept: dict[tuple[str, str], tuple[int, str, str]] = {}
        """Time, type and expression by group and topic, the oldest first."""

    def note(self, group: str, topic: str, kind: str | None, expression: str | None) -> None:
        key, expression = (group, topic), expression or ""
        self._kept.pop(key, None)
        if len(expression) > EXPRESSION_KEPT_CHARS:
            return
        if len(self._kept) >= KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = self._clock_ms(), TAG if kind is None else kind, expression

    def find(self, group: str, topic: str) -> SubscriptionData | None:
        """The newest one of the group and topic; None if it is too old, or there is none. Its version is its time."""
        time_ms, kind, expression = self._kept.get((group, topic), (0, "", ""))
        if self._clock_ms() - time_ms > KEPT_MS:
            return None
        return subscription_data(topic, expression, version=time_ms, expression_type=kind)
