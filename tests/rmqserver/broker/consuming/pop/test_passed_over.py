"""Pops and notifications with a filter, in front of more messages that they do not want than one portion has. They used
to wait for their whole time after each portion, though what they wanted was there."""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from rmqproto.bodies.routes import KvTable
from rmqproto.codes import RequestCode
from rmqproto.headers.base import to_ext
from rmqproto.headers.popping import NotificationHeader, PopHeader
from rmqproto.headers.sending import SendHeaderV2
from rmqproto.message.record import BatchItem, decode_records_untrusted, encode_batch
from rmqproto.wire.command import Command, encode_frame
from rmqproto.wire.fastjson import loads_untrusted
from rmqserver.broker.consuming.pop import waiting
from rmqserver.broker.consuming.pop.waiting import Waiting
from tests.rmqserver.broker.golden_state import create_topic, ok, send
from tests.support import servers
from tests.support.servers import Fresh, Server
from tests.support.wire import Wire

POLL_MS = 15_000
UNWANTED = 4_000
"""Five portions."""
SOON_S = 5
EXPRESSIONS = [("TAG", "hit"), ("SQL92", "color = 'red'")]


server = servers.of_module("--set", "enablePropertyFilter=true")


@pytest.fixture
def topic(wire: Wire, fresh: Fresh) -> str:
    name = fresh("Passed")
    create_topic(wire, name, 1)
    return name


def send_unwanted(wire: Wire, topic: str, count: int = UNWANTED) -> None:
    header = SendHeaderV2(producer_group="P", topic=topic, queue_id=0, born_timestamp=1, batch=True)
    for _ in range(count // 1000):
        items = [BatchItem(0, b"unwanted", b"TAGS\x01miss\x02color\x01blue\x02")] * 1000
        ok(wire.ask(RequestCode.SEND_BATCH_MESSAGE, header, encode_batch(items)))


def send_wanted(wire: Wire, topic: str) -> None:
    send(wire, topic, 0, {"TAGS": "hit", "color": "red"}, b"wanted")


def pop(wire: Wire, topic: str, kind: str, expression: str, *, order: bool = False) -> list[bytes]:
    header = PopHeader(
        consumer_group="G", topic=topic, queue_id=-1, max_msg_nums=32, invisible_time=60_000, poll_time=POLL_MS,
        born_time=time.time_ns() // 1_000_000, init_mode=0, exp_type=kind, exp=expression, order=order,
    )  # fmt: skip
    answer = ok(wire.ask(RequestCode.POP_MESSAGE, header))
    return [message.body for message in decode_records_untrusted(answer.body)]


def notified(wire: Wire, topic: str, kind: str, expression: str, poll_ms: int = POLL_MS) -> bool:
    header = NotificationHeader(
        consumer_group="G", topic=topic, queue_id=0, poll_time=poll_ms, born_time=time.time_ns() // 1_000_000,
        exp_type=kind, exp=expression,
    )  # fmt: skip
    answer = ok(wire.ask(RequestCode.NOTIFICATION, header))
    return answer.ext["hasMsg"] == "true"


@pytest.mark.parametrize(("kind", "expression"), EXPRESSIONS)
@pytest.mark.parametrize("order", [False, True], ids=["pop", "in-order"])
def test_a_pop_looks_at_all_there_is_before_it_waits(
    wire: Wire, topic: str, kind: str, expression: str, *, order: bool
) -> None:
    send_unwanted(wire, topic)
    send_wanted(wire, topic)
    started_s = time.monotonic()
    assert pop(wire, topic, kind, expression, order=order) == [b"wanted"]
    assert time.monotonic() - started_s < SOON_S


@pytest.mark.parametrize(("kind", "expression"), EXPRESSIONS)
def test_a_notification_looks_at_all_there_is_before_it_waits(
    wire: Wire, topic: str, kind: str, expression: str
) -> None:
    send_unwanted(wire, topic)
    send_wanted(wire, topic)
    started_s = time.monotonic()
    assert notified(wire, topic, kind, expression)
    assert time.monotonic() - started_s < SOON_S


def test_a_pop_that_waits_gets_what_comes_behind_more_unwanted_ones(server: Server, wire: Wire, topic: str) -> None:
    send_unwanted(wire, topic)
    header = PopHeader(
        consumer_group="G", topic=topic, queue_id=-1, max_msg_nums=32, invisible_time=60_000, poll_time=POLL_MS,
        born_time=time.time_ns() // 1_000_000, init_mode=0, exp_type="TAG", exp="hit",
    )  # fmt: skip
    with Wire(server.broker_addr) as consumer:
        consumer.send(encode_frame(Command(code=RequestCode.POP_MESSAGE, opaque=1, ext=to_ext(header))))
        send_unwanted(wire, topic)
        started_s = time.monotonic()
        send_wanted(wire, topic)
        answer = consumer.receive()
        assert time.monotonic() - started_s < SOON_S
    assert [message.body for message in decode_records_untrusted(answer.body)] == [b"wanted"]


def test_a_notification_without_time_claims_nothing_about_what_it_has_not_seen(wire: Wire, topic: str) -> None:
    send_unwanted(wire, topic)
    assert notified(wire, topic, "TAG", "hit", poll_ms=0)


def test_requests_that_look_on_leave_turns_to_others() -> None:
    posted: list[Callable[[], None]] = []
    unused: Any = None
    looking = Waiting(unused, unused, unused, unused, lambda: None, posted.append)
    client: Any = SimpleNamespace(closed=False, address="")
    gone_on: list[int] = []

    def look(number: int) -> None:
        gone_on.append(number)
        if gone_on.count(number) < 3:
            looking.look_on(client, lambda: look(number), number)

    for number in range(10):
        looking.look_on(client, lambda number=number: look(number), number)  # type: ignore[misc]
    turns = 0
    while posted:
        turns += 1
        assert len(posted) == 1
        posted.pop()()
        before = len(gone_on)
        while looking.woken:
            looking.go_on()
        assert 0 < len(gone_on) - before <= waiting.GO_ON_IN_A_TURN
    assert sorted(gone_on) == sorted([*range(10)] * 3)
    assert turns == 8


def test_the_longest_read_of_a_broker_that_only_pops_is_known(wire: Wire, topic: str) -> None:
    """``getMessageEntireTimeMax`` stayed 0. It counts whole milliseconds, and most reads are shorter."""

    def longest_ms() -> int:
        runtime = loads_untrusted(ok(wire.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body, KvTable)
        return int(runtime.table["getMessageEntireTimeMax"])

    for _ in range(200):
        send_unwanted(wire, topic)
        send_wanted(wire, topic)
        assert pop(wire, topic, *EXPRESSIONS[1]) == [b"wanted"]
        if longest_ms():
            return
    pytest.fail("none of a thousand reads took a millisecond")
