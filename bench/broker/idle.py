"""How much of a core an idle ``rmqserver standalone`` uses: alone, and while it holds consumers' pulls."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from select import select

from bench.harness.extent import Extent
from bench.harness.figure import Figure
from bench.harness.measure import Broker, cpu_s, seed
from bench.harness.rows import SMALL, pull
from bench.harness.servers import ours

CONSUMERS = 100
PERCENT_OF_CORE = 1.0
EMPTY_QUEUE = 1
"""All seed messages of the topic are in queue 0."""


def take(extent: Extent) -> list[Figure]:
    with ours() as broker, ExitStack() as stack:
        seed(broker)
        alone = percent_of_core(broker, extent.idle_s)
        consumers = [stack.enter_context(socket.create_connection(broker.host_port)) for _ in range(CONSUMERS)]
        for consumer in consumers:
            consumer.sendall(pull(SMALL, EMPTY_QUEUE, hold_ms=round(2000 * extent.idle_s)))
        held = percent_of_core(broker, extent.idle_s)
        answered, _, _ = select(consumers, [], [], 0)  # refused, or answered too early
    return [
        Figure("standalone, idle", "% core", alone, at_most=PERCENT_OF_CORE),
        Figure(
            f"standalone, idle, {CONSUMERS} pulls held", "% core", held, at_most=PERCENT_OF_CORE, errors=len(answered)
        ),
    ]


def percent_of_core(broker: Broker, seconds: float) -> float:
    before_s, cpu_before_s = time.monotonic(), cpu_s(broker.pid)
    time.sleep(seconds)
    return 100 * (cpu_s(broker.pid) - cpu_before_s) / (time.monotonic() - before_s)
