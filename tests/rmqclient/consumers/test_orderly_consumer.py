"""Orderly consuming, on our own server: one message of a queue at a time, whichever member owns the queue."""

import time
from collections import defaultdict

import anyio
import anyio.to_thread
import pytest

from rmqclient import NEVER_AGAIN, SUCCESS, ConsumeStatus, MessageQueue, later, suspend
from rmqclient.admin import AdminClient
from rmqclient.consumers.pull_consumer import PullConsumer
from rmqclient.consumers.push_consumer import PushConsumer
from rmqclient.listener import Listener
from rmqclient.message import ReceivedMessage
from rmqclient.remoting.channels import Channels
from rmqproto.bodies.groups import LockAnswer, LockRequest
from rmqproto.codes import RequestCode
from rmqproto.names import retry_topic
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command
from tests.rmqclient.collector import Collector, from_first, send_numbers, until
from tests.rmqclient.consumers.test_push_consumer_server import dead_letters
from tests.rmqclient.fake_broker import QUEUE, FakeBroker
from tests.support.peer import answer
from tests.support.servers import Fresh, Server, create_topic

pytestmark = pytest.mark.anyio


def orderly(server: Server, group: str, topic: str, listener: Listener, max_reconsume_times: int = -1) -> PushConsumer:
    return from_first(server, group, topic, listener, orderly=True, max_reconsume_times=max_reconsume_times)


async def test_a_message_that_fails_comes_again_before_the_next(
    server: Server, topic: str, group: str, fresh: Fresh
) -> None:
    await send_numbers(server, topic, range(12), 1)
    seen: list[tuple[int, int]] = []

    async def listener(message: ReceivedMessage) -> ConsumeStatus:
        seen.append((int(message.body), message.reconsume_times))
        return suspend(0.01) if int(message.body) % 5 == 0 and message.reconsume_times < 2 else SUCCESS

    async with orderly(server, group, topic, listener):
        await until(lambda: len(seen) >= 18)
    expected = [(number, times) for number in range(12) for times in range(3 if number % 5 == 0 else 1)]
    assert seen == expected


async def test_after_its_last_time_a_message_is_a_dead_letter_and_the_queue_goes_on(
    server: Server, topic: str, group: str, fresh: Fresh
) -> None:
    await send_numbers(server, topic, range(3), 1)
    seen: list[int] = []

    async def listener(message: ReceivedMessage) -> ConsumeStatus:
        seen.append(int(message.body))
        return suspend(0.01) if message.body == b"1" else SUCCESS

    create_topic(server, retry_topic(group))  # until it has a route, nothing can be given up
    async with orderly(server, group, topic, listener, max_reconsume_times=2):
        await until(lambda: 2 in seen)
        async with PullConsumer(server.namesrv_addr, fresh("Puller")) as puller:
            (dead,) = await dead_letters(puller, group)
    assert seen == [0, 1, 1, 1, 2]
    assert (dead.body, dead.topic, dead.reconsume_times) == (b"1", topic, 2)


async def test_a_message_may_be_given_up_at_once(server: Server, topic: str, group: str, fresh: Fresh) -> None:
    await send_numbers(server, topic, range(2), 1)
    collect = Collector(lambda message: later(NEVER_AGAIN) if message.body == b"0" else SUCCESS)
    create_topic(server, retry_topic(group))  # until it has a route, nothing can be given up
    async with orderly(server, group, topic, collect):
        await until(lambda: collect.bodies == [b"0", b"1"])
        async with PullConsumer(server.namesrv_addr, fresh("Puller")) as puller:
            assert [message.body for message in await dead_letters(puller, group)] == [b"0"]


