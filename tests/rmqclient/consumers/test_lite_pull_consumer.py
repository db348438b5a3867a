"""A lite pull consumer on our own server: queues are assigned or shared, and the application chooses offsets."""

import socket
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from rmqclient.admin import AdminClient
from rmqclient.consumers.lite_pull_consumer import LitePullConsumer
from rmqclient.consuming.rebalance import STICKY
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import BrokerData, QueueData, TopicRoute
from rmqproto.errors import ConnectError, RefusedError, UsageError
from rmqproto.filters.subscription import Sql92
from tests.rmqclient.collector import TIMEOUT_S, send_numbers, until
from tests.rmqclient.fake_broker import BROKER, FakeBroker
from tests.support.servers import Fresh, Server, create_topic

pytestmark = pytest.mark.anyio


def lite(server: Server, group: str, **settings: object) -> LitePullConsumer:
    settings = {"consume_from": "CONSUME_FROM_FIRST_OFFSET", **settings}
    return LitePullConsumer(server.namesrv_addr, group, **settings)  # type: ignore[arg-type]


async def poll_all(consumer: LitePullConsumer, count: int) -> list[int]:
    """Polls until there are ``count`` messages."""
    got: list[int] = []
    with anyio.fail_after(TIMEOUT_S):
        while len(got) < count:
            polled = await consumer.poll(max_count=min(10, count - len(got)))
            assert len(polled) <= 10
            got += [int(message.body) for message in polled]
    return got


async def test_assigned_queues_are_read_wherever_one_seeks(server: Server, group: str, fresh: Fresh) -> None:
    topic = create_topic(server, fresh("LiteTopic"), 2)
    await send_numbers(server, topic, range(20), 2)
    queue = MessageQueue(topic, "broker-a", 1)
    async with lite(server, group) as consumer:
        await consumer.assign([queue])
        assert consumer.assignment == {queue}
        assert await poll_all(consumer, 10) == list(range(1, 20, 2))
        consumer.seek(queue, 7)
        assert consumer.position(queue) == 7
        assert await poll_all(consumer, 3) == [15, 17, 19]
        await consumer.seek_to_begin(queue)
        assert await poll_all(consumer, 1) == [1]
        await consumer.seek_to_end(queue)
        assert await consumer.poll(0.01) == []
        assert await consumer.offset_for_timestamp(queue, 0) == 0
        with pytest.raises(UsageError, match="not assigned"):
            consumer.seek(MessageQueue(topic, "broker-a", 0), 0)


async def test_one_may_seek_before_it_is_known_where_the_group_is(
    server: Server, topic: str, group: str, fresh: Fresh
) -> None:
    """The broker's answer comes later, and must not override the application's seek."""
    await send_numbers(server, topic, range(5))
    queue = MessageQueue(topic, "broker-a", 0)
    async with lite(server, group) as consumer:
        await consumer.assign([queue])
        await anyio.lowlevel.checkpoint()  # its task has asked the broker
        consumer.seek(queue, 3)
        assert await poll_all(consumer, 2) == [3, 4]


async def test_what_was_committed_is_where_the_next_one_begins(
    server: Server, topic: str, group: str, fresh: Fresh
) -> None:
    await send_numbers(server, topic, range(10))
    queue = MessageQueue(topic, "broker-a", 0)
    async with lite(server, group, auto_commit=False) as consumer:
        await consumer.assign([queue])
        assert await poll_all(consumer, 4) == [0, 1, 2, 3]
        assert await consumer.committed(queue) in (None, 0)
        await consumer.commit()
        assert await consumer.committed(queue) == 4
        await poll_all(consumer, 3)
    async with lite(server, group, auto_commit=False) as consumer:
        await consumer.assign([queue])
        assert await poll_all(consumer, 6) == list(range(4, 10))
        await consumer.commit({queue: 2})
    async with lite(server, group) as consumer:
        await consumer.assign([queue])
        assert await poll_all(consumer, 1) == [2]


async def test_only_what_a_later_poll_has_said_to_be_done_is_committed_by_itself(
    server: Server, topic: str, group: str, fresh: Fresh
) -> None:
    """The body may have failed on the messages of the last poll, so committing them at the end would lose them."""
    await send_numbers(server, topic, range(10))
    queue = MessageQueue(topic, "broker-a", 0)
    async with lite(server, group) as consumer:
        await consumer.assign([queue])
        await consumer.poll(TIMEOUT_S, max_count=3)
        await consumer.poll(TIMEOUT_S, max_count=3)
    async with lite(server, group) as consumer:
        assert await consumer.committed(queue) == 3


async def test_a_broker_that_is_down_keeps_back_no_offsets_of_another() -> None:
    """The broker that is down is tried first."""
    down, up = MessageQueue("T", "broker-0", 0), MessageQueue("T", BROKER, 0)
    with FakeBroker() as fake, socket.create_server(("127.0.0.1", 0)) as nobody:
        nobody_addr = f"127.0.0.1:{nobody.getsockname()[1]}"
        nobody.close()
        fake.route = two_brokers(fake.route, nobody_addr)
        fake.store(b"0", b"1", b"2")
        async with LitePullConsumer(fake.namesrv.address, "Group") as consumer:
            await consumer.assign([down, up])
            consumer.seek(down, 1)
            consumer.seek(up, 1)
            with pytest.raises(ConnectError):
                await consumer.commit({down: 1, up: 2})
            assert fake.commits == [2]
        assert fake.commits == [2, 1]


def two_brokers(route: TopicRoute, addr: str) -> TopicRoute:
    return TopicRoute(
        broker_datas=[BrokerData(broker_addrs={0: addr}, broker_name="broker-0"), *route.broker_datas],
        queue_datas=[
            QueueData(broker_name="broker-0", perm=6, read_queue_nums=1, write_queue_nums=1), *route.queue_datas,
        ],
    )  # fmt: skip


