"""The broker's counters: messages and bytes by topic and group, and their rates over minute, hour and day.

The hot path adds to a ``Flow``, which one dict lookup finds, and with it to the broker's totals; it does no timing,
locking or sampling. A task reads the sums once a second, a portion in each turn. Names and meanings are those of
``BrokerStatsManager``, ``StatsItem`` and ``StoreStatsService`` (5.5.0)."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import NamedTuple, TypeVar

import trio

from rmqproto.bodies.statistics import BrokerStatsData, StatsSnapshot
from rmqproto.names import is_system_topic
from rmqserver.store.message_store import MessageStore
from rmqserver.store.queues.consume_queue import PRE_BLANK_SIZE

K = TypeVar("K", bound=Hashable)

SECOND_MS = 1000
FLOWS_MAX = 100_000
"""Flows of one kind. Clients can make any number of pairs of topic and group; those past the limit share one flow."""

SAMPLED_AT_A_TIME = 256
"""Flows whose sums are read in one turn: for a microsecond each."""

RATE_SAMPLES_MAX = 601
"""One a second: the longest rate shown is over ten minutes."""
RATE_SPANS_S = (10, 60, 600)


class Span(NamedTuple):
    """One of the three spans of 315: a sample every ``interval_ms``. The last ``samples_max`` are kept."""

    interval_ms: int
    samples_max: int


MINUTE = Span(10 * SECOND_MS, 7)
HOUR = Span(600 * SECOND_MS, 7)
DAY = Span(3600 * SECOND_MS, 25)
SPANS = (MINUTE, HOUR, DAY)


class Sample(NamedTuple):
    """The sums of a flow at one moment."""

    at_ms: int
    message_count: int
    request_count: int
    size_bytes: int


class Total:
    """Sums of many flows since the start, also of those that are gone."""

    __slots__ = ("message_count", "size_bytes")

    def __init__(self) -> None:
        self.message_count = 0
        self.size_bytes = 0


class Flow:
    """Sums since the start: messages, the requests that carried them, and their bytes."""

    __slots__ = ("_samples", "_total", "message_count", "request_count", "size_bytes")

    def __init__(self, total: Total) -> None:
        self.message_count = 0
        self.request_count = 0
        self.size_bytes = 0
        self._total = total
        self._samples: tuple[deque[Sample], ...] | None = None

    def add(self, message_count: int, size_bytes: int, request_count: int = 1) -> None:
        """Counts requests and their messages."""
        self.message_count += message_count
        self.request_count += request_count
        self.size_bytes += size_bytes
        total = self._total
        total.message_count += message_count
        total.size_bytes += size_bytes

    def sample(self, span: Span, now_ms: int) -> None:
        if self._samples is None:  # all before the first sample came within one interval
            self._samples = tuple(deque(maxlen=each.samples_max) for each in SPANS)
        samples = self._samples[SPANS.index(span)]
        if not samples:
            samples.append(Sample(now_ms - span.interval_ms, 0, 0, 0))
        samples.append(Sample(now_ms, self.message_count, self.request_count, self.size_bytes))

    def answer(self, *, of_bytes: bool = False) -> BrokerStatsData:
        """Sums and rates over the three spans, of messages or of bytes."""
        minute, hour, day = (_snapshot(samples, of_bytes) for samples in self._samples or ((), (), ()))
        return BrokerStatsData(stats_minute=minute, stats_hour=hour, stats_day=day)

    def minute_tps(self) -> float:
        return self.answer().stats_minute.tps


def _snapshot(samples: Iterable[Sample], of_bytes: bool) -> StatsSnapshot:
    found = list(samples)
    if not found:
        return StatsSnapshot()
    first, last = found[0], found[-1]
    total = last.size_bytes - first.size_bytes if of_bytes else last.message_count - first.message_count
    requests = last.request_count - first.request_count
    return StatsSnapshot(
        sum=total, tps=total * 1000 / max(1, last.at_ms - first.at_ms), avgpt=total / requests if requests else 0.0
    )


class Flows(dict[K, Flow]):
    """Flows by topic, or by topic and group; made at first use. One flow counts for all keys that find no room. What is
    not of a system topic counts in ``users``."""

    def __init__(self, is_system: Callable[[K], bool] = lambda key: False) -> None:
        super().__init__()
        self.users, self.system = Total(), Total()
        self._is_system = is_system
        self._rest = Flow(self.users)

    def __missing__(self, key: K) -> Flow:
        if len(self) >= FLOWS_MAX:
            return self._rest
        flow = self[key] = Flow(self.system if self._is_system(key) else self.users)
        return flow

    @property
    def message_count(self) -> int:
        """Of all together, since the start."""
        return self.users.message_count + self.system.message_count


class _Totals(NamedTuple):
    """Sums of the whole broker at one moment, for the rates of 28."""

    at_ms: int
    put: int
    get_found: int
    get_miss: int
    transferred: int


class BrokerStats:
    """The counters of one broker.

    On the hot path: ``puts[topic]`` and ``gets[topic, group]`` give a Flow to add to. ``get_found`` and ``get_miss``
    count pulls; ``put_failed`` counts refused sends. ``put_times.note`` is called once a round. ``run`` is a task.
    """

    def __init__(self, cluster: str, clock_ms: Callable[[], int], own_topics: frozenset[str] = frozenset()):
        """``own_topics`` are this broker's own system topics, in addition to those that every broker has."""
        self.puts: Flows[str] = Flows(self._is_system)
        self.gets: Flows[tuple[str, str]] = Flows(lambda key: self._is_system(key[0]))
        self.get_found = 0
        self.get_miss = 0
        self.put_failed = 0
        self.get_time_max_ms = 0
        self.put_times = PutTimes()
        self.boot_ms = clock_ms()
        self._clock_ms = clock_ms
        self._cluster = cluster
        self._own_topics = own_topics
        self._others: Flows[tuple[str, str]] = Flows()
        self._totals: deque[_Totals] = deque(maxlen=RATE_SAMPLES_MAX)
        self._next_ms = dict.fromkeys(SPANS, self.boot_ms)
        self._next_minute_ms = self.boot_ms + 60 * SECOND_MS
        self._today = time.localtime(self.boot_ms / 1000).tm_yday
        self.put_total_yesterday_morning = self.put_total_this_morning = 0
        self.get_total_yesterday_morning = self.get_total_this_morning = 0

    def note_get(self, started_s: float) -> None:
        """A read of messages that began at ``started_s`` (``time.monotonic()``) has ended."""
        elapsed_ms = int((time.monotonic() - started_s) * 1000)
        if elapsed_ms > self.get_time_max_ms:
            self.get_time_max_ms = elapsed_ms

    # --- rare events -------------------------------------------------------------------------------------------------

    def add(self, name: str, key: str, message_count: int = 1) -> None:
        """Counts one event of a kind without an attribute of its own: SNDBCK_PUT_NUMS, GROUP_ACK_NUMS, DLQ_PUT_NUMS."""
        self._others[name, key].add(message_count, 0)

    def forget_topic(self, topic: str) -> None:
        """Removes the flows of a deleted topic; the broker's totals stay."""
        self.puts.pop(topic, None)
        self._forget_gets(lambda key: key[0] == topic)

    def forget_group(self, group: str) -> None:
        self._forget_gets(lambda key: key[1] == group)

    def _forget_gets(self, is_gone: Callable[[tuple[str, str]], bool]) -> None:
        for key in [key for key in self.gets if is_gone(key)]:
            del self.gets[key]

    # --- totals and rates --------------------------------------------------------------------------------------------

    @property
    def put_count(self) -> int:
        """Messages stored since the start."""
        return self.puts.message_count

    @property
    def put_size_bytes(self) -> int:
        return self.puts.users.size_bytes + self.puts.system.size_bytes

    @property
    def get_count(self) -> int:
        """Messages given to consumers since the start."""
        return self.gets.message_count

    @property
    def user_put_count(self) -> int:
        """As ``put_count``, without system topics."""
        return self.puts.users.message_count

    @property
    def user_get_count(self) -> int:
        return self.gets.users.message_count

    def rates(self, field: str) -> list[float | None]:
        """Rates per second over 10, 60 and 600 s; None for a span longer than the broker has run. ``field``: see
        ``_Totals``."""
        return [self._rate(field, span_s) for span_s in RATE_SPANS_S]

    def _rate(self, field: str, span_s: int) -> float | None:
        if len(self._totals) <= span_s:
            return None
        last, before = self._totals[-1], self._totals[-1 - span_s]
        return float(getattr(last, field) - getattr(before, field)) * 1000 / max(1, last.at_ms - before.at_ms)

    def group_get_tps(self, topic: str, group: str) -> float:
        """Messages a second over the last minute."""
        flow = self.gets.get((topic, group))
        return flow.minute_tps() if flow is not None else 0.0

    def topic_put_tps(self, topic: str) -> float:
        flow = self.puts.get(topic)
        return flow.minute_tps() if flow is not None else 0.0

    def view(self, name: str, key: str) -> BrokerStatsData | None:
        """The answer of 315 VIEW_BROKER_STATS_DATA. None for a statistic that is not counted."""
        topic, _, group = key.rpartition("@")
        flow = self._others.get((name, key))
        if name in ("TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE"):
            flow = self.puts.get(key)
        elif name in ("GROUP_GET_NUMS", "GROUP_GET_SIZE"):
            flow = self.gets.get((topic, group))
        return flow.answer(of_bytes=name.endswith("_SIZE")) if flow is not None else None

    def _is_system(self, topic: str) -> bool:
        return is_system_topic(topic) or topic in self._own_topics

    # --- sampling ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Reads the sums once a second, until cancelled."""
        start_s = trio.current_time()
        for seconds in range(1, 1 << 62):
            for _ in self.tick(self._clock_ms()):
                await trio.lowlevel.checkpoint()
            await trio.sleep_until(start_s + seconds)

    def tick(self, now_ms: int) -> Iterator[None]:
        """Takes the samples that are due, in portions: a turn may end at each of its steps."""
        self._totals.append(_Totals(now_ms, self.put_count, self.get_found, self.get_miss, self.get_count))
        if now_ms >= self._next_minute_ms:
            self._next_minute_ms += 60 * SECOND_MS
            self.put_times.turn_minute()
        today = time.localtime(now_ms / 1000).tm_yday
        if today != self._today:
            self._today = today
            self.put_total_yesterday_morning, self.get_total_yesterday_morning = (
                self.put_total_this_morning, self.get_total_this_morning,
            )  # fmt: skip
            self.put_total_this_morning, self.get_total_this_morning = self.user_put_count, self.user_get_count
        for span, due_ms in self._next_ms.items():
            if now_ms >= due_ms:
                self._next_ms[span] = max(due_ms + span.interval_ms, now_ms)
                yield from self._sample(span, now_ms)

    def _sample(self, span: Span, now_ms: int) -> Iterator[None]:
        totals = {
            "BROKER_PUT_NUMS": self.put_count,
            "BROKER_GET_NUMS": self.get_count,
            "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC": self.user_put_count,
            "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC": self.user_get_count,
        }
        for name, count in totals.items():
            self._others[name, self._cluster].message_count = count
        flows = [*self.puts.values(), *self.gets.values(), *self._others.values()]
        for count, flow in enumerate(flows, 1):
            flow.sample(span, now_ms)
            if not count % SAMPLED_AT_A_TIME:
                yield


