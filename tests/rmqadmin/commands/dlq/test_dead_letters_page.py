"""Runs the commands of ``docs/dead-letters.md`` unchanged and in order, for this test's own group."""

import json

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.names import dlq_topic, retry_topic
from tests.rmqadmin.conftest import Rmqadmin
from tests.rmqadmin.page_lines import run_lines
from tests.support.servers import Fresh, Server, topic_config, until

COUNT = 12


@pytest.fixture
def topics(server: Server, admin: AdminClient, fresh: Fresh) -> tuple[str, str]:
    """A group with twelve dead letters, four of them refunds, and the topic they came from."""
    group, origin = fresh("PageGroup"), fresh("PageOrigin")
    for topic in (origin, dlq_topic(group), retry_topic(group)):
        admin.create_topic(server.broker_addr, topic_config(topic))
    until(lambda: {origin, dlq_topic(group), retry_topic(group)} <= set(admin.topic_list()))
    for number in range(COUNT):
        body = json.dumps({"number": number, "type": "charge" if number % 3 else "refund"}).encode()
        letter = Message(dlq_topic(group), body, properties={"RETRY_TOPIC": origin})
        admin.send_message(server.broker_addr, MessageQueue(letter.topic, "broker-a", 0), letter)
    return group, origin


def test_the_commands_of_the_page(
    rmqadmin: Rmqadmin, server: Server, topics: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    group, origin = topics
    assert len(run_lines(rmqadmin, "docs/dead-letters.md", {"billing": group}, monkeypatch)) == 7

    def numbers(topic: str) -> list[int]:
        with AdminClient(server.namesrv_addr) as admin:
            pulled = admin.pull_message(server.broker_addr, MessageQueue(topic, "broker-a", 0), 0)
        return sorted(json.loads(message.body)["number"] for message in pulled.messages)

    assert numbers(origin) == []
    assert numbers(retry_topic(group)) == list(range(COUNT))