async def test_auto_commit_stores_offsets_while_one_polls(server: Server, topic: str, group: str, fresh: Fresh) -> None:
    await send_numbers(server, topic, range(10))
    queue = MessageQueue(topic, "broker-a", 0)
    async with lite(server, group, auto_commit_interval_s=0.0) as consumer:
        await consumer.assign([queue])
        await poll_all(consumer, 10)
        await consumer.poll(0.0)
        assert await consumer.committed(queue) == 10


async def test_members_that_subscribe_share_the_queues(server: Server, group: str, fresh: Fresh) -> None:
    topic = create_topic(server, fresh("LiteTopic"), 4)
    async with lite(server, group) as one, lite(server, group) as two:
        await one.subscribe(topic)
        await two.subscribe(topic)
        await until(lambda: len(one.assignment) == len(two.assignment) == 2)
        assert not one.assignment & two.assignment
        await send_numbers(server, topic, range(20), 4)
        got = await poll_all(one, 10) + await poll_all(two, 10)
        assert sorted(got) == list(range(20))
        await two.unsubscribe(topic)
        await until(lambda: len(one.assignment) == 4)


async def test_sticky_members_and_operators_learn_who_has_what(server: Server, group: str, fresh: Fresh) -> None:
    topic = create_topic(server, fresh("LiteTopic"), 4)
    async with lite(server, group, allocate=STICKY) as one, lite(server, group, allocate=STICKY) as two:
        await one.subscribe(topic)
        await until(lambda: len(one.assignment) == 4)
        await two.subscribe(topic)
        await until(lambda: len(one.assignment) == len(two.assignment) == 2)
        assert not one.assignment & two.assignment
        with AdminClient(server.namesrv_addr) as admin:
            info = await anyio.to_thread.run_sync(admin.consumer_running_info, server.broker_addr, group, one.client_id)
        assert set(info.mq_table) == one.assignment
        assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"


async def test_tags_choose_and_paused_queues_rest(server: Server, topic: str, group: str, fresh: Fresh) -> None:
    await send_numbers(server, topic, range(5), tags="A")
    await send_numbers(server, topic, range(5, 8), tags="B")
    queue = MessageQueue(topic, "broker-a", 0)
    async with lite(server, group) as consumer:
        await consumer.assign([queue], "B")
        consumer.pause([queue])
        assert await consumer.poll(0.05) == []
        consumer.resume([queue])
        assert await poll_all(consumer, 3) == [5, 6, 7]


async def test_queues_that_are_assigned_again_take_another_expression(server: Server, topic: str, fresh: Fresh) -> None:
    """They go on where they are, whatever is committed."""
    await send_numbers(server, topic, range(4), tags="A")
    queue = MessageQueue(topic, "broker-a", 0)
    async with lite(server, fresh("LiteGroup"), auto_commit=False) as consumer:
        await consumer.assign([queue], "A")
        assert await poll_all(consumer, 2) == [0, 1]
        with pytest.raises(UsageError, match="names no tag"):
            await consumer.assign([queue], "||")
        with pytest.raises(RefusedError):
            await consumer.assign([queue], Sql92("a >"))
        assert await poll_all(consumer, 1) == [2]
        await consumer.assign([queue], "B")
        await send_numbers(server, topic, range(4, 6), tags="B")
        assert await poll_all(consumer, 2) == [4, 5]
        await consumer.assign([queue], "A || B")
        consumer.seek(queue, 2)
        assert await poll_all(consumer, 4) == [2, 3, 4, 5]


async def test_a_topic_that_is_subscribed_to_again_goes_on_where_it_is(
    server: Server, topic: str, fresh: Fresh
) -> None:
    async with lite(server, fresh("LiteGroup"), auto_commit=False) as consumer:
        await consumer.subscribe(topic, "A")
        await send_numbers(server, topic, range(4), tags="A")
        assert await poll_all(consumer, 2) == [0, 1]
        await send_numbers(server, topic, range(4, 6), tags="B")
        await consumer.subscribe(topic, "A || B")
        assert await poll_all(consumer, 4) == [2, 3, 4, 5]


async def test_subscribe_and_assign_exclude_each_other(server: Server, topic: str, fresh: Fresh) -> None:
    queue = MessageQueue(topic, "broker-a", 0)
    async with lite(server, fresh("LiteGroup")) as consumer:
        await consumer.subscribe(topic)
        with pytest.raises(UsageError, match="exclude"):
            await consumer.assign([queue])
    async with lite(server, fresh("LiteGroup")) as consumer:
        await consumer.assign([queue])
        with pytest.raises(UsageError, match="exclude"):
            await consumer.subscribe(topic)


async def test_what_cannot_be_subscribed_is_said(server: Server, topic: str, group: str) -> None:
    async with lite(server, group) as consumer:
        with pytest.raises(UsageError, match="names no tag"):
            await consumer.subscribe(topic, "||")
        await consumer.queues(topic)
        with pytest.raises(RefusedError):
            await consumer.subscribe(topic, Sql92("a >"))


async def test_broadcasting_keeps_offsets_in_a_file(
    server: Server, topic: str, group: str, fresh: Fresh, tmp_path: Path
) -> None:
    await send_numbers(server, topic, range(5))
    for expected in ([0, 1, 2], [3, 4]):
        async with lite(server, group, message_model="BROADCASTING", offset_dir=tmp_path) as consumer:
            await consumer.subscribe(topic)
            assert await poll_all(consumer, len(expected)) == expected
            await consumer.commit()
            assert (tmp_path / consumer.client_id / group / "offsets.json").exists()
