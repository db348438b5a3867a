"""Static topics over the wire: a topic with a mapping, and every request that names a logical queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from rmqproto.bodies.routes import TopicConfigs
from rmqproto.bodies.static_topics import LogicQueueMappingItem, TopicConfigAndQueueMapping, TopicQueueMappingDetail
from rmqproto.bodies.statistics import ConsumeStats, ConsumeStatsList
from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.headers.statistics import ConsumeStatsHeader
from rmqproto.headers.tables import TopicConfigHeader, TopicHeader
from rmqproto.wire.command import Command, HeaderCodec
from rmqproto.wire.fastjson import dumps, loads_untrusted
from tests.rmqserver.broker.golden_play import play
from tests.rmqserver.broker.golden_state import create_group, ok
from tests.rmqserver.broker.messaging import HELD_MS, bodies, hold_pull, pull, pull_header, send
from tests.support import servers
from tests.support.servers import Server
from tests.support.wire import Wire

GROUP = "StaticGroup"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("static")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with servers.standalone(folder) as running:
        with Wire(running.broker_addr) as wire:
            create_group(wire, GROUP)
        yield running


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    with Wire(server.broker_addr) as connection:
        yield connection


def item(queue_id: int, logic_offset: int = 0, gen: int = 0, bname: str = "broker-a") -> LogicQueueMappingItem:
    return LogicQueueMappingItem(bname=bname, gen=gen, queue_id=queue_id, logic_offset=logic_offset)


def put_mapping(
    wire: Wire,
    topic: str,
    hosted: Mapping[int, list[LogicQueueMappingItem]],
    *,
    epoch: int = 1,
    queues: int = 4,
    bname: str = "broker-a",
    force: bool = False,
) -> Command:
    detail = TopicQueueMappingDetail(
        bname=bname, epoch=epoch, hosted_queues=dict(hosted), topic=topic, total_queues=len(hosted)
    )
    header = TopicConfigHeader(topic=topic, read_queue_nums=queues, write_queue_nums=queues, perm=6, force=force)
    return wire.ask(R.UPDATE_AND_CREATE_STATIC_TOPIC, header, dumps(detail))


def logical(topic: str, queue_id: int, **fields: object) -> dict[str, str]:
    texts = {name: str(value) for name, value in fields.items()}
    return {"topic": topic, "queueId": str(queue_id), "lo": "true", **texts}


def config(wire: Wire, topic: str) -> TopicConfigAndQueueMapping:
    answer = ok(wire.ask(R.GET_TOPIC_CONFIG, {"topic": topic, "lo": "true"}))
    return loads_untrusted(answer.body, TopicConfigAndQueueMapping)


def test_creating_one_as_apache_does(wire: Wire) -> None:
    play(wire, "351-GET_TOPIC_CONFIG/06")
    ok(put_mapping(wire, "CreatedStatic", {0: [item(1)], 1: [item(0)]}, queues=2))
    found = config(wire, "CreatedStatic")
    assert (found.read_queue_nums, found.write_queue_nums) == (2, 2)
    assert found.mapping_detail is not None
    assert found.mapping_detail.hosted_queues[0] == [item(1)]
    plain = ok(wire.ask(R.GET_TOPIC_CONFIG, TopicHeader(topic="CreatedStatic")))
    assert b"mappingDetail" not in plain.body
    everything = loads_untrusted(ok(wire.ask(R.GET_ALL_TOPIC_CONFIG)).body, TopicConfigs)
    assert list(everything.topic_queue_mapping_detail_map or {}) == ["CreatedStatic"]


def test_the_answer_to_a_mapping_is_apaches(tmp_path: Path) -> None:
    with servers.standalone(tmp_path, "--set", "brokerName=broker-b") as other, Wire(other.broker_addr) as wire:
        play(wire, "513-UPDATE_AND_CREATE_STATIC_TOPIC/01")


@pytest.mark.parametrize(
    ("fields", "code", "remark"),
    [
        ({"epoch": 4}, ResponseCode.SYSTEM_ERROR, "Can't accept data with small epoch 4 < 5"),
        ({"bname": "broker-z"}, ResponseCode.SYSTEM_ERROR, "the mapping is for broker broker-z, not for broker-a"),
        ({"queues": -1}, ResponseCode.INVALID_PARAMETER, "queueNums -1 not in"),
    ],
)
def test_mappings_that_are_refused_change_nothing(
    wire: Wire, fields: dict[str, int], code: ResponseCode, remark: str
) -> None:
    ok(put_mapping(wire, "KeptStatic", {0: [item(0)]}, epoch=5))
    before = config(wire, "KeptStatic")
    answer = put_mapping(wire, "KeptStatic", {0: [item(0)]}, **{"epoch": 6, **fields})  # type: ignore[arg-type]
    assert answer.code == code
    assert remark in (answer.remark or "")
    assert config(wire, "KeptStatic") == before


@pytest.mark.parametrize("codec", [HeaderCodec.JSON, HeaderCodec.ROCKETMQ])
def test_a_logical_queue_is_written_and_read_where_it_is(wire: Wire, codec: HeaderCodec) -> None:
    topic = f"Static{codec.name}"
    ok(put_mapping(wire, topic, {0: [item(2)], 1: [item(0)]}))
    for number in range(3):
        sent = ok(send(wire, topic, 0, b"m%d" % number)).ext
        assert (sent["queueId"], sent["queueOffset"]) == ("0", str(number))
    assert ok(wire.ask(R.GET_MAX_OFFSET, logical(topic, 0))).ext["offset"] == "3"
    assert ok(wire.ask(R.GET_MAX_OFFSET, {**logical(topic, 2), "lo": "false"})).ext["offset"] == "3"
    assert ok(wire.ask(R.GET_MIN_OFFSET, logical(topic, 0))).ext["offset"] == "0"
    assert int(ok(wire.ask(R.GET_EARLIEST_MSG_STORETIME, logical(topic, 0))).ext["timestamp"]) > 0
    assert ok(wire.ask(R.SEARCH_OFFSET_BY_TIMESTAMP, logical(topic, 0, timestamp=2**62))).ext["offset"] == "3"
    answer = ok(wire.ask(R.PULL_MESSAGE, pull_header(topic, 0, 0, group=GROUP), codec=codec))
    assert bodies(answer) == [b"m0", b"m1", b"m2"]
    assert {name: answer.ext[name] for name in ("nextBeginOffset", "minOffset", "maxOffset", "offsetDelta")} == {
        "nextBeginOffset": "3", "minOffset": "0", "maxOffset": "3", "offsetDelta": "0",
    }  # fmt: skip


def test_a_queue_that_came_back_counts_on(wire: Wire) -> None:
    """The logical queue was on our queue 0, and is on queue 1 now."""
    topic = "MovedStatic"
    ok(put_mapping(wire, topic, {0: [item(0)]}))
    ok(send(wire, topic, 0, b"old"))
    ok(put_mapping(wire, topic, {0: [item(0), item(1, -1, 1)]}, epoch=2))
    sent = ok(send(wire, topic, 0, b"between")).ext
    assert (sent["queueId"], sent["queueOffset"]) == ("0", "-1")
    ok(put_mapping(wire, topic, {0: [item(0), item(1, 10_000, 1)]}, epoch=2))
    assert ok(send(wire, topic, 0, b"new")).ext["queueOffset"] == "10001"
    assert ok(wire.ask(R.GET_MAX_OFFSET, logical(topic, 0))).ext["offset"] == "10002"
    assert ok(wire.ask(R.GET_MIN_OFFSET, logical(topic, 0))).ext["offset"] == "0"

    offset, found = 0, []
    for _ in range(4):
        answer = pull(wire, topic, 0, offset, group=GROUP)
        offset = int(answer.ext["nextBeginOffset"])
        found += bodies(answer) if answer.code == ResponseCode.SUCCESS else [str(answer.code).encode()]
    assert found == [b"old", b"20", b"between", b"new", b"19"]
    assert offset == 10_002


def test_offsets_are_committed_and_asked_for_in_logical_ones(wire: Wire) -> None:
    topic = "CommittedStatic"
    ok(put_mapping(wire, topic, {3: [item(0), item(2, 10_000, 1)]}))
    asked = logical(topic, 3, consumerGroup=GROUP)
    assert wire.ask(R.QUERY_CONSUMER_OFFSET, asked).code == ResponseCode.QUERY_NOT_FOUND
    for committed in ("4", "10007"):
        ok(wire.ask(R.UPDATE_CONSUMER_OFFSET, {**asked, "commitOffset": committed}))
        assert ok(wire.ask(R.QUERY_CONSUMER_OFFSET, asked)).ext["offset"] == committed
    here = {**logical(topic, 2, consumerGroup=GROUP), "lo": "false"}
    assert ok(wire.ask(R.QUERY_CONSUMER_OFFSET, here)).ext["offset"] == "7"
    stats = ok(wire.ask(R.GET_CONSUME_STATS, ConsumeStatsHeader(consumer_group=GROUP, topic=topic)))
    offsets = loads_untrusted(stats.body, ConsumeStats).offset_table
    assert {queue.queue_id: each.consumer_offset for queue, each in offsets.items()} == {0: 4, 1: -1, 2: 7, 3: -1}
    assert {queue.queue_id: each.pull_offset for queue, each in offsets.items()} == {0: 4, 1: -1, 2: 7, 3: -1}
    everything = loads_untrusted(ok(wire.ask(R.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})).body, ConsumeStatsList)
    found = next(each[GROUP] for each in everything.consume_stats_list if GROUP in each)
    offsets = next(each.offset_table for each in found if {queue.topic for queue in each.offset_table} == {topic})
    assert {queue.queue_id: each.consumer_offset for queue, each in offsets.items()} == {0: 4, 1: 0, 2: 7, 3: 0}


def test_a_pull_that_waits_is_answered_in_logical_offsets(wire: Wire, server: Server) -> None:
    ok(put_mapping(wire, "HeldStatic", {5: [item(0), item(1, 10_000, 1)]}))
    with Wire(server.broker_addr) as consumer:
        hold_pull(consumer, "HeldStatic", 5, 10_000, group=GROUP)
        ok(send(wire, "HeldStatic", 5, b"at last"))
        answer = ok(consumer.receive())
    assert bodies(answer) == [b"at last"]
    assert (answer.ext["nextBeginOffset"], answer.ext["offsetDelta"]) == ("10001", "10000")


def test_a_queue_that_is_elsewhere_is_refused_with_501(wire: Wire) -> None:
    topic = "ElsewhereStatic"
    ok(put_mapping(wire, topic, {0: [item(0), item(0, 10_000, 1, "broker-z")]}))
    here = "%s-%d does not exit in request process of current broker broker-a"
    for code, fields, remark in (
        (R.GET_MAX_OFFSET, {}, here),
        (R.GET_MIN_OFFSET, {}, "%s-%d is not leader in broker broker-a, request code 31"),
        (R.GET_EARLIEST_MSG_STORETIME, {}, here),
        (R.SEARCH_OFFSET_BY_TIMESTAMP, {"timestamp": 0}, here),
        (R.QUERY_CONSUMER_OFFSET, {"consumerGroup": GROUP}, here),
        (R.UPDATE_CONSUMER_OFFSET, {"consumerGroup": GROUP, "commitOffset": 1}, here),
    ):
        for queue_id in (0, 9):
            answer = wire.ask(code, logical(topic, queue_id, **fields))
            assert (answer.code, answer.remark) == (ResponseCode.NOT_LEADER_FOR_QUEUE, remark % (topic, queue_id))
    answer = send(wire, topic, 0)
    assert (answer.code, answer.remark) == (ResponseCode.NOT_LEADER_FOR_QUEUE, here % (topic, 0))
    answer = pull(wire, topic, 0, 0, group=GROUP)
    text = "%s-%d cannot find mapping item in request process of current broker broker-a"
    assert (answer.code, answer.remark) == (ResponseCode.NOT_LEADER_FOR_QUEUE, text % (topic, 0))


def test_a_broker_that_nobody_knows_is_named_to_who_asks_for_older_offsets(wire: Wire) -> None:
    topic = "ArrivedStatic"
    ok(put_mapping(wire, topic, {0: [item(0, 0, 0, "broker-z"), item(0, 10_000, 1)]}))
    assert bodies(pull(wire, topic, 0, 10_000, group=GROUP)) == []
    answer = pull(wire, topic, 0, 5, group=GROUP)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "in queue 0 of broker broker-z" in (answer.remark or "")


def test_what_was_stored_before_a_queue_moved_is_asked_of_its_former_broker(
    wire: Wire, server: Server, tmp_path: Path
) -> None:
    """As Apache's StaticTopicIT (testRemappingProduceConsumeStaticTopic, testDoubleReadCheckConsumerOffset)."""
    topic = "FormerStatic"
    with servers.broker(tmp_path, server.namesrv_addr, "broker-b") as former, Wire(former.broker_addr) as there:
        create_group(there, GROUP)
        ok(put_mapping(there, topic, {1: [item(2, bname="broker-b")]}, bname="broker-b"))
        for body in (b"old 0", b"old 1", b"old 2"):
            ok(send(there, topic, 1, body))
        stays = [LogicQueueMappingItem(bname="broker-b", gen=0, queue_id=2, logic_offset=0, end_offset=3)]
        ok(put_mapping(wire, topic, {1: [*stays, item(0, 1000, 1)]}, epoch=2))
        ok(send(wire, topic, 1, b"new"))

        asked = logical(topic, 1, consumerGroup=GROUP)
        assert wire.ask(R.QUERY_CONSUMER_OFFSET, asked).code == ResponseCode.QUERY_NOT_FOUND
        ok(wire.ask(R.UPDATE_CONSUMER_OFFSET, {**asked, "commitOffset": "2"}))
        assert ok(wire.ask(R.QUERY_CONSUMER_OFFSET, asked)).ext["offset"] == "2"
        kept = {**logical(topic, 2, consumerGroup=GROUP), "lo": "false"}
        assert ok(there.ask(R.QUERY_CONSUMER_OFFSET, kept)).ext["offset"] == "2"

        assert ok(wire.ask(R.GET_MIN_OFFSET, logical(topic, 1))).ext["offset"] == "0"
        assert ok(wire.ask(R.GET_MAX_OFFSET, logical(topic, 1))).ext["offset"] == "1001"
        first_ms = int(ok(wire.ask(R.GET_EARLIEST_MSG_STORETIME, logical(topic, 1))).ext["timestamp"])
        for since_ms, found in ((first_ms, "0"), (first_ms + 3_600_000, "1001")):
            answer = ok(wire.ask(R.SEARCH_OFFSET_BY_TIMESTAMP, logical(topic, 1, timestamp=since_ms)))
            assert answer.ext["offset"] == found

        answer = ok(pull(wire, topic, 1, 1, group=GROUP, hold_ms=HELD_MS))
        assert bodies(answer) == [b"old 1", b"old 2"]
        assert (answer.ext["nextBeginOffset"], answer.ext["offsetDelta"]) == ("3", "0")
        answer = pull(wire, topic, 1, 3, group=GROUP, hold_ms=HELD_MS)
        assert (answer.code, answer.ext["nextBeginOffset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "1000")
        assert bodies(ok(pull(wire, topic, 1, 1000, group=GROUP))) == [b"new"]

        assert former.stop() == 0
        answer = pull(wire, topic, 1, 1, group=GROUP)
        assert (answer.code, "broker-b" in (answer.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)


def test_the_mapping_is_in_apaches_file_and_is_there_after_a_restart(tmp_path: Path) -> None:
    with servers.standalone(tmp_path) as first, Wire(first.broker_addr) as wire:
        ok(put_mapping(wire, "FileStatic", {0: [item(1)]}))
        ok(put_mapping(wire, "GoneStatic", {0: [item(1)]}))
        ok(wire.ask(R.DELETE_TOPIC_IN_BROKER, TopicHeader(topic="GoneStatic")))
    text = (tmp_path / "store/config/topicQueueMapping.json").read_text()
    assert '"topicQueueMappingInfoMap"' in text
    assert '"hostedQueues":{' in text
    with servers.standalone(tmp_path) as second, Wire(second.broker_addr) as wire:
        assert ok(send(wire, "FileStatic", 0)).ext["queueId"] == "0"
        ok(put_mapping(wire, "FileStatic", {0: [item(1)], 1: [item(2)]}, epoch=2))
        assert ok(send(wire, "FileStatic", 1)).ext["queueOffset"] == "0"
        assert wire.ask(R.GET_TOPIC_CONFIG, TopicHeader(topic="GoneStatic")).code == ResponseCode.TOPIC_NOT_EXIST
