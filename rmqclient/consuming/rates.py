"""A consumer's activity by topic, for ``consumerStatus``: the figures of ``ConsumerStatsManager`` (5.5.0)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial

from rmqclient.message import ReceivedMessage
from rmqproto.bodies.statistics import ConsumeRates

MINUTE_SLOT_S, HOUR_SLOT_S = 10, 600
SLOTS = 6


class Rate:
    """Sums values over the last SLOTS slots, including the current one."""

    def __init__(self, slot_s: int = MINUTE_SLOT_S) -> None:
        self._slot_s = slot_s
        self._first_s: float | None = None
        self._slots: dict[int, tuple[float, int]] = {}  # sum and count of the values by number of the slot

    def add(self, now_s: float, value: float) -> None:
        number = int(now_s // self._slot_s)
        known = self._slots.get(number)
        if known is None:
            self._slots = {slot: total for slot, total in self._slots.items() if slot > number - SLOTS}
            known = (0, 0)
            if self._first_s is None:
                self._first_s = now_s
        self._slots[number] = (known[0] + value, known[1] + 1)

    def totals(self, now_s: float) -> tuple[float, int]:
        """Sum and count of the values."""
        first = self._first_slot(now_s)
        recent = [total for slot, total in self._slots.items() if slot >= first]
        return sum(value for value, _ in recent), sum(count for _, count in recent)

    def per_s(self, now_s: float) -> float:
        """The sum by the time in which it came; a client younger than a slot counts as that old."""
        began_s = max(self._first_slot(now_s) * self._slot_s, self._first_s or 0)
        return self.totals(now_s)[0] / max(self._slot_s, now_s - began_s)

    def average(self, now_s: float) -> float | None:
        """Of the values; None without any."""
        total, count = self.totals(now_s)
        return total / count if count else None

    def _first_slot(self, now_s: float) -> int:
        return int(now_s // self._slot_s) - SLOTS + 1


@dataclass(slots=True)
class _TopicRates:
    """Of messages, but ``call`` and ``pull``: ms of each call of the listener and of each pull that brought some."""

    consumed: Rate = field(default_factory=Rate)
    failed: Rate = field(default_factory=Rate)
    failed_in_hour: Rate = field(default_factory=partial(Rate, HOUR_SLOT_S))
    call: Rate = field(default_factory=Rate)
    call_in_hour: Rate = field(default_factory=partial(Rate, HOUR_SLOT_S))
    pulled: Rate = field(default_factory=Rate)
    pull: Rate = field(default_factory=Rate)


class Rates:
    """Times are seconds of any one clock."""

    def __init__(self, topics: Collection[str] = ()) -> None:
        """``topics``: those subscribed to, with the group's retry topic. They have a row from the start."""
        self._topics = {topic: _TopicRates() for topic in topics}

    def consumed(
        self, messages: Sequence[ReceivedMessage], now_s: float, duration_ms: float, *, is_success: bool
    ) -> None:
        """Counts one call of the listener with messages of one queue. Those that were pulled from the retry topic are
        counted there, as in Java."""
        topic = messages[0].queue.topic
        rates = self._of(topic if topic in self._topics else messages[0].topic)
        rates.call.add(now_s, duration_ms)
        rates.call_in_hour.add(now_s, duration_ms)
        if is_success:
            rates.consumed.add(now_s, len(messages))
        else:
            rates.failed.add(now_s, len(messages))
            rates.failed_in_hour.add(now_s, len(messages))

    def pulled(self, topic: str, now_s: float, count: int, duration_ms: float) -> None:
        """Counts ``count`` messages of one pull that took ``duration_ms``."""
        rates = self._of(topic)
        rates.pulled.add(now_s, count)
        rates.pull.add(now_s, duration_ms)

    def status_table(self, now_s: float) -> dict[str, ConsumeRates]:
        """The table as it appears in a consumer's running info: of the last minute, but ``consumeFailedMsgs``, and
        ``consumeRT`` if nothing was consumed in that minute, are of the last hour."""
        return {topic: _status(rates, now_s) for topic, rates in self._topics.items()}

    def _of(self, topic: str) -> _TopicRates:
        return self._topics.get(topic) or self._topics.setdefault(topic, _TopicRates())


def _status(rates: _TopicRates, now_s: float) -> ConsumeRates:
    call_ms = rates.call.average(now_s)
    return ConsumeRates(
        consume_failed_msgs=int(rates.failed_in_hour.totals(now_s)[0]),
        consume_failed_tps=rates.failed.per_s(now_s),
        consume_ok_tps=rates.consumed.per_s(now_s),
        consume_rt=(rates.call_in_hour.average(now_s) or 0.0) if call_ms is None else call_ms,
        pull_rt=rates.pull.average(now_s) or 0.0,
        pull_tps=rates.pulled.per_s(now_s),
    )
