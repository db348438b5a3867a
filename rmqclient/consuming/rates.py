"""A consumer's activity: counts and durations by topic over the last minute, for ``consumerStatus``
(``ConsumerStatsManager``, 5.5.0)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from rmqproto.bodies.statistics import ConsumeRates

SLOT_S = 10
SLOTS = 6


class Rate:
    """Counts events and their durations over the last SLOTS slots of SLOT_S seconds, including the current one."""

    def __init__(self) -> None:
        self._slots: dict[int, tuple[int, float]] = {}  # count and duration by number of the slot

    def add(self, now_s: float, count: int, duration_ms: float) -> None:
        number = int(now_s // SLOT_S)
        known = self._slots.get(number)
        if known is None:
            self._slots = {slot: total for slot, total in self._slots.items() if slot > number - SLOTS}
            known = (0, 0.0)
        self._slots[number] = (known[0] + count, known[1] + duration_ms)

    def totals(self, now_s: float) -> tuple[int, float]:
        """Count and duration in ms."""
        first = int(now_s // SLOT_S) - SLOTS + 1
        recent = [total for slot, total in self._slots.items() if slot >= first]
        return sum(count for count, _ in recent), sum(duration for _, duration in recent)


@dataclass(slots=True)
class _TopicRates:
    consumed: Rate = field(default_factory=Rate)
    failed: Rate = field(default_factory=Rate)
    pulled: Rate = field(default_factory=Rate)


class Rates:
    """Times are seconds of any one clock."""

    def __init__(self) -> None:
        self._topics: defaultdict[str, _TopicRates] = defaultdict(_TopicRates)

    def consumed(self, topic: str, now_s: float, duration_ms: float, *, is_success: bool) -> None:
        rates = self._topics[topic]
        (rates.consumed if is_success else rates.failed).add(now_s, 1, duration_ms)

    def pulled(self, topic: str, now_s: float, count: int, duration_ms: float) -> None:
        """Counts ``count`` messages of one pull that took ``duration_ms``."""
        self._topics[topic].pulled.add(now_s, count, duration_ms * count)

    def status_table(self, now_s: float) -> dict[str, ConsumeRates]:
        """The table as it appears in a consumer's running info."""
        return {topic: _status(rates, now_s) for topic, rates in self._topics.items()}


def _status(rates: _TopicRates, now_s: float) -> ConsumeRates:
    window_s = SLOT_S * SLOTS
    consumed, consumed_ms = rates.consumed.totals(now_s)
    failed, failed_ms = rates.failed.totals(now_s)
    pulled, pulled_ms = rates.pulled.totals(now_s)
    return ConsumeRates(
        consume_failed_msgs=failed,
        consume_failed_tps=failed / window_s,
        consume_ok_tps=consumed / window_s,
        consume_rt=(consumed_ms + failed_ms) / max(1, consumed + failed),
        pull_rt=pulled_ms / max(1, pulled),
        pull_tps=pulled / window_s,
    )
