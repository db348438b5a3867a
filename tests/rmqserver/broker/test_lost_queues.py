"""Consume queues and topics that are gone are noticed at the start."""

import shutil
from pathlib import Path

import pytest

from rmqproto.codes import RequestCode as R
from tests.rmqserver.broker.golden_state import commit, create_group, create_topic, fill, ok
from tests.support import servers
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
