"""How others disturb a producer that sends now and then and waits for each answer: a thousand connections with half a
frame, a flood of sends past its limit, the same flood without a limit, and clients of gRPC that break its rules. Each
is compared with the producer alone, in the same rounds on the same broker."""

from __future__ import annotations

import itertools
import multiprocessing
import socket
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.synchronize import Event

from bench.broker.long_polls import answer_code, open_files_for
from bench.harness.extent import Extent
from bench.harness.figure import Figure, percentile
from bench.harness.measure import ANSWER_TIMEOUT_S, WARM_UP_S, Broker, Load, rss_mb
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
HOSTILE = 8
"""Connections of gRPC that break its rules; those that are ended for it come again."""

GRPC_MB = 15
"""What the door may take, its libraries among it."""

WARM_UP_SENDS = 200


def take(load: Load, extent: Extent) -> list[Figure]:
    seconds = max(extent.seconds, SECONDS_MIN)
    found_ms: dict[str, list[float]] = {"alone": [], "half": [], "hostile": [], "limited": [], "unlimited": []}
    with ours() as broker, ExitStack() as stack:
        admin = stack.enter_context(AdminClient(broker.namesrv_addr))
        for topic in (QUIET, FLOODED):
            admin.create_topic(broker.address, TopicConfig(topic_name=topic, read_queue_nums=4, write_queue_nums=4))
        producer = stack.enter_context(socket.create_connection(broker.host_port, timeout=ANSWER_TIMEOUT_S))
        settle(broker)
        for _ in range(WARM_UP_SENDS):
            send_ms(producer)
        more_mb = 0.0
        for _ in range(extent.rounds):
            found_ms["alone"] += sends_ms(producer, seconds)
            with half_frames(broker):
                found_ms["half"] += sends_ms(producer, seconds)
            before_mb = rss_mb(broker.pid)
            with hostile_grpc(broker):
                found_ms["hostile"] += sends_ms(producer, seconds)
            more_mb = max(more_mb, rss_mb(broker.pid) - before_mb)
            for name, rates in (("limited", f"{FLOODED}={FLOOD_RATE}"), ("unlimited", "0")):
                admin.update_broker_config(broker.address, {"maxSendRatePerTopic": rates})
                found_ms[name] += beside_flood_ms(load, broker, producer, seconds)
    memory = Figure("memory for hostile clients of gRPC", "MB", more_mb, at_most=GRPC_MB)
    return [*figures({name: sorted(each) for name, each in found_ms.items()}), memory]


def figures(found_ms: dict[str, list[float]]) -> Iterator[Figure]:
    """The figures. All lists must be sorted."""
    alone_ms = percentile(found_ms["alone"], 99)
    names = {
        "half": (f"send p99 beside {HALF_FRAMES:,} half frames", RATIO),
        "hostile": ("send p99 beside hostile clients of gRPC", RATIO),
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


@contextmanager
def hostile_grpc(broker: Broker) -> Iterator[None]:
    context = multiprocessing.get_context("spawn")
    ends = context.Event()
    flood = context.Process(target=flood_grpc, args=(broker.port, ends))
    flood.start()
    time.sleep(WARM_UP_S)
    try:
        yield
    finally:
        ends.set()
        flood.join()


def flood_grpc(port: int, ends: Event) -> None:
    """Pings, calls that are cancelled, header blocks without end, answers that nobody reads: as fast as it can."""

    def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
        return struct.pack(">IBI", len(payload) << 8 | kind, flags, stream) + payload

    hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"")
    block = b"\x83\x86\x04\x02/a\x01\x01b"
    kinds = [
        frame(6, 0, 0, bytes(8)) * 100,
        b"".join(frame(1, 4, 2 * each + 1, block) + frame(3, 0, 2 * each + 1, bytes(4)) for each in range(4000)),
        frame(1, 0, 1, block) + frame(9, 0, 1, b"") * 4000,
        b"".join(frame(1, 5, 2 * each + 1, block) for each in range(1000)),
        frame(8, 0, 0, bytes((0, 0, 0, 1))) * 4000,
    ]
    open_now: list[socket.socket] = []
    for kind in itertools.cycle(kinds):
        if ends.is_set():
            return
        with suppress(OSError):
            open_now.append(socket.create_connection(("127.0.0.1", port), timeout=1))
            open_now[-1].setblocking(False)
            open_now[-1].send(hello + kind)
        if len(open_now) == HOSTILE:
            with suppress(OSError), open_now.pop(0) as oldest:
                oldest.settimeout(1)
                while oldest.recv(1 << 16):
                    pass


def beside_flood_ms(load: Load, broker: Broker, producer: socket.socket, seconds: float) -> list[float]:
    with ThreadPoolExecutor(1) as thread:
        flood = thread.submit(load.run, broker, FLOOD, WARM_UP_S + seconds)
        time.sleep(WARM_UP_S)  # until it is running
        took_ms = list(sends_ms(producer, seconds))
        flood.result()
    return took_ms
