"""Broadcasting, on our own server: every member gets every message and keeps its own offsets."""

from pathlib import Path

import pytest

from rmqclient import LATER, SUCCESS
from rmqclient.admin import AdminClient
from rmqclient.consumers.push_consumer import PushConsumer
from rmqclient.consuming.offset_store import LocalOffsetStore
from rmqclient.listener import Listener
from rmqclient.message import Message
from rmqclient.producers.producer import Producer
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import StorageError, UsageError
from tests.rmqclient.collector import Collector, until
from tests.support.servers import Fresh, Server, create_topic

pytestmark = pytest.mark.anyio


def broadcast(server: Server, group: str, topic: str, listener: Listener, offset_dir: Path, name: str) -> PushConsumer:
    return PushConsumer(
        server.namesrv_addr,
        group,
        {topic: "*"},
        listener,
        message_model="BROADCASTING",
        consume_from="CONSUME_FROM_FIRST_OFFSET",
        instance_name=name,
        offset_dir=offset_dir,
    )


async def test_every_member_gets_every_message_and_none_twice(server: Server, fresh: Fresh, tmp_path: Path) -> None:
    topic, group = fresh("BroadcastTopic"), fresh("BroadcastGroup")
    create_topic(server, topic, 4)
    one, two = Collector(lambda message: LATER if message.body == b"3" else SUCCESS), Collector()
    async with (
        Producer(server.namesrv_addr, fresh("Producer")) as producer,
        broadcast(server, group, topic, one, tmp_path, "one") as first,
        broadcast(server, group, topic, two, tmp_path, "two") as second,
    ):
        await until(lambda: len(first.assignment) == len(second.assignment) == 4)
        for number in range(20):
            await producer.send(Message(topic, b"%d" % number))
        await until(lambda: len(one.bodies) >= 20 and len(two.bodies) >= 20)
    for collected in (one, two):
        assert sorted(map(int, collected.bodies)) == list(range(20))
    with AdminClient(server.namesrv_addr) as admin:
        stats = admin.consume_stats(server.broker_addr, group, topic)
    assert {each.consumer_offset for each in stats.offset_table.values()} <= {0}, "the broker keeps none"


async def test_a_member_that_comes_back_goes_on_where_it_was(
    server: Server, topic: str, group: str, fresh: Fresh, tmp_path: Path
) -> None:
    before, after = Collector(), Collector()
    async with Producer(server.namesrv_addr, fresh("Producer")) as producer:
        await producer.send(Message(topic, b"before"))
        async with broadcast(server, group, topic, before, tmp_path, "member") as consumer:
            await until(lambda: before.bodies == [b"before"])
            file = tmp_path / consumer.client_id / group / "offsets.json"
        await producer.send(Message(topic, b"after"))
        async with broadcast(server, group, topic, after, tmp_path, "member"):
            await until(lambda: bool(after.bodies))
    assert after.bodies == [b"after"]
    assert await LocalOffsetStore(file).read(MessageQueue(topic, "broker-a", 0)) == 2


async def test_offsets_that_cannot_be_read_are_said_at_the_start(
    server: Server, topic: str, group: str, tmp_path: Path
) -> None:
    """If the damage were ignored, every message would come again, or the messages of the last hours would be lost."""
    async with broadcast(server, group, topic, Collector(), tmp_path, "member") as consumer:
        file = tmp_path / consumer.client_id / group / "offsets.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("no JSON")
    with pytest.raises(StorageError, match=r"offsets\.json"):
        async with broadcast(server, group, topic, Collector(), tmp_path, "member"):
            raise AssertionError("it must not start")


async def test_a_model_that_nobody_knows_is_said() -> None:
    with pytest.raises(UsageError, match="message_model"):
        PushConsumer("127.0.0.1:9876", "g", {"T": "*"}, Collector(), message_model="MULTICAST")
