"""Runs the commands of ``docs/messages.md``, ``docs/sending.md`` and ``docs/dead-letters.md`` unchanged and in order,
on topics and a group of these tests' own."""

import json
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.names import dlq_topic, retry_topic
from tests.rmqadmin.conftest import Rmqadmin
from tests.rmqadmin.pages.page_lines import run_lines
from tests.support.servers import Fresh, Server, topic_config, until

PAGES = ("docs/messages.md", "docs/sending.md")
LETTERS = 12


@pytest.fixture
def names(server: Server, admin: AdminClient, fresh: Fresh) -> dict[str, str]:
    """Maps the page's names to two topics, one of them with messages, and to a key."""
    found = {"OrderTopic": fresh("PageOrders"), "CopyTopic": fresh("PageCopies"), "ORDER-1": fresh("PAGE-ORDER")}
    for topic in (found["OrderTopic"], found["CopyTopic"]):
        admin.create_topic(server.broker_addr, topic_config(topic, 2))
    until(lambda: set(found.values()) - set(admin.topic_list()) == {found["ORDER-1"]})
    for at in range(30):
        message = Message(
            found["OrderTopic"], b'{"order":{"id":%d},"text":"Refund"}' % at, tags="paid" if at % 2 else "new",
            keys=found["ORDER-1"], properties={"region": "eu", "price": "120"},
        )  # fmt: skip
        queue = MessageQueue(message.topic, "broker-a", at % 2)
        admin.send_message(server.broker_addr, queue, message)
    until(lambda: len(admin.query_message(server.broker_addr, found["OrderTopic"], found["ORDER-1"])) == 30)
    return found


@pytest.mark.slow
def test_the_commands_of_the_pages(
    rmqadmin: Rmqadmin, server: Server, names: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # This test has no order 42.
    meant = names | {"id=42": "id=7"}
    assert sum(len(run_lines(rmqadmin, page, meant, monkeypatch)) for page in PAGES) >= 20
    assert (tmp_path / "order.json").read_bytes() == b'{"order":{"id":0},"text":"Refund"}'
    assert len((tmp_path / "bodies.bin").read_bytes()) > 30 * 34
    with AdminClient(server.namesrv_addr) as admin:
        ends = [admin.max_offset(server.broker_addr, names["CopyTopic"], queue_id) for queue_id in (0, 1)]
    assert ends == [16, 15]


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
