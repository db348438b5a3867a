"""How long it takes to create 1,000 topics one by one, with 10,000 existing topics and with none. Each is registered
with the nameserver and saved in its file before the answer."""

from __future__ import annotations

import time

from bench.harness.extent import Extent
from bench.harness.figure import Figure
from bench.harness.measure import Broker
from bench.harness.servers import ours
from rmqclient.admin import AdminClient
from rmqproto.bodies.routes import TopicConfig

OTHERS = 10_000
QUEUES = 8
SECONDS = 3.0
LIST = 1000
"""How many topics one request creates where that is not measured."""


def take(extent: Extent) -> list[Figure]:
    with ours() as broker:
        alone_s = seconds(broker, extent.topics)
    with ours() as broker, AdminClient(broker.namesrv_addr) as admin:
        for first in range(0, OTHERS, LIST):
            admin.create_topics(broker.address, [config(f"other-{first + number}") for number in range(LIST)])
        beside_others_s = seconds(broker, extent.topics)
    name = f"{extent.topics} topics one by one, beside {OTHERS}"
    return [Figure(name, "s", beside_others_s, alone_s, "the same beside none", at_most=SECONDS)]


def seconds(broker: Broker, count: int) -> float:
    with AdminClient(broker.namesrv_addr) as admin:
        before_s = time.monotonic()
        for number in range(count):
            admin.create_topic(broker.address, config(f"one-{number}"))
        return time.monotonic() - before_s


def config(name: str) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
