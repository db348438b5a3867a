"""Static topics are refused; those of another broker's store are served as plain ones."""

from pathlib import Path

import pytest

from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.headers.tables import TopicHeader
from tests.rmqserver.broker.golden_play import play
from tests.rmqserver.broker.golden_state import create_topic, fill, ok
from tests.support import servers
from tests.support.golden import exchange
from tests.support.wire import Wire

EVENT = "event=static-topics"
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
    (told,) = [line for line in server.log_file.read_text().splitlines() if EVENT in line]
    assert ("count=1 topics=S " if content == MAPPING else "static-topics-unread") in told
    assert file.read_bytes() == content
