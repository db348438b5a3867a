"""A producer that waits for each answer, while another client pops, queries and asks statistics of a backlog that is
not in memory, and while the first file of the log expires in a store with 80,000 queues. Each is compared with the
producer alone, in the same rounds on the same broker. A send is timed from when it was due, so one that waits for
seconds counts as often as it kept others waiting."""

from __future__ import annotations

import multiprocessing
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path

from bench.broker.long_polls import answer_code
from bench.broker.neighbours import QUIET, WARM_UP_SENDS, send_ms
from bench.harness.extent import Extent
from bench.harness.figure import Figure, percentile
from bench.harness.measure import ANSWER_TIMEOUT_S, Broker, put_all
from bench.harness.rows import COUNTED_DIGITS, request, send
from bench.harness.servers import standalone
from bench.harness.table import settle
from rmqclient.admin import AdminClient
from rmqproto.bodies.routes import TopicConfig
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers.popping import INIT_FROM_MIN, PopHeader

COLD, GROUP, QUEUES = "cold_backlog", "cold_group", 8
MESSAGES_PER_TOPIC = 100
"""Times ``extent.topics``: messages of 1 KiB in the backlog."""

TOPIC_QUEUES = 80
"""Queues of each of ``extent.topics`` topics."""

LOG_FILE = f"mappedFileSizeCommitLog={8 << 20}"
KEPT_LOG_FILES = 5
"""The newest 32 MiB of the log are taken to be in memory."""

EXPIRY_SETTINGS = (
    f"mappedFileSizeCommitLog={1 << 20}", f"mappedFileSizeConsumeQueue={20 * 1000}", "cleanResourceInterval=500",
    "deleteWhen=" + ";".join(map(str, range(24))),
)  # fmt: skip
DUE_EVERY_S = 0.002
SECONDS_MIN = 3.0
RATIO = 2.0


def take(extent: Extent) -> list[Figure]:
    return [
        figure("send p99 beside reads of a cold backlog", beside_cold_reads(extent)),
        figure(f"send p99 while a file expires, {TOPIC_QUEUES * extent.topics:,} queues", while_a_file_expires(extent)),
    ]


def figure(name: str, found_ms: tuple[list[float], list[float]]) -> Figure:
    beside_ms, alone_ms = (percentile(sorted(each), 99) for each in found_ms)
    return Figure(name, "ms", beside_ms, alone_ms, "alone", ratio_at_most=RATIO)


def rounds(
    broker: Broker, extent: Extent, disturbed: Callable[[Callable[[], list[float]]], list[float]]
) -> tuple[list[float], list[float]]:
    """Times of sends within ``disturbed``, and without it."""
    beside_ms, alone_ms = list[float](), list[float]()
    seconds = max(extent.seconds, SECONDS_MIN)
    settle(broker)
    with socket.create_connection(broker.host_port, timeout=ANSWER_TIMEOUT_S) as producer:
        for _ in range(WARM_UP_SENDS):
            send_ms(producer)
        for _ in range(extent.rounds):
            alone_ms += due_sends_ms(producer, seconds)
            beside_ms += disturbed(lambda: list(due_sends_ms(producer, seconds)))
    return beside_ms, alone_ms


def due_sends_ms(producer: socket.socket, seconds: float) -> Iterator[float]:
    due_s = time.monotonic()
    ends_s = due_s + seconds
    while due_s < ends_s:
        time.sleep(max(due_s - time.monotonic(), 0))
        send_ms(producer)
        yield 1000 * (time.monotonic() - due_s)
        due_s += DUE_EVERY_S


# --- a backlog that is not in memory ---------------------------------------------------------------------------------


