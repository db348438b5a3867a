"""How others disturb a producer that sends now and then and waits for each answer: a thousand connections with half a
frame, a flood of sends past its limit, and the same flood without a limit. Each is compared with the producer alone, in
the same rounds on the same broker."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

from bench.broker.long_polls import answer_code, open_files_for
from bench.harness.extent import Extent
from bench.harness.figure import Figure, percentile
from bench.harness.measure import ANSWER_TIMEOUT_S, WARM_UP_S, Broker, Load
from bench.harness.rows import Row, send
from bench.harness.servers import ours
from bench.harness.table import settle
from rmqclient.admin import AdminClient
from rmqproto.bodies.routes import TopicConfig
from rmqproto.codes import ResponseCode

QUIET, FLOODED = "neighbours_quiet", "neighbours_flooded"
HALF_FRAMES = 1000
FLOOD = Row("flood", 4, 64, send(FLOODED, b"x" * 128))
FLOOD_RATE = 100
"""Sends a second that the limit permits."""

PAUSE_S = 0.002
SECONDS_MIN = 1.0
"""The shortest flood. Every measurement takes as long as a flood."""

RATIO = 2.0
WARM_UP_SENDS = 200


def take(load: Load, extent: Extent) -> list[Figure]:
    seconds = max(extent.seconds, SECONDS_MIN)
    found_ms: dict[str, list[float]] = {"alone": [], "half": [], "limited": [], "unlimited": []}
    with ours() as broker, ExitStack() as stack:
        admin = stack.enter_context(AdminClient(broker.namesrv_addr))
        for topic in (QUIET, FLOODED):
            admin.create_topic(broker.address, TopicConfig(topic_name=topic, read_queue_nums=4, write_queue_nums=4))
        producer = stack.enter_context(socket.create_connection(broker.host_port, timeout=ANSWER_TIMEOUT_S))
        settle(broker)
        for _ in range(WARM_UP_SENDS):
            send_ms(producer)
        for _ in range(extent.rounds):
            found_ms["alone"] += sends_ms(producer, seconds)
            with half_frames(broker):
                found_ms["half"] += sends_ms(producer, seconds)
            for name, rates in (("limited", f"{FLOODED}={FLOOD_RATE}"), ("unlimited", "0")):
                admin.update_broker_config(broker.address, {"maxSendRatePerTopic": rates})
                found_ms[name] += beside_flood_ms(load, broker, producer, seconds)
    return list(figures({name: sorted(each) for name, each in found_ms.items()}))


def figures(found_ms: dict[str, list[float]]) -> Iterator[Figure]:
    """The figures. All lists must be sorted."""
    alone_ms = percentile(found_ms["alone"], 99)
    names = {
        "half": (f"send p99 beside {HALF_FRAMES:,} half frames", RATIO),
        "limited": ("send p99 beside a flood past its limit", RATIO),
        "unlimited": ("send p99 beside a flood without a limit", None),
    }
    for key, (name, bar) in names.items():
        yield Figure(name, "ms", percentile(found_ms[key], 99), alone_ms, "alone", ratio_at_most=bar)


def send_ms(producer: socket.socket) -> float:
    """The time of one send. RuntimeError if it is refused."""
    frame = send(QUIET, b"x" * 128)
    before_s = time.perf_counter()
    producer.sendall(frame)
    code = answer_code(producer)
    took_s = time.perf_counter() - before_s
    if code != ResponseCode.SUCCESS:
        raise RuntimeError(f"a send beside others is answered with {code}")
    return 1000 * took_s


def sends_ms(producer: socket.socket, seconds: float) -> Iterator[float]:
    ends_s = time.monotonic() + seconds
    while time.monotonic() < ends_s:
        time.sleep(PAUSE_S)
        yield send_ms(producer)


@contextmanager
def half_frames(broker: Broker) -> Iterator[None]:
    """Opens connections that begin a request and then send nothing more."""
    frame = send(QUIET, b"x" * 128)
    with ExitStack() as stack:
        for _ in range(open_files_for(HALF_FRAMES)):
            sock = stack.enter_context(socket.create_connection(broker.host_port, timeout=ANSWER_TIMEOUT_S))
            sock.sendall(frame[: len(frame) // 2])
        yield


def beside_flood_ms(load: Load, broker: Broker, producer: socket.socket, seconds: float) -> list[float]:
    with ThreadPoolExecutor(1) as thread:
        flood = thread.submit(load.run, broker, FLOOD, WARM_UP_S + seconds)
        time.sleep(WARM_UP_S)  # until it is running
        took_ms = list(sends_ms(producer, seconds))
        flood.result()
    return took_ms
