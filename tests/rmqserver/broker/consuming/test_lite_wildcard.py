"""Wildcard groups, which consume every lite topic of their parent, and pulls of a lite topic by its name."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rmqproto.bodies.lite import LiteClientInfo, LiteTopicInfo, OffsetOption
from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.headers.base import to_ext
from rmqproto.wire.command import Command, encode_frame
from rmqproto.wire.fastjson import loads_untrusted
from tests.rmqserver.broker.consuming.test_lite import (
    HOLD_MS,
    LIGHT,
    TOPIC,
    change,
    create_lite_group,
    handled,
    pop,
    pop_header,
    put,
)
from tests.rmqserver.broker.golden_state import create_topic, ok
from tests.rmqserver.broker.messaging import bodies, pull, start_pull
from tests.support import servers
from tests.support.servers import Server
from tests.support.wire import Wire

GROUP = "WildcardGroup"


@contextmanager
def broker_with_wildcard_group(folder: Path) -> Iterator[Server]:
    with servers.standalone(folder, *LIGHT) as running, Wire(running.broker_addr) as wire:
        create_topic(wire, TOPIC, 2, "+message.type=LITE")
        create_lite_group(wire, GROUP, lite_sub_wildcard="true")
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("wildcard")
    with broker_with_wildcard_group(folder) as running, Wire(running.broker_addr) as wire:
        create_lite_group(wire, "Exclusive", lite_sub_model="Exclusive", lite_sub_reset_offset_exclusive="true")
        create_lite_group(wire, "Resetting", lite_sub_reset_offset_unsubscribe="true")
        yield running


def start_pop(wire: Wire, client_id: str, group: str = GROUP) -> None:
    """Sends a pop that waits; the broker holds it at return, and its answer comes by ``wire.receive``."""
    header = pop_header(client_id, group=group, poll_ms=HOLD_MS)
    wire.send(encode_frame(Command(code=R.POP_LITE_MESSAGE, opaque=1, ext=to_ext(header))))
    wire.send(encode_frame(Command(code=R.GET_BROKER_LITE_INFO, opaque=2)))
    assert wire.receive().opaque == 2


def acknowledge(wire: Wire, popped: Command, lite_topic: str, offset: int) -> None:
    ok(wire.ask(R.ACK_MESSAGE, handled(popped, lite_topic, offset, GROUP)))


def test_a_wildcard_group_has_what_is_there_and_what_comes_in_any_lite_topic(wire: Wire, other: Wire) -> None:
    put(wire, "w-before", b"before")
    ok(change(other, "COMPLETE_ADD", "any", group=GROUP))
    found = ok(pop(other, "any", group=GROUP, poll_ms=HOLD_MS))
    assert bodies(found) == [b"before"]
    acknowledge(wire, found, "w-before", 0)
    start_pop(other, "any")
    put(wire, "w-new", b"new")
    found = ok(other.receive())
    assert bodies(found) == [b"new"]
    put(wire, "w-new", b"later")
    put(wire, "w-free", b"free")
    beside = ok(pop(other, "any", group=GROUP))
    assert bodies(beside) == [b"free"], "w-new is not free until what was popped of it is acknowledged"
    start_pop(other, "any")
    acknowledge(wire, found, "w-new", 0)
    acknowledge(wire, beside, "w-free", 0)
    last = ok(other.receive())
    assert bodies(last) == [b"later"]
    acknowledge(wire, last, "w-new", 1)


def test_of_the_pops_of_a_wildcard_group_a_message_wakes_one(server: Server, wire: Wire, other: Wire) -> None:
    for connection, client_id in ((wire, "one"), (other, "two")):
        ok(change(connection, "COMPLETE_ADD", client_id, group=GROUP))
        start_pop(connection, client_id)
    with Wire(server.broker_addr) as producer:
        put(producer, "w-one", b"m0")
        first = ok(wire.receive())
        put(producer, "w-two", b"m1")
        second = ok(other.receive())
        acknowledge(producer, first, "w-one", 0)
        acknowledge(producer, second, "w-two", 0)
    assert (bodies(first), bodies(second)) == ([b"m0"], [b"m1"])


def test_what_tools_see_of_a_wildcard_group(wire: Wire) -> None:
    ok(change(wire, "COMPLETE_ADD", "seen", "whatever", group=GROUP))
    asked = {"parentTopic": TOPIC, "group": GROUP, "clientId": "seen"}
    client = loads_untrusted(ok(wire.ask(R.GET_LITE_CLIENT_INFO, asked)).body, LiteClientInfo)
    assert client.lite_topic_set == [f"{TOPIC}@{GROUP}"]
    asked = {"parentTopic": TOPIC, "liteTopic": "w-seen"}
    info = loads_untrusted(ok(wire.ask(R.GET_LITE_TOPIC_INFO, asked)).body, LiteTopicInfo)
    assert [(one.client_id, one.group) for one in info.subscriber or []] == [("*", GROUP)]
    refused = change(wire, "PARTIAL_ADD", "seen", "w-seen", group=GROUP)
    assert (refused.code, refused.remark) == (604, "subscribe lite operation is not supported for this group")
    ok(change(wire, "COMPLETE_REMOVE", "seen"))
    info = loads_untrusted(ok(wire.ask(R.GET_LITE_TOPIC_INFO, asked)).body, LiteTopicInfo)
    assert not info.subscriber


def test_an_operator_has_a_wildcard_group_look_once_more(tmp_path: Path) -> None:
    """The broker has only this lite topic: once its message is found, the group's first search is over and finds
    nothing more by itself."""
    with (
        broker_with_wildcard_group(tmp_path) as server,
        Wire(server.broker_addr) as wire,
        Wire(server.broker_addr) as operator,
    ):
        put(wire, "w-again", b"m")
        ok(change(wire, "COMPLETE_ADD", "again", group=GROUP))
        popped = ok(pop(wire, "again", group=GROUP, poll_ms=HOLD_MS))
        acknowledge(wire, popped, "w-again", 0)
        assert pop(wire, "again", group=GROUP).code == ResponseCode.POLLING_TIMEOUT
        lmq = f"%LMQ%${TOPIC}$w-again"
        back = {"consumerGroup": GROUP, "topic": lmq, "queueId": "0", "commitOffset": "0"}
        ok(wire.ask(R.UPDATE_CONSUMER_OFFSET, back))
        assert pop(wire, "again", group=GROUP).code == ResponseCode.POLLING_TIMEOUT
        start_pop(wire, "again")
        ok(operator.ask(R.TRIGGER_LITE_DISPATCH, {"group": GROUP}))
        found = ok(wire.receive())
        assert bodies(found) == [b"m"]
        acknowledge(operator, found, "w-again", 0)


def test_a_group_that_is_excluded_or_unsubscribes_may_begin_anew(wire: Wire, other: Wire) -> None:
    for name in ("x-taken", "x-left"):
        put(wire, name, b"m")
    last = OffsetOption(value=2)
    ok(change(wire, "PARTIAL_ADD", "first", "x-taken", group="Exclusive", option=last))
    ok(change(other, "COMPLETE_ADD", "second", "x-taken", group="Exclusive"))
    assert pop(other, "second", group="Exclusive").code == ResponseCode.POLLING_TIMEOUT, "nothing is taken from others"
    ok(change(other, "PARTIAL_ADD", "second", "x-taken", group="Exclusive"))
    assert wire.receive().code == R.NOTIFY_UNSUBSCRIBE_LITE
    assert bodies(ok(pop(other, "second", group="Exclusive"))) == [b"m"]
    ok(change(wire, "PARTIAL_ADD", "leaving", "x-left", group="Resetting", option=last))
    ok(change(wire, "COMPLETE_REMOVE", "leaving", group="Resetting"))
    ok(change(wire, "PARTIAL_ADD", "leaving", "x-left", group="Resetting"))
    assert pop(wire, "leaving", group="Resetting").code == ResponseCode.POLLING_TIMEOUT
    ok(change(wire, "PARTIAL_REMOVE", "leaving", "x-left", group="Resetting"))
    ok(change(wire, "PARTIAL_ADD", "leaving", "x-left", group="Resetting"))
    assert bodies(ok(pop(wire, "leaving", group="Resetting"))) == [b"m"]


def test_a_pull_by_the_name_of_a_lite_topic(wire: Wire, other: Wire) -> None:
    """Apache's broker checks the parent topic and reads the light queue."""
    put(wire, "p-0", b"m0")
    put(wire, "p-1", b"other")
    put(wire, "p-0", b"m1")
    found = ok(pull(wire, TOPIC, lite_topic="p-0"))
    assert (bodies(found), found.ext["nextBeginOffset"]) == ([b"m0", b"m1"], "2")
    start_pull(other, TOPIC, 0, 2, lite_topic="p-0")
    put(wire, "p-1", b"of another")
    put(wire, "p-0", b"m2")
    assert bodies(ok(other.receive())) == [b"m2"]
    assert pull(wire, "NoSuchTopic", lite_topic="p-0").code == ResponseCode.TOPIC_NOT_EXIST
    assert pull(wire, TOPIC, expression=None, group="Nobody", lite_topic="p-0").code == 24
    assert pull(wire, TOPIC, lite_topic="p-none").code == ResponseCode.PULL_NOT_FOUND


def test_a_time_is_looked_up_in_a_lite_topic(wire: Wire) -> None:
    put(wire, "s-0", b"m0")
    put(wire, "s-1", b"other")
    put(wire, "s-0", b"m1")
    for lite_topic, timestamp, found in (("s-0", 0, "0"), ("s-0", 2**62, "2"), ("s-none", 2**62, "0")):
        asked = {"topic": TOPIC, "queueId": "0", "timestamp": str(timestamp), "liteTopic": lite_topic}
        assert ok(wire.ask(R.SEARCH_OFFSET_BY_TIMESTAMP, asked)).ext["offset"] == found
