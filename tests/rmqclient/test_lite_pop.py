"""The meaning of an answer to a pop of lite topics, in our broker's form and in Apache's."""

import msgspec
import pytest

from rmqclient.pop import popped_lite_untrusted
from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import ResponseCode
from rmqproto.errors import ProtocolError
from rmqproto.message.properties import render
from rmqproto.message.record import encode_record
from rmqproto.wire.command import Command
from tests.rmqclient.fake_broker import BROKER, record

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