def beside_cold_reads(extent: Extent) -> tuple[list[float], list[float]]:
    with (
        tempfile.TemporaryDirectory(prefix="rmq-bench-cold-") as folder,
        standalone(Path(folder), settings=[LOG_FILE]) as broker,
    ):
        create(broker, [TopicConfig(topic_name=name, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
                        for name in (QUIET, COLD)])  # fmt: skip
        count = MESSAGES_PER_TOPIC * extent.topics
        put_all(broker, (send(COLD, b"x" * 1024, queue_id=number % QUEUES) for number in range(count)))
        os.sync()  # what is not on the device stays in memory

        def disturbed(measure: Callable[[], list[float]]) -> list[float]:
            with cold_reads(broker, Path(folder)):
                return measure()

        return rounds(broker, extent, disturbed)


@contextmanager
def cold_reads(broker: Broker, store: Path) -> Iterator[None]:
    """Another process that reads, one request after the other."""
    context = multiprocessing.get_context("spawn")
    begins, ends = context.Event(), context.Event()
    reader = context.Process(target=read_cold, args=(broker, store, begins, ends))
    reader.start()
    try:
        while not begins.wait(1):
            if not reader.is_alive():
                raise RuntimeError("the reader of the cold backlog has failed")
        yield
    finally:
        ends.set()
        reader.join()
    if reader.exitcode:
        raise RuntimeError("the reader of the cold backlog has failed")


def read_cold(broker: Broker, store: Path, begins: Event, ends: Event) -> None:
    header = PopHeader(consumer_group=GROUP, topic=COLD, queue_id=-1, max_msg_nums=32, invisible_time=600_000,
                       poll_time=0, init_mode=INIT_FROM_MIN, exp_type="TAG", exp="*", order=False)  # fmt: skip
    with ExitStack() as stack:
        admin = stack.enter_context(AdminClient(broker.namesrv_addr))
        sock = stack.enter_context(socket.create_connection(broker.host_port, timeout=ANSWER_TIMEOUT_S))

        def pop() -> None:
            header.born_time = int(time.time() * 1000)
            sock.sendall(request(RequestCode.POP_MESSAGE, header))
            if (code := answer_code(sock)) != ResponseCode.SUCCESS:
                raise RuntimeError(f"a pop is answered with {code}")

        while not ends.is_set():
            for read in (pop, lambda: admin.query_message(broker.address, COLD, f"order-{COUNTED_DIGITS}"),
                         lambda: admin.consume_stats(broker.address, GROUP, COLD),
                         lambda: admin.topic_stats(broker.address, COLD)):  # fmt: skip
                drop_cached(store)
                read()
                begins.set()


def drop_cached(store: Path) -> None:
    """Drops the backlog from the page cache. What is being written stays: half a page that is written needs the other
    half, and no system drops a page that was just used."""
    backlog = [*sorted(store.glob("commitlog/*"))[:-KEPT_LOG_FILES], *store.glob(f"consumequeue/{COLD}/*/*"),
               *store.glob("index/*")]  # fmt: skip
    for path in backlog:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


# --- many queues -----------------------------------------------------------------------------------------------------


def while_a_file_expires(extent: Extent) -> tuple[list[float], list[float]]:
    with tempfile.TemporaryDirectory(prefix="rmq-bench-queues-") as folder:
        with standalone(Path(folder), settings=EXPIRY_SETTINGS) as broker:
            names = [QUIET, *(f"many_{number}" for number in range(extent.topics))]
            create(broker, [TopicConfig(topic_name=name, read_queue_nums=TOPIC_QUEUES, write_queue_nums=TOPIC_QUEUES)
                            for name in names])  # fmt: skip
            put_all(broker, (send(name, b"x" * 128, queue_id=queue_id)
                             for name in names for queue_id in range(TOPIC_QUEUES)))  # fmt: skip
        with standalone(Path(folder), settings=EXPIRY_SETTINGS) as broker:

            def disturbed(measure: Callable[[], list[float]]) -> list[float]:
                first = min(Path(folder, "commitlog").iterdir())
                os.utime(first, (0, 0))
                found_ms = measure()
                if first.exists():
                    raise RuntimeError(f"{first.name} has not expired")
                return found_ms

            return rounds(broker, extent, disturbed)


def create(broker: Broker, topics: list[TopicConfig]) -> None:
    with AdminClient(broker.namesrv_addr) as admin:
        for first in range(0, len(topics), 500):
            admin.create_topics(broker.address, topics[first : first + 500])
