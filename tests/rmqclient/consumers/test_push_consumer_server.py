"""Push consumers on our own server: retries, dead letters, rebalancing, and a killed broker."""

import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from rmqclient.admin import AdminClient
from rmqclient.consumers.pull_consumer import PullConsumer
from rmqclient.consumers.push_consumer import PushConsumer
from rmqclient.consuming.rebalance import STICKY
from rmqclient.listener import LATER, NEVER_AGAIN, SUCCESS, ConsumeStatus, later
from rmqclient.message import Message, ReceivedMessage
from rmqclient.producers.producer import Producer
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import ConnectError, RefusedError, UsageError
from tests.rmqclient.collector import POLL_S, TIMEOUT_S, Collector, from_first, send_numbers, until
from tests.support import servers
from tests.support.processes import free_ports
from tests.support.servers import Fresh, Server, create_topic

pytestmark = pytest.mark.anyio


async def test_every_message_is_consumed_and_committed(server: Server, admin: AdminClient, fresh: Fresh) -> None:
    topic, group = fresh("PushTopic"), fresh("PushGroup")
    create_topic(server, topic, 4)
    collect = Collector()
    async with from_first(server, group, topic, collect):
        await send_numbers(server, topic, range(100), 4)
        await until(lambda: len(collect.bodies) >= 100)
    assert sorted(map(int, collect.bodies)) == list(range(100))
    stats = admin.consume_stats(server.broker_addr, group, topic)
    assert sum(each.consumer_offset for each in stats.offset_table.values()) == 100
    with pytest.raises(RefusedError, match="not online"):
        admin.consumer_connection(server.broker_addr, group)


async def test_who_has_just_begun_does_not_say_that_it_has_been_stuck_since_1970(
    server: Server, topic: str, group: str, fresh: Fresh
) -> None:
    """A consumer used to report 0 as the time of its last message until it finished its first one. By Apache's rule
    that means blocked."""
    begun, may_end = anyio.Event(), anyio.Event()

    async def listen(message: ReceivedMessage) -> None:
        begun.set()
        await may_end.wait()

    async with Producer(server.namesrv_addr, fresh("Producer")) as producer:
        sent_ms = time.time_ns() // 1_000_000
        await producer.send(Message(topic, b"long"))
        async with from_first(server, group, topic, listen) as consumer:
            await begun.wait()
            with AdminClient(server.namesrv_addr) as admin:
                info = await anyio.to_thread.run_sync(
                    admin.consumer_running_info, server.broker_addr, group, consumer.client_id
                )
            state = info.mq_table[MessageQueue(topic, "broker-a", 0)]
            assert state.cached_msg_count == 1
            assert min(state.last_consume_timestamp, state.last_pull_timestamp) >= sent_ms - 60_000
            may_end.set()


async def test_operators_see_how_fast_it_consumes_and_in_how_many_threads(
    server: Server, topic: str, group: str, fresh: Fresh
) -> None:
    collect = Collector(lambda message: LATER if message.body == b"0" and not message.reconsume_times else SUCCESS)
    await send_numbers(server, topic, range(5))
    async with from_first(server, group, topic, collect) as consumer:
        await until(lambda: len(collect.bodies) >= 5)
        consumer.set_concurrency(7)
        with pytest.raises(UsageError, match="concurrency is 0"):
            consumer.set_concurrency(0)
        with AdminClient(server.namesrv_addr) as admin:
            info = await anyio.to_thread.run_sync(
                admin.consumer_running_info, server.broker_addr, group, consumer.client_id
            )
    names = ("PROP_THREADPOOL_CORE_SIZE", "consumeThreadMin", "consumeThreadMax")
    assert [info.properties[name] for name in names] == ["7", "7", "7"]
    assert info.status_table.keys() == {topic, f"%RETRY%{group}"}
    rates = info.status_table[topic]
    assert rates.consume_failed_msgs == 1
    assert min(rates.consume_failed_tps, rates.consume_ok_tps, rates.pull_tps) > 0


async def test_a_message_comes_again_under_its_own_topic_and_then_goes_to_the_dead_letters(
    server: Server, topic: str, group: str, fresh: Fresh
) -> None:
    seen: list[tuple[str, int]] = []

    async def listener(message: ReceivedMessage) -> ConsumeStatus:
        seen.append((message.topic, message.reconsume_times))
        return later(1) if message.reconsume_times == 0 else later(NEVER_AGAIN)

    async with Producer(server.namesrv_addr, fresh("Producer")) as producer, from_first(server, group, topic, listener):
        sent = await producer.send(Message(topic, b"poison"))
        await until(lambda: len(seen) == 2)
        async with PullConsumer(server.namesrv_addr, fresh("Puller")) as puller:
            dead = await dead_letters(puller, group)
    assert seen == [(topic, 0), (topic, 1)]
    assert [(message.body, message.topic, message.message_id) for message in dead] == [
        (b"poison", topic, sent.message_id)
    ]


