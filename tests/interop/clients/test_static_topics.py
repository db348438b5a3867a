"""Static topics of Apache's brokers in our client: logical queues on two of them are sent to, consumed and counted as
those of one topic."""

from collections.abc import Iterator

import pytest
import trio

from rmqclient.admin import AdminClient
from rmqclient.consumers.pull_consumer import PullConsumer
from rmqclient.consumers.push_consumer import PushConsumer
from rmqclient.consuming.start import ConsumeFrom
from rmqclient.listener import ConsumeStatus, later
from rmqclient.message import Message, ReceivedMessage
from rmqclient.producers.producer import Producer
from rmqclient.producers.transaction_producer import LocalTransactionState, TransactionProducer
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import LogicQueueMappingItem, TopicQueueMappingDetail
from rmqproto.errors import ConnectError
from tests.rmqclient.collector import Collector, until
from tests.support.servers import Fresh, topic_config

from ..apache import ApacheRocketMQ
from ..apache_pair import ApachePair, apache_pair

pytestmark = pytest.mark.interop

LOGICAL = "__syslo__global__"
QUEUES = 4
BASE_OFFSET = 10_000
"""The first offset of logical queue 3 on its broker."""


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApachePair]:
    with apache_pair(tmp_path_factory.mktemp("static")) as running:
        yield running


@pytest.fixture
def topic(brokers: ApachePair, fresh: Fresh) -> str:
    """Logical queues 0 and 2 are on broker-a, 1 and 3 on broker-b. None of them is on a queue of the same number."""
    name = fresh("Static")
    with AdminClient(brokers[0].namesrv_addr) as admin:
        for number, (broker_name, server) in enumerate(zip(("broker-a", "broker-b"), brokers, strict=True)):
            hosted = {
                logical: [
                    LogicQueueMappingItem(
                        bname=broker_name, queue_id=QUEUES - 1 - logical, logic_offset=BASE_OFFSET * (logical == 3)
                    )
                ]
                for logical in (number, number + 2)
            }
            mapping = TopicQueueMappingDetail(
                bname=broker_name, epoch=1, hosted_queues=hosted, topic=name, total_queues=QUEUES
            )
            config = topic_config(name, QUEUES)
            admin.create_static_topic(server.broker_addr, config, mapping)
    return name


def queue(topic: str, logical: int) -> MessageQueue:
    return MessageQueue(topic, LOGICAL, logical)


async def send(server: ApacheRocketMQ, topic: str, count: int = 3) -> list[bytes]:
    """Sends ``count`` messages to each logical queue."""
    bodies = []
    async with Producer(server.namesrv_addr, "p") as producer:
        assert await producer.queues(topic) == [queue(topic, logical) for logical in range(QUEUES)]
        for number in range(count):
            for logical in range(QUEUES):
                bodies.append(b"%d-%d" % (logical, number))
                sent = await producer.send(Message(topic, bodies[-1]), queue(topic, logical))
                assert (sent.queue, sent.queue_offset) == (queue(topic, logical), number + BASE_OFFSET * (logical == 3))
    return bodies


@pytest.mark.trio
async def test_logical_queues_are_sent_to_pulled_and_counted_where_they_are(
    brokers: ApachePair, topic: str, fresh: Fresh
) -> None:
    await send(brokers[0], topic)
    async with PullConsumer(brokers[0].namesrv_addr, fresh("G")) as consumer:
        for logical in range(QUEUES):
            each, base = queue(topic, logical), BASE_OFFSET * (logical == 3)
            pulled = await consumer.pull(each, base)
            found = [(message.queue, message.queue_offset, message.body) for message in pulled.messages]
            assert found == [(each, base + number, b"%d-%d" % (logical, number)) for number in range(3)]
            assert (pulled.next_begin_offset, await consumer.max_offset(each)) == (base + 3, base + 3)
            await consumer.commit(each, base + 1)
            assert await consumer.committed_offset(each) == base + 1
        with pytest.raises(ConnectError, match="logical queue 9"):
            await consumer.pull(queue(topic, 9), 0)


@pytest.mark.trio
@pytest.mark.parametrize("orderly", [False, True])
async def test_a_group_shares_them(brokers: ApachePair, topic: str, fresh: Fresh, orderly: bool) -> None:
    group, one, two = fresh("G"), Collector(), Collector()

    def member(listener: Collector) -> PushConsumer:
        return PushConsumer(
            brokers[0].namesrv_addr, group, {topic: "*"}, listener,
            consume_from=ConsumeFrom.FIRST_OFFSET, orderly=orderly,
        )  # fmt: skip

    async with member(one) as first, member(two) as second:
        await until(lambda: [len(each.assignment) for each in (first, second)] == [2, 2])
        bodies = await send(brokers[0], topic)
        await until(lambda: len(one.bodies) + len(two.bodies) == len(bodies))
    assert sorted(one.bodies + two.bodies) == sorted(bodies)
    async with PullConsumer(brokers[0].namesrv_addr, group) as consumer:
        committed = [await consumer.committed_offset(queue(topic, logical)) for logical in range(QUEUES)]
    assert committed == [3, 3, 3, BASE_OFFSET + 3]


@pytest.mark.trio
async def test_what_fails_comes_again_over_the_retry_topic(brokers: ApachePair, topic: str, fresh: Fresh) -> None:
    group, seen = fresh("G"), []

    async def listener(message: ReceivedMessage) -> ConsumeStatus | None:
        seen.append((message.body, message.topic, message.reconsume_times))
        return later(1) if message.body == b"3-0" and not message.reconsume_times else None

    async with PushConsumer(
        brokers[0].namesrv_addr, group, {topic: "*"}, listener, consume_from=ConsumeFrom.FIRST_OFFSET
    ):
        await send(brokers[0], topic, 1)
        await until(lambda: len(seen) == QUEUES + 1)
    assert seen[-1] == (b"3-0", topic, 1)


@pytest.mark.trio
async def test_a_transaction_ends_where_it_began(brokers: ApachePair, topic: str) -> None:
    class Commits:
        def execute_local_transaction(self, message: Message) -> LocalTransactionState:
            return LocalTransactionState.COMMIT

        def check_local_transaction(self, message: ReceivedMessage) -> LocalTransactionState:
            raise AssertionError("the broker was told")

    target = queue(topic, 1)
    async with (
        TransactionProducer(brokers[0].namesrv_addr, "tp", Commits()) as producer,
        PullConsumer(brokers[0].namesrv_addr, "reader") as consumer,
    ):
        await producer.send_in_transaction(Message(topic, b"paid"), target)
        with trio.fail_after(30):
            while not (found := (await consumer.pull(target, 0, wait_s=1)).messages):
                pass
    assert [message.body for message in found] == [b"paid"]