async def test_members_come_and_go_and_no_queue_has_two_at_once(server: Server, fresh: Fresh) -> None:
    topic, group = fresh("OrderTopic"), fresh("OrderGroup")
    queue_count, count = 4, 160
    create_topic(server, topic, queue_count)
    running: set[MessageQueue] = set()
    order: defaultdict[MessageQueue, list[int]] = defaultdict(list)
    members: set[str] = set()

    def listener_of(member: str) -> Listener:
        async def listener(message: ReceivedMessage) -> None:
            assert message.queue not in running, "two members have one queue"
            running.add(message.queue)
            await anyio.sleep(0.001)
            running.discard(message.queue)
            order[message.queue].append(int(message.body))
            members.add(member)

        return listener

    def consumed() -> int:
        return sum(map(len, order.values()))

    async with orderly(server, group, topic, listener_of("one")) as one:
        await until(lambda: len(one.assignment) == queue_count)
        async with anyio.create_task_group() as nursery:
            nursery.start_soon(send_numbers, server, topic, range(count // 2), queue_count)
            async with orderly(server, group, topic, listener_of("two")) as two:
                await until(lambda: len(one.assignment) == len(two.assignment) == 2)
                await until(lambda: consumed() >= count // 2)  # some by two, unless they came before it got its share
                nursery.start_soon(send_numbers, server, topic, range(count // 2, count), queue_count)
                await until(lambda: "two" in members)
        await until(lambda: len(one.assignment) == queue_count)
        await until(lambda: consumed() >= count)
    assert members == {"one", "two"}
    assert {queue.queue_id: numbers for queue, numbers in order.items()} == {
        queue_id: list(range(queue_id, count, queue_count)) for queue_id in range(queue_count)
    }


async def test_who_is_asked_tells_since_when_its_queues_are_locked(server: Server, group: str, fresh: Fresh) -> None:
    """`consumerStatus` used to show every queue of every orderly consumer as not locked."""
    topic = create_topic(server, fresh("OrderTopic"), 2)
    began_ms = time.time_ns() // 1_000_000
    await send_numbers(server, topic, range(2), 2)
    collect = Collector()
    async with orderly(server, group, topic, collect) as consumer:
        await until(lambda: len(collect.bodies) == 2)
        with AdminClient(server.namesrv_addr) as admin:
            info = await anyio.to_thread.run_sync(
                admin.consumer_running_info, server.broker_addr, group, consumer.client_id
            )
        states = [state for queue, state in info.mq_table.items() if queue.topic == topic]
        assert len(states) == 2
        assert all(state.locked and state.last_lock_timestamp >= began_ms - 1000 for state in states)


async def test_who_leaves_gives_its_locks_back(server: Server, group: str, fresh: Fresh) -> None:
    """Otherwise the next member would wait a minute for the locks."""
    topic = create_topic(server, fresh("OrderTopic"), 2)
    async with orderly(server, group, topic, Collector()) as consumer:
        await until(lambda: len(consumer.assignment) == 2)
        queues = sorted(consumer.assignment)
        assert await locked_by(server, group, "somebody else", queues) == []
    assert await locked_by(server, group, "somebody else", queues) == queues


async def locked_by(server: Server, group: str, client_id: str, queues: list[MessageQueue]) -> list[MessageQueue]:
    """The locks that another client gets if it asks for these queues."""
    channels = Channels()
    async with anyio.create_task_group() as nursery:
        await nursery.start(channels.run)
        body = fastjson.dumps(LockRequest(client_id=client_id, consumer_group=group, mq_set=queues))
        reply = await channels.request(server.broker_addr, RequestCode.LOCK_BATCH_MQ, body=body)
        nursery.cancel_scope.cancel()
    return sorted(fastjson.loads_untrusted(reply.body, LockAnswer).lock_ok_mq_set)


async def test_a_queue_whose_lock_another_member_has_is_not_consumed() -> None:
    with FakeBroker() as fake:
        fake.store(b"0")
        fake.committed = 0
        is_free, refused = False, 0

        def lock(request: Command) -> Command | None:
            nonlocal refused
            if request.code != RequestCode.LOCK_BATCH_MQ:
                return None
            refused += not is_free
            return answer(request, body=fastjson.dumps(LockAnswer(lock_ok_mq_set=[QUEUE] if is_free else [])))

        fake.override = lock
        collect = Collector()
        async with PushConsumer(fake.namesrv.address, "group", {"T": "*"}, collect, orderly=True) as consumer:
            await until(lambda: refused >= 2)
            assert not consumer.assignment
            assert not fake.pulls
            is_free = True
            await until(lambda: collect.bodies == [b"0"])
        assert fake.committed == 1
        assert RequestCode.UNLOCK_BATCH_MQ in fake.broker.codes()