async def dead_letters(puller: PullConsumer, group: str) -> list[ReceivedMessage]:
    """Waits for the first dead letter: the listener fails before the broker hears of it."""
    with anyio.fail_after(TIMEOUT_S):
        while not await exists(puller, f"%DLQ%{group}"):
            await anyio.sleep(POLL_S)
        return (await puller.pull(MessageQueue(f"%DLQ%{group}", "broker-a", 0), 0, wait_s=TIMEOUT_S)).messages


async def exists(puller: PullConsumer, topic: str) -> bool:
    try:
        return bool(await puller.queues(topic))
    except RefusedError:
        return False


async def test_members_share_the_queues_and_take_over_from_who_leaves(server: Server, group: str, fresh: Fresh) -> None:
    topic = create_topic(server, fresh("ShareTopic"), 4)
    first, second = Collector(), Collector()
    bodies = [b"%d" % number for number in range(40)]
    async with (
        Producer(server.namesrv_addr, fresh("Producer")) as producer,
        from_first(server, group, topic, first) as one,
    ):
        await until(lambda: len(one.assignment) == 4)
        async with from_first(server, group, topic, second) as two:
            await until(lambda: len(one.assignment) == len(two.assignment) == 2)
            assert not one.assignment & two.assignment
            for body in bodies[:20]:
                await producer.send(Message(topic, body))
            await until(lambda: len(first.bodies) + len(second.bodies) >= 20)
            assert first.bodies
            assert second.bodies
        await until(lambda: len(one.assignment) == 4)
        for body in bodies[20:]:
            await producer.send(Message(topic, body))
        await until(lambda: len(first.bodies) + len(second.bodies) >= 40)
    assert Counter(first.bodies + second.bodies) == Counter(bodies)


async def test_sticky_members_move_no_more_queues_than_they_must(server: Server, group: str, fresh: Fresh) -> None:
    """When a third member joins, the average strategies would move four of eight queues, some between the first two
    members, because the runs of queues shift."""
    topic = create_topic(server, fresh("StickyTopic"), 8)

    def member() -> PushConsumer:
        return PushConsumer(server.namesrv_addr, group, {topic: "*"}, Collector(), allocate=STICKY)

    def sizes(*members: PushConsumer) -> list[int]:
        return sorted(len(member.assignment) for member in members)

    async with member() as one, member() as two:
        await until(lambda: sizes(one, two) == [4, 4] and not one.assignment & two.assignment)
        before = one.assignment, two.assignment
        async with member() as three:
            await until(lambda: sizes(one, two, three) == [2, 3, 3])
            await until(lambda: len(one.assignment | two.assignment | three.assignment) == 8)
            assert one.assignment < before[0]
            assert two.assignment < before[1]
        await until(lambda: sizes(one, two) == [4, 4] and len(one.assignment | two.assignment) == 8)


async def test_a_topic_may_come_after_its_consumer(server: Server, fresh: Fresh) -> None:
    topic = fresh("LateTopic")
    collect = Collector()
    async with (
        Producer(server.namesrv_addr, fresh("Producer")) as producer,
        from_first(server, fresh("LateGroup"), topic, collect),
    ):
        await producer.send(Message(topic, b"first"))
        await until(lambda: collect.bodies == [b"first"])


async def test_a_broker_that_is_killed_and_started_again_finds_its_group(
    start_standalone: Callable[..., Server], tmp_path: Path
) -> None:
    """No message is lost, and no committed one comes again."""
    store = ("--data", tmp_path / "store")
    namesrv_port, broker_port = map(str, free_ports())
    ports = ("--namesrv-port", namesrv_port, "--port", broker_port)
    server = start_standalone(*store, *ports)
    collect = Collector()
    async with (
        Producer(server.namesrv_addr, "p", timeout_s=TIMEOUT_S) as producer,
        from_first(server, "g", "T", collect),
    ):
        await producer.send(Message("T", b"before"))
        await until(lambda: collect.bodies == [b"before"])
        await anyio.to_thread.run_sync(server.stop, signal.SIGKILL)
        with servers.standalone(tmp_path / "again", *store, *ports) as server:
            await send_until_stored(producer, Message("T", b"after"))
            await until(lambda: b"after" in collect.bodies)
            with AdminClient(server.namesrv_addr) as admin:
                online = await anyio.to_thread.run_sync(admin.consumer_connection, server.broker_addr, "g")
            assert online.subscription_table["T"].sub_string == "*"


async def send_until_stored(producer: Producer, message: Message) -> None:
    with anyio.fail_after(TIMEOUT_S):
        while True:
            try:
                await producer.send(message)
            except (ConnectError, RefusedError):
                await anyio.sleep(POLL_S)
            else:
                return
