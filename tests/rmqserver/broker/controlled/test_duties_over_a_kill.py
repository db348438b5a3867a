"""What a master does later (transactions, delayed messages, POP, queue locks, committed offsets) when it is killed with
-9 while one of its two slaves lags behind. The elected slave goes on with all of it."""

import os
import signal
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import trio

from rmqclient.consumers.push_consumer import PushConsumer
from rmqclient.consumers.simple_consumer import SimpleConsumer
from rmqclient.consuming.start import ConsumeFrom
from rmqclient.message import Message, ReceivedMessage, SendStatus
from rmqclient.producers.producer import Producer
from rmqclient.producers.transaction_producer import LocalTransactionState, TransactionProducer
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import RocketMQError
from tests.support import servers
from tests.support.broker_set import BROKER_NAME, PATIENT, BrokerSet, set_under
from tests.support.servers import topic_config, until

pytestmark = pytest.mark.slow

NUMBERS = (1, 2, 3)
QUEUES = 2
TOPICS = ("Ended", "Later", "Popped", "InOrder")
COUNT = 60
"""Messages of each kind before the kill, and as many after it."""

TIMEOUT_S = 100
SETTINGS = PATIENT | {
    "minInSyncReplicas": "2", "haMaxTimeSlaveNotCatchup": "1000", "controllerHeartBeatTimeoutMills": "3000",
    "transactionTimeOut": "300", "transactionCheckInterval": "200", "reviveInterval": "200",
}  # fmt: skip


@pytest.fixture
def three(tmp_path: Path) -> Iterator[BrokerSet]:
    with (
        servers.controller(tmp_path / "controller") as controller,
        set_under(tmp_path, controller.controller_addr) as made,
    ):
        made.join(*NUMBERS, **SETTINGS)
        for topic in TOPICS:
            made.admin.create_topic(made.brokers[1].broker_addr, topic_config(topic, QUEUES))
        yield made


class Outcomes:
    """The listener of the transactions: the body says how its transaction ends, and whether the broker has to ask."""

    @staticmethod
    def of(body: bytes) -> LocalTransactionState:
        return LocalTransactionState.ROLLBACK if int(body) % 4 in (1, 3) else LocalTransactionState.COMMIT

    async def execute_local_transaction(self, message: Message) -> LocalTransactionState:
        return self.of(message.body) if int(message.body) % 4 < 2 else LocalTransactionState.UNKNOWN

    async def check_local_transaction(self, message: ReceivedMessage) -> LocalTransactionState:
        return self.of(message.body)


class Work:
    """Clients of all kinds, and what they were told and saw."""

    def __init__(self, addr: str) -> None:
        self._addr = addr
        self.halves: set[bytes] = set()
        self.later: set[bytes] = set()
        self.sent: defaultdict[str, set[bytes]] = defaultdict(set)
        """Acknowledged messages, by topic."""
        self.popped: Counter[bytes] = Counter()
        self.acked: set[bytes] = set()
        self.consumed: defaultdict[int, list[int]] = defaultdict(list)
        """Queue offsets in the order in which they were consumed, by queue."""
        self.consumed_twice_at_once: list[int] = []
        self._consuming: set[int] = set()
        self.wanted = COUNT
        """How many messages of each kind are to be acknowledged."""

    async def run(self, nursery: trio.Nursery) -> None:
        nursery.start_soon(self._transactions)
        nursery.start_soon(self._later)
        for topic in ("Popped", "InOrder"):
            nursery.start_soon(self._send, topic)
        nursery.start_soon(self._pop)
        for name in ("one", "two"):
            nursery.start_soon(self._consume, name)

    async def _each(self, done: Callable[[], int], send: Callable[[int], object]) -> None:
        """Sends one message after the other while fewer than ``wanted`` are acknowledged."""
        number = 0
        while True:
            if done() >= self.wanted:
                await trio.sleep(0.01)
                continue
            number += 1
            try:
                await send(number)  # type: ignore[misc]
            except RocketMQError:
                await trio.sleep(0.05)

    async def _transactions(self) -> None:
        async with TransactionProducer(self._addr, "transactions", Outcomes()) as producer:

            async def send(number: int) -> None:
                body = b"%d" % number
                result = await producer.send_in_transaction(Message("Ended", body))
                if result.send.status is SendStatus.SEND_OK:
                    self.halves.add(body)

            await self._each(lambda: len(self.halves), send)

    async def _later(self) -> None:
        async with Producer(self._addr, "later") as producer:

            async def send(number: int) -> None:
                body = b"%d" % number
                how = {"delay_level": 1} if number % 2 else {"delay_s": 1.5}
                result = await producer.send(Message("Later", body, **how))  # type: ignore[arg-type]
                if result.status is SendStatus.SEND_OK:
                    self.later.add(body)

            await self._each(lambda: len(self.later), send)

    async def _send(self, topic: str) -> None:
        async with Producer(self._addr, f"send-{topic}") as producer:

            async def send(number: int) -> None:
                body = b"%d" % number
                result = await producer.send(Message(topic, body), MessageQueue(topic, BROKER_NAME, number % QUEUES))
                if result.status is SendStatus.SEND_OK:
                    self.sent[topic].add(body)

            await self._each(lambda: len(self.sent[topic]), send)

    async def _pop(self) -> None:
        """Acknowledges a message when it comes the second time, or at once every other one."""
        async with SimpleConsumer(self._addr, "popping") as consumer:
            while True:
                try:
                    for message in await consumer.pop("Popped", invisible_s=2, wait_s=0.2):
                        self.popped[message.body] += 1
                        if self.popped[message.body] > 1 or int(message.body) % 2:
                            await consumer.ack(message)
                            self.acked.add(message.body)
                except RocketMQError:
                    await trio.sleep(0.05)

    async def _consume(self, name: str) -> None:
        async def take(message: ReceivedMessage) -> None:
            queue_id = message.queue.queue_id
            if queue_id in self._consuming:
                self.consumed_twice_at_once.append(queue_id)
            self._consuming.add(queue_id)
            await trio.sleep(0.002)
            self._consuming.discard(queue_id)
            self.consumed[queue_id].append(message.stored.queue_offset)

        async with PushConsumer(
            self._addr,
            "ordered",
            {"InOrder": "*"},
            take,
            orderly=True,
            consume_from=ConsumeFrom.FIRST_OFFSET,
            instance_name=name,
        ):
            await trio.sleep_forever()

    def has_sent(self) -> bool:
        sent = [self.halves, self.later, *(self.sent[topic] for topic in ("Popped", "InOrder"))]
        return all(len(each) >= self.wanted for each in sent)


