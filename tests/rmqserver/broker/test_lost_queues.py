"""What a start says of a store whose queues or topics are not as its tables say."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.headers.tables import TopicHeader
from tests.rmqserver.broker.golden_play import play
from tests.rmqserver.broker.golden_state import commit, create_group, create_topic, fill, ok
from tests.support import servers
from tests.support.golden import exchange
from tests.support.wire import Wire

EVENT = "event=queues-missing"
UNLISTED = "event=topics-unlisted"


@pytest.mark.parametrize("knows_ends", [True, False], ids=["ours", "another's"])
@pytest.mark.parametrize("lost", [["T"], ["T", "U"]], ids=["one", "all"])
def test_a_topic_without_consume_queues_is_made_again_or_told(
    tmp_path: Path, lost: list[str], knows_ends: bool
) -> None:
    """They used to be taken for empty without a word. A broker of ours that stops notes where the queues end; if no
    such note is there, the start makes them again only if all are gone."""
    with servers.standalone(tmp_path) as server, Wire(server.broker_addr) as wire:
        create_group(wire, "g")
        for topic in ("T", "U"):
            create_topic(wire, topic, 1)
            fill(wire, topic, (3,))
            commit(wire, "g", topic, [2])
    assert server.stop() == 0
    assert not {EVENT, UNLISTED} & set(server.log_file.read_text().split())
    for topic in lost:
        shutil.rmtree(tmp_path / "store/consumequeue" / topic)
    if not knows_ends:
        (tmp_path / "store/queueEnds").unlink()
    with servers.standalone(tmp_path) as server, Wire(server.broker_addr) as wire:
        end = ok(wire.ask(R.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"})).ext["offset"]
    told = [line for line in server.log_file.read_text().splitlines() if EVENT in line]
    is_lost = lost == ["T"] and not knows_ends
    assert (end, len(told)) == (("0", 1) if is_lost else ("3", 0))
    assert all("topic=T group=g read_to=2" in line for line in told)


@pytest.mark.parametrize("content", [None, b"{}"], ids=["missing", "empty"])
def test_topics_that_the_table_does_not_name_are_told(tmp_path: Path, content: bytes | None) -> None:
    """Their messages used to be hidden without a word. They can be read once the topic is created again."""
    with servers.standalone(tmp_path) as server, Wire(server.broker_addr) as wire:
        create_topic(wire, "T", 1)
        fill(wire, "T", (3,))
    assert server.stop() == 0
    for path in (tmp_path / "store/config").glob("topics.json*"):
        path.unlink() if content is None else path.write_bytes(content)
    with servers.standalone(tmp_path) as server, Wire(server.broker_addr) as wire:
        create_topic(wire, "T", 1)
        assert ok(wire.ask(R.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"})).ext["offset"] == "3"
    told = [line for line in server.log_file.read_text().splitlines() if UNLISTED in line]
    assert len(told) == 1
    assert "count=1 topics=T " in told[0]


STATIC = "event=static-topics"
MAPPING = (
    b'{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":1},"topicQueueMappingInfoMap":{'
    b'"S":{"bname":"broker-a","currIdMap":{},"dirty":false,"epoch":1,"hostedQueues":{0:[{"bname":"broker-a",'
    b'"endOffset":-1,"gen":0,"logicOffset":0,"queueId":0,"startOffset":0,"timeOfEnd":-1,"timeOfStart":-1}]},'
    b'"scope":"__global__","topic":"S","totalQueues":1},"Deleted":{"bname":"broker-a","topic":"Deleted"}}}'
)


def test_a_mapping_is_refused_with_what_to_do_and_changes_nothing(tmp_path: Path) -> None:
    """With the requests of Apache's updateStaticTopic, as they were recorded."""
    with servers.standalone(tmp_path, "--set", "brokerName=broker-b") as server, Wire(server.broker_addr) as wire:
        play(wire, "351-GET_TOPIC_CONFIG/06")
        wire.send(exchange("513-UPDATE_AND_CREATE_STATIC_TOPIC/01").request)
        answer = wire.receive()
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert "static topics are not served by this broker: create a plain topic (updateTopic)" in (
            answer.remark or ""
        )
        found = wire.ask(R.GET_TOPIC_CONFIG, TopicHeader(topic="StaticTopic"))
        assert found.code == ResponseCode.TOPIC_NOT_EXIST
    assert not (tmp_path / "store/config/topicQueueMapping.json").exists()


@pytest.mark.parametrize("content", [MAPPING, b"no table"], ids=["apaches", "damaged"])
def test_a_store_with_static_topics_is_served_and_says_which_they_are(tmp_path: Path, content: bytes) -> None:
    with servers.standalone(tmp_path) as server, Wire(server.broker_addr) as wire:
        create_topic(wire, "S", 1)
        fill(wire, "S", (3,))
    assert server.stop() == 0
    file = tmp_path / "store/config/topicQueueMapping.json"
    file.write_bytes(content)
    with servers.standalone(tmp_path) as server, Wire(server.broker_addr) as wire:
        assert ok(wire.ask(R.GET_MAX_OFFSET, {"topic": "S", "queueId": "0", "lo": "true"})).ext["offset"] == "3"
    assert server.stop() == 0
    (told,) = [line for line in server.log_file.read_text().splitlines() if STATIC in line]
    assert ("count=1 topics=S " if content == MAPPING else "static-topics-unread") in told
    assert file.read_bytes() == content
