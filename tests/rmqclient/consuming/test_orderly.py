"""Orderly consuming: a queue's messages come one after the other, whatever fails and whichever member leaves."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, cast

import msgspec
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from rmqclient.consuming.deliveries import Delivery, ListenerCall
from rmqclient.consuming.orderly import OrderlyDeliveries
from rmqclient.consuming.process_queue import ProcessQueue
from rmqclient.consuming.queue_lease import LEASE_S, RENEW_INTERVAL_S, QueueLeases
from rmqclient.consuming.rates import Rates
from rmqclient.listener import LATER, SUCCESS, ConsumeStatus, Listener, suspend
from rmqclient.message import ReceivedMessage
from rmqclient.remoting.client_instance import ClientInstance
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import LockAnswer, LockRequest
from rmqproto.codes import RequestCode
from rmqproto.errors import ConnectError
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command
from tests.rmqclient.consuming.test_process_queue import TEMPLATE

pytestmark = pytest.mark.trio


def received(queue_id: int, queue_offset: int) -> ReceivedMessage:
    stored = msgspec.structs.replace(TEMPLATE, queue_id=queue_id, queue_offset=queue_offset)
    return ReceivedMessage(stored, "broker-a")


class Queues:
    """Some queues with messages 0 to ``count`` - 1 each, and the results of their delivery."""

    def __init__(
        self,
        listener: Listener,
        *,
        queue_count: int = 1,
        count: int = 3,
        leases: QueueLeases | None = None,
        max_reconsume_times: int | None = None,
    ):
        self.given_up: list[int] = []
        self.call = ListenerCall(listener, 2, 60.0, Rates())
        self.deliveries = OrderlyDeliveries(self.call, leases, self.give_up, max_reconsume_times)
        self.process_queues = [ProcessQueue(0) for _ in range(queue_count)]
        self.messages = [[received(queue_id, number) for number in range(count)] for queue_id in range(queue_count)]

    async def give_up(self, message: ReceivedMessage) -> None:
        self.given_up.append(message.queue_offset)

    def offer(self) -> None:
        for process_queue, messages in zip(self.process_queues, self.messages, strict=True):
            process_queue.put([message.stored for message in messages], len(messages))
            for message in messages:
                self.deliveries.offer(Delivery(message, process_queue, lambda: None))

    @property
    def committed(self) -> list[int]:
        return [process_queue.committed_offset for process_queue in self.process_queues]


@settings(max_examples=30)
@given(failures=st.dictionaries(st.tuples(st.integers(0, 2), st.integers(0, 4)), st.integers(1, 3)))
async def test_each_message_comes_until_it_is_consumed_and_then_the_next(failures: dict[tuple[int, int], int]) -> None:
    seen: defaultdict[int, list[int]] = defaultdict(list)

    async def listener(message: ReceivedMessage) -> ConsumeStatus:
        queue_id = message.stored.queue_id
        seen[queue_id].append(message.queue_offset)
        is_last = message.reconsume_times >= failures.get((queue_id, message.queue_offset), 0)
        return SUCCESS if is_last else suspend(0.0)

    queues = Queues(listener, queue_count=3, count=5)
    async with trio.open_nursery() as nursery:
        await nursery.start(queues.deliveries.run)
        queues.offer()
        with trio.fail_after(60):
            while queues.committed != [5, 5, 5]:
                await trio.sleep(0.001)
        nursery.cancel_scope.cancel()
    for queue_id in range(3):
        expected = [number for number in range(5) for _ in range(1 + failures.get((queue_id, number), 0))]
        assert seen[queue_id] == expected


async def test_a_message_is_given_up_after_its_last_time(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    times: list[int] = []

    async def listener(message: ReceivedMessage) -> ConsumeStatus:
        times.append(message.reconsume_times)
        raise ValueError("never")

    queues = Queues(listener, count=1, max_reconsume_times=2)
    await nursery.start(queues.deliveries.run)
    queues.offer()
    await trio.sleep(10)
    assert (times, queues.given_up, queues.committed) == ([0, 1, 2], [0], [1])


async def test_leaving_waits_for_the_listener_and_not_for_a_pause(autojump_clock: MockClock) -> None:
    ended: list[int] = []

    async def listener(message: ReceivedMessage) -> ConsumeStatus:
        await trio.sleep(5)
        ended.append(message.queue_offset)
        return LATER if message.queue_offset == 1 else SUCCESS

    queues = Queues(listener)
    async with trio.open_nursery() as nursery:
        await nursery.start(queues.deliveries.run)
        queues.offer()
        began_s = trio.current_time()
        await trio.sleep(7)  # during the second message, which fails
        await queues.deliveries.leave(queues.messages[0][0].queue)
        assert trio.current_time() - began_s == pytest.approx(10.0)
        assert (ended, queues.committed) == ([0, 1], [1])
        nursery.cancel_scope.cancel()


class FakeBrokers:
    """The part of a client that leases need, with a broker that grants locks or fails."""

    def __init__(self) -> None:
        self.client_id = "client"
        self.routes = self.channels = self
        self.grants = True
        self.asked: list[int] = []
        self.before_answer: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint

    def placed(self, queue: MessageQueue) -> MessageQueue:
        return queue

    def master(self, broker_name: str) -> str:
        return broker_name

    async def request(self, address: str, code: int, body: bytes) -> Command:
        self.asked.append(code)
        if not self.grants:
            raise ConnectError("nobody there")
        wanted: Iterable[MessageQueue] = fastjson.loads_untrusted(body, LockRequest).mq_set
        if code == RequestCode.LOCK_BATCH_MQ:
            await self.before_answer()
        return Command(code=0, body=fastjson.dumps(LockAnswer(lock_ok_mq_set=list(wanted))))


async def test_a_lock_that_cannot_be_renewed_is_lost_in_time_and_comes_back(autojump_clock: MockClock) -> None:
    """The broker gives the queue to another member after a minute. By then this listener must get no more of its
    messages."""
    brokers = FakeBrokers()
    leases = QueueLeases(cast(ClientInstance, cast(Any, brokers)), "group")
    queue = received(0, 0).queue
    assert await leases.lock([queue]) == {queue}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(leases.renew_forever)
        await trio.sleep(3 * RENEW_INTERVAL_S + 1)
        assert leases.is_held(queue), "renewed"
        brokers.grants = False
        await trio.sleep(LEASE_S)
        assert not leases.is_held(queue)
        brokers.grants = True
        await leases.wait_held(queue)
        await leases.unlock_all()
        assert not leases.is_held(queue)
        nursery.cancel_scope.cancel()
    assert brokers.asked[-1] == RequestCode.UNLOCK_BATCH_MQ


async def test_a_queue_given_back_while_it_is_renewed_is_renewed_no_more(autojump_clock: MockClock) -> None:
    """The member that gave it back would keep it from all others."""
    brokers = FakeBrokers()
    leases = QueueLeases(cast(ClientInstance, cast(Any, brokers)), "group")
    queue = received(0, 0).queue
    await leases.lock([queue])
    brokers.before_answer = lambda: leases.unlock([queue])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(leases.renew_forever)
        await trio.sleep(3 * RENEW_INTERVAL_S + 1)
        nursery.cancel_scope.cancel()
    lock, unlock = RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ
    assert (brokers.asked, leases.is_held(queue)) == ([lock, lock, unlock], False)


async def test_without_the_lock_nothing_is_consumed(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    brokers = FakeBrokers()
    leases = QueueLeases(cast(ClientInstance, cast(Any, brokers)), "group")
    seen: list[int] = []

    async def listener(message: ReceivedMessage) -> None:
        seen.append(message.queue_offset)

    queues = Queues(listener, leases=leases)
    await nursery.start(queues.deliveries.run)
    queues.offer()
    await wait_all_tasks_blocked()
    assert seen == []
    await leases.lock([queues.messages[0][0].queue])
    await trio.sleep(1)
    assert seen == [0, 1, 2]


async def test_the_number_of_queues_at_once_changes_while_they_run(autojump_clock: MockClock) -> None:
    running: set[int] = set()
    most = 0

    async def listener(message: ReceivedMessage) -> None:
        nonlocal most
        running.add(message.stored.queue_id)
        most = max(most, len(running))
        await trio.sleep(1)
        running.discard(message.stored.queue_id)

    queues = Queues(listener, queue_count=6, count=20)
    seen = []
    async with trio.open_nursery() as nursery:
        await nursery.start(queues.deliveries.run)
        queues.offer()
        for concurrency in (5, 1):
            await trio.sleep(3.3)
            seen.append(most)
            queues.call.concurrency = concurrency
            await trio.sleep(1.1)  # until calls that are too many now have ended; no call ends at a moment of ours
            most = len(running)
        await trio.sleep(3.3)
        nursery.cancel_scope.cancel()
    assert [*seen, most] == [2, 5, 1]
