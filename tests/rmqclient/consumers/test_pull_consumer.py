"""Reading queues at one's own pace, from our own broker."""

from contextlib import suppress

import anyio
import pytest

from rmqclient.admin import AdminClient
from rmqclient.consumers.pull_consumer import PullConsumer
from rmqclient.message import Message
from rmqclient.producers.producer import Producer
from rmqclient.pull import PullStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError, UsageError
from tests.rmqclient.fake_broker import QUEUE
from tests.rmqclient.fake_pop_broker import FakePopBroker
from tests.support.peer import answer
from tests.support.servers import Fresh, Server, topic_config


async def filled(server: Server, topic: str, count: int) -> MessageQueue:
    """One queue with messages 0 to ``count`` - 1; odd ones have tag Odd. The topic is created first, because the
    nameserver learns of a topic that a send creates only a moment later."""
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_topic(server.broker_addr, topic_config(topic, 4))
    async with Producer(server.namesrv_addr, "filler") as producer:
        first = await producer.send(Message(topic, b"0", tags="Even"))
        for number in range(1, count):
            await producer.send(Message(topic, b"%d" % number, tags="Odd" if number % 2 else "Even"), first.queue)
    return first.queue


@pytest.mark.anyio
async def test_a_queue_is_read_from_any_offset_to_its_end(server: Server, fresh: Fresh) -> None:
    queue = await filled(server, fresh("PullTopic"), 10)
    async with PullConsumer(server.namesrv_addr, fresh("PullGroup")) as consumer:
        assert queue in await consumer.queues(queue.topic)
        pulled = await consumer.pull(queue, 7)
        assert [message.body for message in pulled.messages] == [b"7", b"8", b"9"]
        assert (pulled.next_begin_offset, pulled.min_offset, pulled.max_offset) == (10, 0, 10)
        assert (await consumer.pull(queue, 10)).status is PullStatus.NO_NEW
        assert (await consumer.pull(queue, 99)).status is PullStatus.OFFSET_ILLEGAL
        assert [message.body for message in (await consumer.pull(queue, 0, max_count=2)).messages] == [b"0", b"1"]
        odd = await consumer.pull(queue, 0, expression="Odd")
        assert [message.body for message in odd.messages] == [b"1", b"3", b"5", b"7", b"9"]


@pytest.mark.anyio
async def test_offsets_are_the_callers_business(server: Server, fresh: Fresh) -> None:
    queue = await filled(server, fresh("PullTopic"), 3)
    async with PullConsumer(server.namesrv_addr, fresh("PullGroup")) as consumer:
        await consumer.pull(queue, 0)
        assert await consumer.committed_offset(queue) is None
        await consumer.commit(queue, 2)
        assert await consumer.committed_offset(queue) == 2
        assert (await consumer.min_offset(queue), await consumer.max_offset(queue)) == (0, 3)
        assert await consumer.search_offset(queue, 0) == 0


@pytest.mark.anyio
async def test_a_pull_may_wait_for_a_message(server: Server, fresh: Fresh) -> None:
    queue = await filled(server, fresh("PullTopic"), 1)
    async with (
        PullConsumer(server.namesrv_addr, fresh("PullGroup")) as consumer,
        Producer(server.namesrv_addr, "filler") as producer,
        anyio.create_task_group() as nursery,
    ):
        nursery.start_soon(producer.send, Message(queue.topic, b"new"), queue)
        pulled = await consumer.pull(queue, 1, wait_s=20.0)
    assert [message.body for message in pulled.messages] == [b"new"]


@pytest.mark.anyio
async def test_after_a_refusal_another_master_is_looked_for() -> None:
    """The consumer used to stay with a former master until the next regular look for routes, half a minute."""
    with FakePopBroker() as former, FakePopBroker() as elected:
        former.override = lambda request: answer(request, ResponseCode.SYSTEM_BUSY)
        elected.override = lambda request: answer(request, fields={"offset": "5"})
        async with PullConsumer(former.namesrv.address, "group") as consumer:
            with pytest.raises(RefusedError):
                await consumer.max_offset(QUEUE)
            former.namesrv.reply = elected.namesrv.reply
            found = 0
            with anyio.fail_after(20):
                while not found:
                    with suppress(RefusedError):
                        found = await consumer.max_offset(QUEUE)
                    await anyio.sleep(0)
            assert found == 5


@pytest.mark.anyio
async def test_a_topic_that_does_not_exist_is_not_made_up(server: Server, fresh: Fresh) -> None:
    async with PullConsumer(server.namesrv_addr, fresh("PullGroup")) as consumer:
        with pytest.raises(RefusedError) as caught:
            await consumer.queues(fresh("NoSuchTopic"))
    assert caught.value.code == 17


def test_a_group_that_cannot_be_is_said_at_once() -> None:
    with pytest.raises(UsageError):
        PullConsumer("127.0.0.1:9876", "no group")
