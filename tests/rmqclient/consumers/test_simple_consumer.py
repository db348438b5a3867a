"""Popping at the application's own pace, from our own broker."""

import time

import anyio
import pytest

from rmqclient.consumers.simple_consumer import SimpleConsumer
from rmqclient.consuming.start import ConsumeFrom
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import RefusedError, UsageError
from rmqproto.wire.command import Command
from tests.rmqclient.consumers.test_pull_consumer import filled
from tests.rmqclient.fake_broker import QUEUE
from tests.rmqclient.fake_pop_broker import FakePopBroker
from tests.support.peer import answer
from tests.support.servers import Fresh, Server

pytestmark = pytest.mark.anyio


async def test_each_message_goes_to_one_and_what_is_acknowledged_to_nobody(server: Server, fresh: Fresh) -> None:
    queue, group = await filled(server, fresh("SimpleTopic"), 6), fresh("SimpleGroup")
    async with (
        SimpleConsumer(server.namesrv_addr, group, consume_from="CONSUME_FROM_FIRST_OFFSET") as one,
        SimpleConsumer(server.namesrv_addr, group, consume_from=ConsumeFrom.FIRST_OFFSET) as two,
    ):
        first = await one.pop(queue.topic, max_count=4)
        second = await two.pop(queue, wait_s=5)
        assert [message.body for message in first] == [b"0", b"1", b"2", b"3"]
        assert [message.body for message in second] == [b"4", b"5"]
        await one.ack(first)
        await two.ack(await two.change_invisible_time(second[0], 30))
        await two.ack(second[1])
        assert await one.pop(queue.topic) == []


async def test_an_expression_filters(server: Server, fresh: Fresh) -> None:
    queue = await filled(server, fresh("SimpleTopic"), 6)
    async with SimpleConsumer(server.namesrv_addr, fresh("G"), consume_from=ConsumeFrom.FIRST_OFFSET) as consumer:
        popped = await consumer.pop(queue.topic, expression="Odd")
        assert [message.body for message in popped] == [b"1", b"3", b"5"]


@pytest.mark.slow
async def test_what_is_given_up_comes_again(server: Server, fresh: Fresh) -> None:
    queue = await filled(server, fresh("SimpleTopic"), 2)
    async with SimpleConsumer(server.namesrv_addr, fresh("G"), consume_from=ConsumeFrom.FIRST_OFFSET) as consumer:
        tried, suspended = await consumer.pop(queue.topic)
        await consumer.change_invisible_time(tried, 0)
        await consumer.change_invisible_time(suspended, 0, suspend=True)
        again = []
        while len(again) < 2:
            again += await consumer.pop(queue.topic, wait_s=5)
        assert {(message.topic, message.body, message.reconsume_times) for message in again} == {
            (queue.topic, b"0", 1),
            (queue.topic, b"1", 0),
        }
        await consumer.ack(again)


async def test_a_pop_is_born_when_it_is_known_whom_to_ask() -> None:
    """A broker returns nothing for a pop that was born half a second ago, so after a slow nameserver the first pop used
    to find no message."""
    with FakePopBroker() as fake:
        fake.store(b"0")
        route, answered_ms = fake.namesrv.reply, list[int]()

        def reply(request: Command) -> object:
            asked_ms = now_ms()
            while now_ms() == asked_ms:
                pass
            answered_ms.append(now_ms())
            return route(request)

        fake.namesrv.reply = reply
        async with SimpleConsumer(fake.namesrv.address, "group") as consumer:
            (message,) = await consumer.pop(QUEUE)
        assert message.body == b"0"
        assert fake.pops[0].born_time >= answered_ms[0]


async def test_after_a_refusal_another_master_is_looked_for() -> None:
    """A former master refuses to be popped from. The consumer used to stay with it until the next regular look for
    routes, half a minute."""
    with FakePopBroker() as former, FakePopBroker() as elected:
        former.override = lambda request: (
            answer(request, ResponseCode.SYSTEM_BUSY) if request.code == RequestCode.POP_MESSAGE else None
        )
        elected.store(b"0")
        async with SimpleConsumer(former.namesrv.address, "group") as consumer:
            with pytest.raises(RefusedError):
                await consumer.pop(QUEUE)
            former.namesrv.reply = elected.namesrv.reply
            with anyio.fail_after(20):
                while True:
                    try:
                        (message,) = await consumer.pop(QUEUE)
                        break
                    except RefusedError:
                        await anyio.sleep(0)
            assert message.body == b"0"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def test_a_topic_that_is_not_there_is_refused(server: Server, fresh: Fresh) -> None:
    async with SimpleConsumer(server.namesrv_addr, fresh("G")) as consumer:
        with pytest.raises(RefusedError):
            await consumer.pop(fresh("Missing"))


async def test_a_time_that_is_too_short_is_said() -> None:
    async with SimpleConsumer("127.0.0.1:1", "G") as consumer:
        with pytest.raises(UsageError, match="invisible_s"):
            await consumer.pop("T", invisible_s=0.1)