def bodies(found: BrokerSet, number: int, topic: str) -> Counter[bytes]:
    """What is stored at that broker in the topic."""
    bodies: Counter[bytes] = Counter()
    for queue_id in range(QUEUES):
        at = 0
        while messages := found.admin.pull_message(
            found.brokers[number].broker_addr, MessageQueue(topic, BROKER_NAME, queue_id), at
        ).messages:
            bodies.update(message.plain_body() for message in messages)
            at = messages[-1].queue_offset + 1
    return bodies


def offsets(found: BrokerSet, number: int) -> list[int]:
    """The offsets that the consumer group has committed there."""
    addr = found.brokers[number].broker_addr
    return [found.admin.consumer_offset(addr, "ordered", "InOrder", queue_id) or 0 for queue_id in range(QUEUES)]


async def so(check: Callable[[], bool]) -> None:
    with trio.fail_after(TIMEOUT_S):
        while not await trio.to_thread.run_sync(check):
            await trio.sleep(0.02)


def has_in_place(found: BrokerSet, work: Work, number: int) -> bool:
    """Whether everything that was acknowledged is where it belongs."""
    ended, later = bodies(found, number, "Ended"), bodies(found, number, "Later")
    committed = {body for body in work.halves if Outcomes.of(body) is LocalTransactionState.COMMIT}
    orders = [set(work.consumed[queue_id]) for queue_id in range(QUEUES)]
    ends = [found.admin.max_offset(found.brokers[number].broker_addr, "InOrder", each) for each in range(QUEUES)]
    return (
        committed <= ended.keys()
        and work.later <= later.keys()
        and work.sent["Popped"] <= work.acked
        and all(order == set(range(end)) for order, end in zip(orders, ends, strict=True))
    )


async def kill(found: BrokerSet, work: Work) -> None:
    master, elected, lagging = 1, 2, 3
    os.kill(found.brokers[lagging].pid, signal.SIGSTOP)
    try:
        await so(lambda: len(found.in_sync_addrs()) == 2)
        work.wanted += COUNT // 2
        await so(work.has_sent)
        committed = await trio.to_thread.run_sync(offsets, found, master)
        await so(lambda: all(map(int.__ge__, offsets(found, elected), committed)))
        consumed = {queue_id: len(each) for queue_id, each in work.consumed.items()}
        found.brokers[master].stop(signal.SIGKILL)
    finally:
        os.kill(found.brokers[lagging].pid, signal.SIGCONT)
    work.wanted += COUNT
    await so(work.has_sent)
    assert found.takes(elected)
    found.start(master, **SETTINGS)
    await so(lambda: len(found.in_sync_addrs()) == 3)
    await so(partial(has_in_place, found, work, elected))
    for queue_id, count in consumed.items():
        after = work.consumed[queue_id][count:]
        assert min(after) >= committed[queue_id], "it went back behind what its slave had copied"


def test_all_of_it_goes_on(three: BrokerSet) -> None:
    work = Work(three.namesrv.namesrv_addr)

    async def run() -> None:
        with trio.fail_after(TIMEOUT_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(work.run, nursery)
                await so(work.has_sent)
                await kill(three, work)
                nursery.cancel_scope.cancel()

    trio.run(run)
    ended = bodies(three, 2, "Ended")
    assert {body: count for body, count in ended.items() if count > 1} == {}, "committed twice"
    assert [body for body in ended if Outcomes.of(body) is LocalTransactionState.ROLLBACK] == []
    assert work.consumed_twice_at_once == []
    for number in NUMBERS:
        until(lambda: bodies(three, number, "Ended") == ended)  # noqa: B023