_BOUNDS_MS = (10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10_000)
_LABELS = (
    "<=0ms", "0~10ms", "10~50ms", "50~100ms", "100~200ms", "200~500ms", "500ms~1s", "1~2s", "2~3s", "3~4s", "4~5s",
    "5~10s", "10s~",
)  # fmt: skip

_BUCKETS = 64
"""Bucket n holds times below 2**n us. So many buckets hold more than a clock can tell."""


class PutTimes:
    """How long sends took: two minutes of times, the current one, and the last full one, which is shown, as in Apache's
    broker (``StoreStatsService``, 5.5.0). All messages of one round of the loop share one time, so the clock is read
    once a round."""

    def __init__(self) -> None:
        self.max_ms = 0
        self._filling = [0] * _BUCKETS
        self._filling_labels = [0] * len(_LABELS)
        self._shown = [0] * _BUCKETS
        self._shown_labels = [0] * len(_LABELS)

    def note(self, elapsed_us: int, message_count: int) -> None:
        """``message_count`` messages were answered ``elapsed_us`` after the first of them came."""
        self._filling[elapsed_us.bit_length()] += message_count
        if elapsed_us < 1000:  # nearly always, and the next answer waits for this
            self._filling_labels[0] += message_count
            return
        elapsed_ms = elapsed_us // 1000
        self.max_ms = max(self.max_ms, elapsed_ms)
        self._filling_labels[1 + bisect_right(_BOUNDS_MS, elapsed_ms)] += message_count

    def turn_minute(self) -> None:
        """Ends a minute, which is shown from now on."""
        self._shown, self._filling = self._filling, [0] * _BUCKETS
        self._shown_labels, self._filling_labels = self._filling_labels, [0] * len(_LABELS)

    def percentile_ms(self, percent: float) -> float:
        """The time that ``percent`` of the last minute's messages did not exceed. 0.0 if there were no messages."""
        rank = sum(self._shown) * percent / 100
        passed = 0
        for bucket, count in enumerate(self._shown):
            if count and passed + count >= rank:
                low_us, high_us = (1 << bucket) >> 1, 1 << bucket
                return (low_us + (high_us - low_us) * (rank - passed) / count) / 1000
            passed += count
        return 0.0

    def distribution(self) -> str:
        """``[<=0ms]:3 [0~10ms]:1 …``, with a blank at the end, as Apache writes it."""
        pairs = zip(_LABELS, self._shown_labels, strict=True)
        return "".join(f"[{label}]:{count} " for label, count in pairs)


UNKNOWN_MS = -1


def store_time_ms(store: MessageStore, topic: str, queue_id: int, queue_offset: int) -> int:
    """Store time of the message at a queue offset; UNKNOWN_MS if there is none, or none any more. May read the
    device."""
    queue = store.queues.find(topic, queue_id)
    unit = queue.unit(queue_offset) if queue is not None and queue_offset >= queue.min_offset else None
    if unit is None or unit[1] == PRE_BLANK_SIZE:
        return UNKNOWN_MS
    found = store.store_time(unit[0])
    return UNKNOWN_MS if found is None else found
