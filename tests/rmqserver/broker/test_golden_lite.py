"""Apache's exchanges about lite topics, played against our broker in the order in which they were recorded."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.codes import RequestCode as R
from rmqproto.message.record import decode_records_untrusted
from rmqproto.wire.command import decode_frame_untrusted, encode_frame
from rmqproto.wire.fastjson import dumps
from tests.rmqserver.broker.golden_play import compare, play
from tests.rmqserver.broker.golden_state import create_group, create_topic, ok
from tests.rmqserver.broker.messaging import send, text
from tests.support import servers
from tests.support.golden import exchange, said
from tests.support.wire import Wire

BROKER, PARENT, TOPIC = "200074-GET_BROKER_LITE_INFO", "200075-GET_PARENT_TOPIC_INFO", "200076-GET_LITE_TOPIC_INFO"
CLIENT, GROUP = "200077-GET_LITE_CLIENT_INFO", "200078-GET_LITE_GROUP_INFO"
SIZES_OF_TABLES = ("cqTableSize", "eventMapSize", "liteSubscriptionCount", "offsetTableSize", "orderInfoCount")
"""These count everything that the recorded broker had."""


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Wire]:
    light = ("--set", "enableLmq=true", "--set", "enableMultiDispatch=true")
    with servers.standalone(tmp_path, *light) as server, Wire(server.broker_addr) as connection:
        yield connection


def test_lite_topics(wire: Wire) -> None:
    create_topic(wire, "NormalTopic")
    create_topic(wire, "LiteTopic", 1, attributes="+message.type=LITE")
    for number in range(2):
        ok(send(wire, "Light", properties=text(INNER_MULTI_DISPATCH=f"%LMQ%golden-{number}")))
    for number in range(6):
        ok(send(wire, "LiteTopic", body=b"lite %d" % number, properties=text(__LITE_TOPIC=f"session-{number % 2}")))
    create_group(wire, "NormalGroup")
    bound = SubscriptionGroupConfig(group_name="LiteGroup", attributes={"+lite.bind.topic": "LiteTopic"})
    ok(wire.ask(R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=dumps(bound)))

    play(wire, "200071-LITE_SUBSCRIPTION_CTL/01")
    pop(wire, "200070-POP_LITE_MESSAGE/01")
    play(wire, f"{BROKER}/01", *SIZES_OF_TABLES)
    play(wire, f"{PARENT}/01")
    play(wire, f"{PARENT}/02")
    play(wire, f"{TOPIC}/01", "lastUpdateTimestamp")
    ours = play(wire, f"{CLIENT}/01", "lastAccessTime")
    assert ours["body"]["liteTopicSet"] == ["%LMQ%$LiteTopic$session-0", "%LMQ%$LiteTopic$session-1"]
    play(wire, f"{GROUP}/01", "earliestUnconsumedTimestamp")
    lags = play(wire, f"{GROUP}/02", "earliestUnconsumedTimestamp", "lagCountTopK")["body"]["lagCountTopK"]
    assert {(lag["liteTopic"], lag["lagCount"]) for lag in lags} == {("session-0", 3), ("session-1", 3)}
    play(wire, "200079-TRIGGER_LITE_DISPATCH/01")
    ok(wire.ask(R.LITE_SUBSCRIPTION_CTL, body=exchange_of_removal()))

    play(wire, f"{BROKER}/03", *SIZES_OF_TABLES)
    play(wire, f"{PARENT}/04")
    play(wire, f"{PARENT}/05")
    play(wire, f"{TOPIC}/03", "lastUpdateTimestamp")
    play(wire, f"{CLIENT}/03")
    play(wire, "200079-TRIGGER_LITE_DISPATCH/03")


def pop(wire: Wire, name: str) -> None:
    """Plays a pop as if it were sent now."""
    golden = exchange(name)
    request = decode_frame_untrusted(golden.request)
    request.ext["bornTime"] = str(time.time_ns() // 1_000_000)
    answer = wire.exchange(encode_frame(request))
    compare(name, said(answer), said(golden.answer), "popTime", "body")
    assert golden.answer is not None
    ours, theirs = (decode_records_untrusted(one.body) for one in (answer, golden.answer))
    assert [message.body for message in ours] == [message.body for message in theirs]


def exchange_of_removal() -> bytes:
    """The request that added lite topics, changed to one that removes all."""
    body = decode_frame_untrusted(exchange("200071-LITE_SUBSCRIPTION_CTL/01").request).body
    return body.replace(b"PARTIAL_ADD", b"COMPLETE_REMOVE")
