"""Light queues in our client: a message that names several is read from each, at its offset there."""

import msgspec
import pytest

from rmqclient.consumers.pull_consumer import PullConsumer
from rmqclient.consumers.simple_consumer import SimpleConsumer
from rmqclient.consuming.popping.pop import popped_lite_untrusted
from rmqclient.consuming.start import ConsumeFrom
from rmqclient.message import Message
from rmqclient.producers.producer import Producer
from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import ResponseCode
from rmqproto.errors import ProtocolError
from rmqproto.message.properties import render
from rmqproto.message.record import encode_record
from rmqproto.message.special_messages import light_queue_offset_untrusted
from rmqproto.wire.command import Command
from tests.rmqclient.fake_broker import BROKER, record
from tests.support import servers
from tests.support.servers import Fresh, Server

LIGHT = ("--set", "enableLmq=true", "--set", "enableMultiDispatch=true")


server = servers.of_module(*LIGHT)


@pytest.mark.anyio
async def test_light_queues_are_pulled_and_popped(server: Server, topic: str, group: str, fresh: Fresh) -> None:
    names = one, two = f"%LMQ%{topic}-a", f"%LMQ%{topic}-b"
    async with Producer(server.namesrv_addr, "p") as producer:
        for body, dispatch in ((b"0", one), (b"1", f"{one},{two}"), (b"2", two), (b"3", "")):
            await producer.send(Message(topic, body, properties={"INNER_MULTI_DISPATCH": dispatch} if dispatch else {}))
    async with PullConsumer(server.namesrv_addr, group) as consumer:
        a, b = [(await consumer.light_queues(topic, name))[0] for name in names]
        assert (a, b) == (MessageQueue(one, "broker-a", 0), MessageQueue(two, "broker-a", 0))
        pulled = (await consumer.pull(b, 0)).messages
        found = [(message.body, message.queue, message.queue_offset, message.topic) for message in pulled]
        assert found == [(b"1", b, 0, topic), (b"2", b, 1, topic)]
        assert await consumer.max_offset(a) == 2
        await consumer.commit(b, 1)
        assert await consumer.committed_offset(b) == 1
    async with SimpleConsumer(server.namesrv_addr, fresh("G"), consume_from=ConsumeFrom.FIRST_OFFSET) as simple:
        (queue,) = await simple.light_queues(topic, two)
        popped = await simple.pop(queue, wait_s=5)
        assert [(message.body, message.queue_offset) for message in popped] == [(b"1", 0), (b"2", 1)]
        await simple.ack(popped[0])
        await simple.change_invisible_time(popped[1], 0)
        again = []
        while not again:
            again = await simple.pop(queue, wait_s=5)
        assert [(message.body, message.reconsume_times) for message in again] == [(b"2", 1)]
        await simple.ack(again)
        assert await simple.pop(queue) == []


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"INNER_MULTI_DISPATCH": "%LMQ%b", "INNER_MULTI_QUEUE_OFFSET": "0"},
        {"INNER_MULTI_DISPATCH": "%LMQ%b,%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "0"},
        {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "-1"},
        {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "٣"},
    ],
)
def test_a_message_that_does_not_say_where_it_is(properties: dict[str, str]) -> None:
    with pytest.raises(ProtocolError, match="%LMQ%a"):
        light_queue_offset_untrusted(properties, "%LMQ%a")


PARENT = MessageQueue("P", BROKER, -1)


def answer(counts: str | None, *properties: dict[str, str]) -> Command:
    ext = {"popTime": "7", "invisibleTime": "60000", "reviveQid": "999"}
    if counts:
        ext["orderCountInfo"] = counts
    stored = [
        msgspec.structs.replace(record(number, b"m", "T"), properties_raw=render(found).encode())
        for number, found in enumerate(properties)
    ]
    return Command(code=ResponseCode.SUCCESS, ext=ext, body=b"".join(map(encode_record, stored)))


def of(lite_topic: str, queue_offset: int | str) -> dict[str, str]:
    name = f"%LMQ%$P${lite_topic}"
    return {"INNER_MULTI_DISPATCH": name, "INNER_MULTI_QUEUE_OFFSET": str(queue_offset), "__LITE_TOPIC": lite_topic}


@pytest.mark.parametrize(
    ("counts", "times"),
    [
        (None, [0, 0]),
        ("0;0", [0, 0]),
        ("3;0", [3, 0]),
        ("0 qo0%4 2;0 qo0%9 1", [2, 1]),
        ("0 qo0%4 2", [0, 0]),
        ("x;-1", [0, 0]),
        ("9999999999;1", [0, 1]),
    ],
)
def test_each_message_says_where_it_is_and_how_often_it_came(counts: str | None, times: list[int]) -> None:
    first, second = popped_lite_untrusted(answer(counts, of("a", 4), of("b", 9)), PARENT)
    assert (first.topic, first.lite_topic, first.queue) == ("P", "a", MessageQueue("%LMQ%$P$a", BROKER, 0))
    assert (first.queue_offset, second.queue_offset) == (4, 9)
    assert str(second.handle) == f"0 7 60000 999 0 {BROKER} 0 9"
    assert [message.reconsume_times for message in (first, second)] == times


def test_nothing_was_popped() -> None:
    assert popped_lite_untrusted(Command(code=ResponseCode.POLLING_TIMEOUT), PARENT) == []


@pytest.mark.parametrize("properties", [{}, of("a", "x"), {"INNER_MULTI_DISPATCH": "%LMQ%a"}, of("", 1)])
def test_a_message_of_no_lite_topic(properties: dict[str, str]) -> None:
    with pytest.raises(ProtocolError):
        popped_lite_untrusted(answer(None, properties), PARENT)
