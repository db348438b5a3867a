"""Runs the commands of ``docs/messages.md``, ``docs/sending.md`` and ``docs/dead-letters.md`` unchanged and in order,
on topics and a group of these tests' own."""

import json
from pathlib import Path
from typing import Any

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.names import dlq_topic, retry_topic
from tests.rmqadmin.conftest import Ran, Rmqadmin
from tests.rmqadmin.pages.page_lines import run_lines
from tests.support.servers import Fresh, Server, topic_config, until

PAGES = ("docs/messages.md", "docs/sending.md")
LETTERS = 12


@pytest.fixture
def names(fresh: Fresh) -> dict[str, str]:
    """Maps the page's names to two topics, which the page makes, and to a key."""
    return {"OrderTopic": fresh("PageOrders"), "CopyTopic": fresh("PageCopies"), "ORDER-1": fresh("PAGE-ORDER")}


@pytest.mark.slow
def test_the_commands_of_the_pages(
    rmqadmin: Rmqadmin,
    server: Server,
    admin: AdminClient,
    names: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)

    def until_indexed(*args: str, **wanted: Any) -> Ran:
        """The index lags behind the log."""
        ran = rmqadmin(*args, **wanted)
        if args[:2] == ("msg", "send") and names["ORDER-1"] in args:
            until(lambda: len(admin.query_message(server.broker_addr, names["OrderTopic"], names["ORDER-1"])) == 2)
        return ran

    assert sum(len(run_lines(until_indexed, page, names, monkeypatch)) for page in PAGES) >= 22
    assert (tmp_path / "order.json").read_bytes() == b'{"order":{"id":42}}'
    assert len((tmp_path / "bodies.bin").read_bytes()) == len(b'{"order":{"id":42}}refund') + 2 * 4
    ends = [admin.max_offset(server.broker_addr, names["CopyTopic"], queue_id) for queue_id in range(8)]
    assert sum(ends) == 3


@pytest.fixture
def topics(server: Server, admin: AdminClient, fresh: Fresh) -> tuple[str, str]:
    """A group with twelve dead letters, four of them refunds, and the topic they came from."""
    group, origin = fresh("PageGroup"), fresh("PageOrigin")
    for topic in (origin, dlq_topic(group), retry_topic(group)):
        admin.create_topic(server.broker_addr, topic_config(topic))
    until(lambda: {origin, dlq_topic(group), retry_topic(group)} <= set(admin.topic_list()))
    for number in range(LETTERS):
        body = json.dumps({"number": number, "type": "charge" if number % 3 else "refund"}).encode()
        letter = Message(dlq_topic(group), body, properties={"RETRY_TOPIC": origin})
        admin.send_message(server.broker_addr, MessageQueue(letter.topic, "broker-a", 0), letter)
    return group, origin


def test_the_commands_of_the_page_of_dead_letters(
    rmqadmin: Rmqadmin, server: Server, topics: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    group, origin = topics
    assert len(run_lines(rmqadmin, "docs/dead-letters.md", {"billing": group}, monkeypatch)) == 7

    def numbers(topic: str) -> list[int]:
        with AdminClient(server.namesrv_addr) as admin:
            pulled = admin.pull_message(server.broker_addr, MessageQueue(topic, "broker-a", 0), 0)
        return sorted(json.loads(message.body)["number"] for message in pulled.messages)

    assert numbers(origin) == []
    assert numbers(retry_topic(group)) == list(range(LETTERS))
