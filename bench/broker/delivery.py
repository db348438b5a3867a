"""How soon a message reaches a queue's only consumer, whose pull is held, counted from the producer's send and compared
with Apache's broker. The client is in Python, which adds some 10 us to both."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

from bench.broker.long_polls import Waiting, delivery_s, topic_of
from bench.harness.extent import Extent
from bench.harness.figure import Figure, percentile
from bench.harness.measure import ANSWER_TIMEOUT_S, Broker
from bench.harness.servers import apache, ours
from bench.harness.table import alone, settle
from rmqclient.admin import AdminClient
from rmqproto.bodies.routes import TopicConfig

P50_US = 200
PAUSE_S = 0.002
"""Time for the broker to receive the pull and become idle."""
WARM_UP_DELIVERIES = 1000
"""Enough for a JVM to compile its code."""


def take(extent: Extent) -> list[Figure]:
    with ExitStack() as stack:
        brokers = [stack.enter_context(ours())]
        if extent.with_apache:
            brokers.append(stack.enter_context(apache()))
        pairs = {broker.name: stack.enter_context(Pair(broker)) for broker in brokers}
        for broker in brokers:
            settle(broker)
            list(pairs[broker.name].deliveries_us(WARM_UP_DELIVERIES))
        found_us: dict[str, list[float]] = {broker.name: [] for broker in brokers}
        for _ in range(extent.rounds):
            for broker in brokers:
                with alone(broker, brokers):
                    found_us[broker.name] += pairs[broker.name].deliveries_us(extent.deliveries)
    return list(figures(sorted(found_us["ours"]), sorted(found_us.get("apache", []))))


def figures(ours_us: list[float], beside_us: list[float]) -> Iterator[Figure]:
    """The figures. Both lists must be sorted."""
    for percent, bar in ((50, P50_US), (99, None)):
        beside = percentile(beside_us, percent) if beside_us else None
        yield Figure(
            f"message to a held pull, p{percent}", "us", percentile(ours_us, percent), beside, "Apache's", at_most=bar
        )


class Pair(ExitStack):
    """A producer and a waiting consumer."""

    def __init__(self, broker: Broker):
        super().__init__()
        with AdminClient(broker.namesrv_addr) as admin:
            topic = TopicConfig(topic_name=topic_of(0), read_queue_nums=1, write_queue_nums=1)
            admin.create_topic(broker.address, topic)
        self._producer = self.enter_context(socket.create_connection(broker.host_port, timeout=ANSWER_TIMEOUT_S))
        self._consumer = self.enter_context(Waiting(broker, 0))

    def deliveries_us(self, count: int) -> Iterator[float]:
        """The times of ``count`` deliveries. RuntimeError as ``delivery_s``."""
        for _ in range(count):
            time.sleep(PAUSE_S)
            yield 1e6 * delivery_s(self._producer, self._consumer)
