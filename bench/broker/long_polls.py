"""Many waiting consumers, each with its own connection and queue: how much of a core they cost while nothing comes, and
how long a message to one of them takes, from before its send until it has arrived. Compared with one consumer, so that
the machine's share is in both."""

from __future__ import annotations

import random
import resource
import socket
import statistics
import time
from contextlib import ExitStack

from bench.broker.idle import percent_of_core
from bench.harness.extent import Extent
from bench.harness.figure import Figure
from bench.harness.measure import ANSWER_TIMEOUT_S, Broker
from bench.harness.rows import pull, send
from bench.harness.servers import ours
from rmqclient.admin import AdminClient
from rmqproto.bodies.routes import TopicConfig
from rmqproto.codes import ResponseCode
from rmqproto.wire.command import FrameReader

CONSUMERS = 5000
QUEUES = 100
"""Queues of each topic. Each consumer has one queue."""

HOLD_MS = 600_000
PERCENT_OF_CORE = 5.0
DELIVERY_MS = 1.0
FILES_BESIDE = 200


def take(extent: Extent) -> list[Figure]:
    count = open_files_for(CONSUMERS)
    with ours() as broker:
        alone_ms = measured(broker, 1, extent)[1]
    with ours() as broker:
        idle_percent, delivery_ms = measured(broker, count, extent)
    return [
        Figure(f"{count} consumers that wait, idle", "% core", idle_percent, at_most=PERCENT_OF_CORE),
        Figure(f"delivery to one of {count}, p50", "ms", delivery_ms, alone_ms, "to one that waits alone",
               at_most=DELIVERY_MS),
    ]  # fmt: skip


def open_files_for(count: int) -> int:
    """Raises the limit of open files for ``count`` connections as far as permitted, never lowering it. Returns how many
    connections are possible."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return count
    wanted = max(soft, count + FILES_BESIDE)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return min(count, wanted - FILES_BESIDE)


def measured(broker: Broker, count: int, extent: Extent) -> tuple[float, float]:
    """Percent of a core while nothing comes, and the median delivery time in ms."""
    with AdminClient(broker.namesrv_addr) as admin, ExitStack() as stack:
        for number in range(-(-count // QUEUES)):
            config = TopicConfig(topic_name=topic_of(number * QUEUES), read_queue_nums=QUEUES, write_queue_nums=QUEUES)
            admin.create_topic(broker.address, config)
        waiting = [stack.enter_context(Waiting(broker, number)) for number in range(count)]
        idle_percent = percent_of_core(broker, extent.idle_s)
        producer = stack.enter_context(socket.create_connection(broker.host_port, timeout=ANSWER_TIMEOUT_S))
        random.seed(0)
        took_s = [delivery_s(producer, random.choice(waiting)) for _ in range(extent.deliveries)]
    return idle_percent, 1000 * statistics.median(took_s)


def topic_of(number: int) -> str:
    return f"long_polls_{number // QUEUES}"


class Waiting:
    """A consumer whose pull is held."""

    def __init__(self, broker: Broker, number: int):
        self.topic, self.queue_id = topic_of(number), number % QUEUES
        self.queue_offset = 0
        self.sock = socket.create_connection(broker.host_port, timeout=ANSWER_TIMEOUT_S)
        self.pull()

    def pull(self) -> None:
        self.sock.sendall(pull(self.topic, self.queue_id, self.queue_offset, hold_ms=HOLD_MS))

    def __enter__(self) -> Waiting:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()


def delivery_s(producer: socket.socket, consumer: Waiting) -> float:
    """The time of one delivery. RuntimeError if the send is refused, or if anything but a message comes."""
    frame = send(consumer.topic, b"x" * 128, queue_id=consumer.queue_id)
    before_s = time.perf_counter()
    producer.sendall(frame)
    found = answer_code(consumer.sock)
    took_s = time.perf_counter() - before_s
    stored = answer_code(producer)
    if (found, stored) != (ResponseCode.SUCCESS, ResponseCode.SUCCESS):
        raise RuntimeError(f"a send is answered with {stored}, and the pull that waited with {found}")
    consumer.queue_offset += 1
    consumer.pull()
    return took_s


def answer_code(sock: socket.socket) -> int:
    reader = FrameReader()
    while not (answers := reader.feed(sock.recv(1 << 16))):
        pass
    return answers[0].code
