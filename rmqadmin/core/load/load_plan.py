"""The input and output of the processes of a load: lines of JSON on their standard input and output.

Input: a ``LoadPlan``; then a line of any text once all processes are ready, which starts the load; the end of the input
stops it early. Output: a ``ReadyReport``, then an ``IntervalReport`` for each interval, the last with ``is_last``.
"""

from __future__ import annotations

import msgspec

from rmqclient.addresses import NO_MAP, AddressMap
from rmqclient.tls import TlsFiles
from rmqproto.wire.credentials import Credentials

_EXACT_BITS = 11
"""Durations of up to 2,047 us are kept exactly, longer ones to one part in a thousand."""


class Histogram:
    """Counts of durations in microseconds."""

    __slots__ = ("counts",)

    def __init__(self, counts: dict[int, int] | None = None):
        self.counts: dict[int, int] = {} if counts is None else counts

    def add(self, length_us: int, count: int = 1) -> None:
        surplus = length_us.bit_length() - _EXACT_BITS
        if surplus > 0:
            length_us = length_us >> surplus << surplus
        self.counts[length_us] = self.counts.get(length_us, 0) + count

    def merge(self, other: Histogram) -> None:
        for length_us, count in other.counts.items():
            self.counts[length_us] = self.counts.get(length_us, 0) + count

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def percentiles_ms(self, percents: tuple[float, ...]) -> list[float | None]:
        """For ascending ``percents``, the duration that so many do not exceed; None without counts."""
        if not self.counts:
            return [None] * len(percents)
        total, seen, found = self.total, 0, []
        lengths = iter(sorted(self.counts.items()))
        length_us = 0
        for percent in percents:
            while seen < total * percent / 100 and (each := next(lengths, None)) is not None:
                length_us, count = each
                seen += count
            found.append(length_us / 1000)
        return list(found)


class LoadQueue(msgspec.Struct, frozen=True):
    """A queue of the topic, where its pulls begin and, if they repeat, where they end (queue offsets)."""

    queue_id: int
    offset: int = 0
    end_offset: int = 0


class LanePlan(msgspec.Struct, frozen=True):
    """One connection to one broker. ``sends`` to its queues in turn; otherwise it pulls from them."""

    host: str
    port: int
    sends: bool
    queues: tuple[LoadQueue, ...]


class LoadPlan(msgspec.Struct, frozen=True, kw_only=True):
    """``rate`` is in messages a second, for this process; 0 for no limit. ``batch_size`` is the number of messages in a
    send request, or the number that a pull asks for. ``is_stamped``: bodies hold their sending time, which is searched
    for in pulled messages. ``repeats``: pulls start again at the end of a queue. ``run_id`` is 22 hex digits."""

    topic: str
    group: str
    run_id: str
    lanes: list[LanePlan]
    size_bytes: int
    in_flight: int
    batch_size: int
    rate: float
    duration_s: float
    warm_up_s: float
    interval_s: float
    timeout_s: float
    is_stamped: bool = False
    repeats: bool = False
    tag: str = ""
    has_keys: bool = False
    credentials: Credentials | None = None
    tls: TlsFiles | None = None
    address_map: AddressMap = NO_MAP


class ReadyReport(msgspec.Struct, frozen=True, tag="ready"):
    """Tells that all connections are open; or ``problem`` says why not, and the process ends."""

    problem: str | None = None


class IntervalReport(msgspec.Struct, frozen=True, tag="interval"):
    """``messages`` and ``size_bytes`` are of sent bodies or of pulled records. ``answers_us`` are the durations of
    requests in us, ``deliveries_us`` the times of stamped messages from sending to receiving. ``errors`` counts
    refusals and other failures, by their text. ``unanswered`` messages were under way when the load was stopped."""

    seconds: float
    messages: int
    size_bytes: int
    received: int
    errors: dict[str, int]
    answers_us: dict[int, int]
    deliveries_us: dict[int, int]
    is_warm_up: bool = False
    is_last: bool = False
    unanswered: int = 0


Report = ReadyReport | IntervalReport
