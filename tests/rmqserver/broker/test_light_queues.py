"""Light queues over the wire: a property sends to them, they are read as topics of their own, and nobody needs to
create the groups."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.message.record import decode_records_untrusted
from rmqproto.wire.fastjson import parse_untrusted
from tests.rmqserver.broker.golden_state import create_topic, ok
from tests.rmqserver.broker.messaging import bodies, hold_pull, pull, send, text
from tests.support import servers
from tests.support.servers import Server
from tests.support.wire import Wire

LIGHT = ("--set", "enableLmq=true", "--set", "enableMultiDispatch=true")
GROUP = "%LMQ%GID_client"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with servers.standalone(tmp_path_factory.mktemp("light"), *LIGHT) as running:
        with Wire(running.broker_addr) as wire:
            create_topic(wire, "PlainTopic")
        yield running


def test_a_message_is_read_from_its_light_queues(wire: Wire) -> None:
    for number in range(3):
        ok(send(wire, "PlainTopic", body=b"m%d" % number, properties=text(INNER_MULTI_DISPATCH="%LMQ%one,%LMQ%two")))
    answer = ok(pull(wire, "%LMQ%one", 0, 1, group=GROUP))
    assert bodies(answer) == [b"m1", b"m2"]
    assert (answer.ext["maxOffset"], answer.ext["nextBeginOffset"]) == ("3", "3")
    (first, _) = decode_records_untrusted(answer.body)
    assert (first.topic, first.properties["INNER_MULTI_QUEUE_OFFSET"]) == ("PlainTopic", "1,1")
    assert ok(wire.ask(R.GET_MAX_OFFSET, {"topic": "%LMQ%two", "queueId": "0"})).ext["offset"] == "3"
    assert pull(wire, "%LMQ%one", 1, 0, group=GROUP).code == ResponseCode.INVALID_PARAMETER


def test_a_held_pull_of_a_light_queue_is_answered(wire: Wire, server: Server) -> None:
    with Wire(server.broker_addr) as consumer:
        hold_pull(consumer, "%LMQ%held", 0, 0, group=GROUP)
        ok(send(wire, "PlainTopic", body=b"now", properties=text(INNER_MULTI_DISPATCH="%LMQ%held")))
        assert bodies(ok(consumer.receive())) == [b"now"]


@pytest.mark.parametrize("later", [{"DELAY": "1"}, {"TIMER_DELAY_MS": "1500"}])
def test_a_delayed_message_is_there_when_it_is_due(wire: Wire, server: Server, later: dict[str, str]) -> None:
    queue = f"%LMQ%late{len(*later)}"
    with Wire(server.broker_addr) as consumer:
        hold_pull(consumer, queue, 0, 0, group=GROUP)
        ok(send(wire, "PlainTopic", body=b"late", properties=text(INNER_MULTI_DISPATCH=queue, **later)))
        assert ok(wire.ask(R.GET_MAX_OFFSET, {"topic": queue, "queueId": "0"})).ext["offset"] == "0"
        assert bodies(ok(consumer.receive())) == [b"late"]


def test_a_quota_is_refused_in_apaches_words(tmp_path: Path) -> None:
    settings = (*LIGHT, "--set", "enableLmqQuota=true", "--set", "maxLmqConsumeQueueNum=1")
    with servers.standalone(tmp_path, *settings) as server, Wire(server.broker_addr) as wire:
        create_topic(wire, "PlainTopic")
        ok(send(wire, "PlainTopic", properties=text(INNER_MULTI_DISPATCH="%LMQ%one")))
        answer = send(wire, "PlainTopic", properties=text(INNER_MULTI_DISPATCH="%LMQ%two"))
    assert answer.code == ResponseCode.LMQ_QUOTA_EXCEEDED
    assert answer.remark == "[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]lmq consume queue num exceeded."


def test_offsets_of_light_groups_are_kept_in_apaches_file(tmp_path: Path) -> None:
    asked = {"consumerGroup": GROUP, "topic": "%LMQ%one", "queueId": "0"}
    with servers.standalone(tmp_path, *LIGHT) as first, Wire(first.broker_addr) as wire:
        create_topic(wire, "PlainTopic")
        for _ in range(2):
            ok(send(wire, "PlainTopic", properties=text(INNER_MULTI_DISPATCH="%LMQ%one")))
        ok(wire.ask(R.UPDATE_CONSUMER_OFFSET, {**asked, "commitOffset": "2"}))
        tables = parse_untrusted(ok(wire.ask(R.GET_ALL_CONSUMER_OFFSET)).body)
        assert tables["lmqOffsetTable"] == {f"%LMQ%one@{GROUP}": 2}
        assert tables["offsetTable"] == {}
    config = tmp_path / "store/config"
    assert not (config / "consumerOffset.json").exists()
    assert parse_untrusted((config / "lmqConsumerOffset.json").read_bytes())["lmqOffsetTable"] == {
        f"%LMQ%one@{GROUP}": 2
    }
    with servers.standalone(tmp_path, *LIGHT) as second, Wire(second.broker_addr) as wire:
        assert ok(wire.ask(R.QUERY_CONSUMER_OFFSET, asked)).ext["offset"] == "2"
        assert b"%LMQ%" not in ok(wire.ask(R.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).body
        assert b"%LMQ%" not in ok(wire.ask(R.GET_ALL_TOPIC_CONFIG)).body


def test_without_light_queues_there_are_none(tmp_path: Path) -> None:
    with servers.standalone(tmp_path, "--set", "enableLmq=true") as server, Wire(server.broker_addr) as wire:
        create_topic(wire, "PlainTopic")
        ok(send(wire, "PlainTopic", properties=text(INNER_MULTI_DISPATCH="%LMQ%one")))
        assert pull(wire, "%LMQ%one", 0, 0, group="G").code == ResponseCode.TOPIC_NOT_EXIST
        (record,) = decode_records_untrusted(ok(pull(wire, "PlainTopic", 0, 0, group="G")).body)
        assert "INNER_MULTI_QUEUE_OFFSET" not in record.properties
