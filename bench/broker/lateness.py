"""How late timers are in the seconds after one in which a great many are due, compared with Apache's broker.

All are due on whole seconds, which neither broker rounds. The lateness of a timer is the time from when it is due until
a waiting consumer has it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bench.harness.extent import Extent
from bench.harness.figure import Figure, percentile
from bench.harness.measure import Broker, drain_s, put_all, seed
from bench.harness.rows import COUNTED_DIGITS, pull, send
from bench.harness.servers import apache, ours
from bench.harness.table import alone, settle
from rmqclient.admin import AdminClient
from rmqproto.codes import ResponseCode
from rmqproto.headers.base import from_ext
from rmqproto.headers.consuming import PullAnswer
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage, decode_records_untrusted
from tests.support.wire import Wire

CROWD, OTHERS, LATER = "compare_crowd", "compare_others", "compare_later"
OTHERS_PER_S, OTHERS_S = 50, 20
SAMPLE = 10
"""The time to put the whole crowd is estimated from one part in this many. In a smaller sample, one-time costs, such as
the start of Apache's wheel, would count too much."""
LEAD_S = 10
HOLD_MS = 10_000
GIVE_UP_S = 300


@dataclass(frozen=True)
class Lateness:
    """``others_ms`` is sorted. ``errors`` counts messages that did not come, or came twice."""

    others_ms: list[float]
    crowd_s: float
    """The time from the crowd's second until its last message is stored in its topic."""
    errors: int


def take(extent: Extent) -> list[Figure]:
    """Measures one broker after the other: a turn takes minutes, too long to stop the other broker meanwhile."""
    found = {}
    for start in (ours, apache) if extent.with_apache else (ours,):
        with start() as broker:
            seed(broker)
            settle(broker)
            with alone(broker, [broker]):
                found[broker.name] = lateness_of(broker, extent.timers)
    return list(figures(found["ours"], found.get("apache"), f"{extent.timers:,} timers in one second"))


def figures(ours: Lateness, beside: Lateness | None, name: str) -> Iterator[Figure]:
    errors = ours.errors + (beside.errors if beside else 0)
    for percent in (50, 99, 100):
        theirs = percentile(beside.others_ms, percent) if beside else None
        yield Figure(
            f"{name}, others late, {'max' if percent == 100 else f'p{percent}'}", "ms",
            percentile(ours.others_ms, percent), theirs, "Apache's", ratio_at_most=1, errors=errors,
        )  # fmt: skip
    yield Figure(f"{name}, the last stored after", "s", ours.crowd_s, beside.crowd_s if beside else None, "Apache's")


def lateness_of(broker: Broker, count: int) -> Lateness:
    """Measures a broker. RuntimeError if the crowd's second comes before the broker has all timers on its wheel."""
    crowd_due_s = int(time.time() + lead_s(broker, count))
    put_all(broker, numbered(timer(CROWD, crowd_due_s), count))
    for after_s in range(1, OTHERS_S + 1):
        put_all(broker, numbered(timer(OTHERS, crowd_due_s + after_s), OTHERS_PER_S))
    drain_s(broker)
    if time.time() >= crowd_due_s:
        raise RuntimeError(f"{broker.name}: {count:,} timers were due before all were on its wheel: try fewer")
    others_ms = sorted(arrivals_ms(broker, OTHERS_PER_S * OTHERS_S, crowd_due_s + OTHERS_S + GIVE_UP_S))
    stored = wait_for(broker, CROWD, count, crowd_due_s + GIVE_UP_S)
    missing = abs(count - stored) + abs(OTHERS_PER_S * OTHERS_S - wait_for(broker, OTHERS, 0, 0))
    last = next(messages(broker, CROWD, stored - 1)) if stored else None
    crowd_s = last.store_timestamp_ms / 1000 - crowd_due_s if last else 0.0
    return Lateness(others_ms, crowd_s, missing)


def lead_s(broker: Broker, count: int) -> float:
    """Twice the estimated time to put ``count`` timers, and some more."""
    sample, before_s = max(count // SAMPLE, 1000), time.monotonic()
    put_all(broker, numbered(timer(LATER, int(time.time()) + 3600), sample))
    drain_s(broker)
    return LEAD_S + 2 * (time.monotonic() - before_s) * count / sample


def timer(topic: str, due_s: int) -> bytes:
    """A send of a timer message. The body says when it is due."""
    return send(topic, b"%d" % due_s, more={props.TIMER_DELIVER_MS: f"{due_s}000"})


def numbered(frame: bytes, count: int) -> Iterable[bytes]:
    """Requests that differ like those of ``load.c``."""
    first = int(COUNTED_DIGITS)
    return (frame.replace(COUNTED_DIGITS.encode(), b"%d" % number) for number in range(first, first + count))


def arrivals_ms(broker: Broker, count: int, until_s: float) -> Iterator[float]:
    """How late each of the other timers is, until all have come or ``until_s``."""
    with Wire(broker.address) as wire:
        queue_offset = 0
        while queue_offset < count and time.time() < until_s:
            wire.send(pull(OTHERS, 0, queue_offset, hold_ms=HOLD_MS))
            answer = wire.receive()
            now_ms = time.time() * 1000
            queue_offset = from_ext(answer.ext, PullAnswer).next_begin_offset
            if answer.code == ResponseCode.SUCCESS:
                for message in decode_records_untrusted(answer.body):
                    yield now_ms - 1000 * int(message.body)


def messages(broker: Broker, topic: str, queue_offset: int) -> Iterator[StoredMessage]:
    with Wire(broker.address) as wire:
        wire.send(pull(topic, 0, queue_offset))
        yield from decode_records_untrusted(wire.receive().body)


def wait_for(broker: Broker, topic: str, count: int, until_s: float) -> int:
    """Waits until the topic has ``count`` messages, or until ``until_s``. Returns how many it has."""
    with AdminClient(broker.namesrv_addr) as admin:
        while (stored := admin.max_offset(broker.address, topic, 0)) < count and time.time() < until_s:
            time.sleep(0.5)
    return stored
