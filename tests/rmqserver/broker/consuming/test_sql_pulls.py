"""Pulls with SQL92 expressions, which come with the pull or with the group's heartbeats."""

import json
from pathlib import Path

from rmqproto.bodies.groups import SubscriptionData
from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from tests.rmqserver.broker.golden_state import consume, create_topic, ok
from tests.rmqserver.broker.messaging import bodies, hold_pull, pull, send, text
from tests.rmqserver.store import golden
from tests.support import servers
from tests.support.wire import Wire

GROUP = "SqlGroup"
CARRIED = {"expression_type": "SQL92"}
BY_HEARTBEAT = {"group": GROUP, "expression": None}


server = servers.of_module("--set", "enablePropertyFilter=true")


def subscribe(wire: Wire, topic: str, expression: str, version: int = 1) -> None:
    data = SubscriptionData(topic=topic, sub_string=expression, sub_version=version, expression_type="SQL92")
    consume(wire, GROUP, data)


def fill(wire: Wire, topic: str) -> None:
    """Messages ``0`` to ``9``: ``a`` is the number, and every second one has the kind ``even``."""
    create_topic(wire, topic)
    for number in range(10):
        kind = {"kind": "even"} if number % 2 == 0 else {}
        ok(send(wire, topic, body=b"%d" % number, properties=text(a=str(number), **kind)))


def test_messages_are_chosen_by_their_properties(wire: Wire) -> None:
    fill(wire, "Chosen")
    assert bodies(pull(wire, "Chosen", expression="a BETWEEN 3 AND 5 OR a = 9", **CARRIED)) == [b"3", b"4", b"5", b"9"]
    assert bodies(pull(wire, "Chosen", expression="kind IS NULL AND a > 4.5", **CARRIED)) == [b"5", b"7", b"9"]
    answer = pull(wire, "Chosen", expression="kind = 'odd'", **CARRIED)
    assert (answer.code, answer.remark) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE")
    assert answer.ext["nextBeginOffset"] == "10"
    assert len(bodies(pull(wire, "Chosen", expression="a >", **CARRIED))) == 10, "as with Apache's broker"


def test_heartbeats_say_what_a_group_wants(wire: Wire) -> None:
    fill(wire, "Said")
    subscribe(wire, "Said", "kind = 'even' AND a >= 4")
    assert bodies(pull(wire, "Said", **BY_HEARTBEAT, sub_version=1)) == [b"4", b"6", b"8"]
    subscribe(wire, "Said", "a < 2", version=2)
    assert bodies(pull(wire, "Said", **BY_HEARTBEAT, sub_version=2)) == [b"0", b"1"]
    answer = pull(wire, "Said", **BY_HEARTBEAT, sub_version=3)
    assert answer.code == ResponseCode.SUBSCRIPTION_NOT_LATEST


def test_bad_expression_of_a_heartbeat_is_told_to_its_pulls(wire: Wire) -> None:
    create_topic(wire, "Wrong")
    subscribe(wire, "Wrong", "a >")
    answer = pull(wire, "Wrong", **BY_HEARTBEAT)
    text_ = "The broker's consumer filter data is not exist!Your expression may be wrong!"
    assert (answer.code, answer.remark) == (ResponseCode.FILTER_DATA_NOT_EXIST, text_)


def test_waiting_pull_is_woken_by_what_it_wants_alone(wire: Wire, other: Wire) -> None:
    fill(wire, "Waits")
    hold_pull(other, "Waits", 0, 10, expression="a > 100", **CARRIED)
    ok(send(wire, "Waits", properties=text(a="99")))
    ok(send(wire, "Waits", properties=text(a="dear")))
    ok(send(wire, "Waits", properties=text(a="101"), body=b"wanted"))
    answer = other.receive()
    assert bodies(answer) == [b"wanted"]
    assert answer.ext["nextBeginOffset"] == "13"


def test_look_at_a_queue_shows_the_filter(wire: Wire) -> None:
    fill(wire, "Looked")
    subscribe(wire, "Looked", "a > 5", version=3)
    asked = {"topic": "Looked", "queueId": "0", "index": "0", "count": "1", "consumerGroup": GROUP}
    shown = json.loads(json.loads(ok(wire.ask(R.QUERY_CONSUME_QUEUE, asked)).body)["filterData"])
    assert (shown["expression"], shown["clientVersion"], shown["dead"]) == ("a > 5", 3, False)
    assert json.loads(ok(wire.ask(R.QUERY_CONSUME_QUEUE, asked | {"consumerGroup": "Nobody"})).body)["filterData"] == (
        "Nobody@Looked is not online!"
    )


def test_the_file_of_filters_of_an_apache_store_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "apache").mkdir()
    of_apache = (golden.unpack("clean", tmp_path / "apache") / "config/consumerFilter.json").read_bytes()
    settings = ("--set", "enablePropertyFilter=true")
    with servers.standalone(tmp_path / "ours", *settings) as server:
        file = Path(server.store_dir, "config/consumerFilter.json")
    assert not file.exists()
    file.write_bytes(of_apache)
    with servers.standalone(tmp_path / "ours", *settings) as server, Wire(server.broker_addr) as wire:
        fill(wire, "Kept")
        subscribe(wire, "Kept", "a = 5")
        assert bodies(pull(wire, "Kept", **BY_HEARTBEAT)) == [b"5"]
    assert file.read_bytes() == of_apache
