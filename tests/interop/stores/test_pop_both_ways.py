"""A store with invisible messages passes from Apache's broker to ours and back. Messages that were popped but not
acknowledged come again at the other broker, each once and not early; acknowledged ones do not."""

import time
from pathlib import Path

import pytest
import trio

from rmqclient.admin import AdminClient
from rmqclient.consumers.simple_consumer import SimpleConsumer
from rmqclient.consuming.popping.pop import PoppedMessage
from rmqclient.consuming.start import ConsumeFrom
from rmqclient.message import Message
from rmqclient.producers.producer import Producer
from tests.support import servers
from tests.support.servers import topic_config

from ..cluster import SETTINGS, SYSTEMS, Cluster

pytestmark = pytest.mark.interop

TOPIC, GROUP = "MovedPops", "Poppers"
INVISIBLE_S, LONGER_S = 20.0, 25.0
"""Long enough to pop and acknowledge everything within it, even on a busy machine."""
COUNT = 12
DEADLINE_S = 90.0


def simple(cluster: Cluster) -> SimpleConsumer:
    return SimpleConsumer(cluster.namesrv_addr, GROUP, consume_from=ConsumeFrom.FIRST_OFFSET)


def create_topic(cluster: Cluster) -> None:
    """Its long timeout suits a JVM that has just started on a busy machine."""
    with AdminClient(cluster.namesrv_addr, timeout_s=DEADLINE_S) as admin:
        admin.create_topic(cluster.broker_addr, topic_config(TOPIC))
        servers.until(lambda: TOPIC in admin.topic_list())
        admin.topic_route(TOPIC)


async def send(cluster: Cluster) -> None:
    async with Producer(cluster.namesrv_addr, "p") as producer:
        for number in range(COUNT):
            await producer.send(Message(TOPIC, b"%d" % number))


async def pop_some(cluster: Cluster) -> dict[bytes, float]:
    """Pops all but the last two messages, and acknowledges some. Returns, for the others, the time until which each is
    invisible, by body."""
    popped: list[PoppedMessage] = []
    until_s: dict[bytes, float] = {}
    async with simple(cluster) as consumer:
        while len(popped) < COUNT - 2:
            asked_s = time.time()
            found = await consumer.pop(
                TOPIC, max_count=min(4, COUNT - 2 - len(popped)), invisible_s=INVISIBLE_S, wait_s=5
            )
            until_s |= {message.body: asked_s + INVISIBLE_S for message in found}
            popped += found
        await consumer.ack(popped[:3])
        await consumer.ack(popped[8])
        until_s[popped[4].body] = time.time() + LONGER_S
        await consumer.change_invisible_time(popped[4], LONGER_S)
        await consumer.ack(await consumer.change_invisible_time(popped[5], LONGER_S))
    for acked in (0, 1, 2, 8, 5):
        del until_s[popped[acked].body]
    return until_s


async def pop_the_rest(cluster: Cluster, until_s: dict[bytes, float]) -> list[tuple[bytes, int]]:
    """Pops until every expected message has come, and a moment longer. Returns the body and reconsume times of each."""
    found: list[tuple[bytes, int]] = []
    deadline_s = time.time() + DEADLINE_S
    async with simple(cluster) as consumer:
        while len(found) < len(until_s) + 2 or time.time() < max(until_s.values()) + 5:
            assert time.time() < deadline_s, found
            messages = await consumer.pop(TOPIC, invisible_s=300, wait_s=2)
            for message in messages:
                assert time.time() >= until_s.get(message.body, 0) - 0.1
                found.append((message.body, message.reconsume_times))
            await consumer.ack(messages)
    return found


@pytest.mark.parametrize(("writer", "reader"), [("apache", "ours"), ("ours", "apache")])
def test_what_is_invisible_passes_to_the_other_broker(tmp_path: Path, writer: str, reader: str) -> None:
    with SYSTEMS[writer](tmp_path / "first", SETTINGS) as first:
        create_topic(first)
        trio.run(send, first)
        until_s = trio.run(pop_some, first)
        first.stop()
    with SYSTEMS[reader](tmp_path / "second", SETTINGS, store_dir=first.store_dir, ports=first.ports) as second:
        found = trio.run(pop_the_rest, second, until_s)
        second.stop() if reader == "ours" else second.kill()
    fresh = [(b"%d" % number, 0) for number in (COUNT - 2, COUNT - 1)]
    assert sorted(found) == sorted([*fresh, *((body, 1) for body in until_s)])
