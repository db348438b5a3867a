"""``docs/health.md`` and ``docs/checks.md``: commands end with the status they state, and their tables are complete."""

import re

import pytest

from rmqadmin.cli import registry
from rmqadmin.core.health.finding import Check
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.names import dlq_topic
from tests.rmqadmin.conftest import Rmqadmin
from tests.rmqadmin.pages.page_lines import ROOT, run_lines
from tests.support.servers import Server, topic_config, until

PAGE = (ROOT / "docs" / "health.md").read_text()
BEHIND = 5


@pytest.fixture(scope="module")
def billing(server: Server) -> None:
    """The page's group: five messages behind, with one dead letter."""
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_group(server.broker_addr, SubscriptionGroupConfig(group_name="billing"))
        for topic, count in (("HealthPage", BEHIND), (dlq_topic("billing"), 1)):
            admin.create_topic(server.broker_addr, topic_config(topic))
            until(lambda topic=topic: topic in admin.topic_list())
            for _ in range(count):
                admin.send_message(server.broker_addr, MessageQueue(topic, "broker-a", 0), Message(topic, b"x"))
        admin.update_consumer_offset(server.broker_addr, "billing", "HealthPage", 0, 0)


@pytest.mark.slow
@pytest.mark.usefixtures("billing")
def test_the_commands_of_the_page_end_as_it_says(rmqadmin: Rmqadmin, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(run_lines(rmqadmin, "docs/health.md", {}, monkeypatch)) == 13


def test_the_page_names_every_check_of_doctor_and_no_other() -> None:
    named = set()
    for cells in re.findall(r"^\| (`[^|]+) \|", PAGE[: PAGE.index("## group lag")], re.MULTILINE):
        named |= set(re.findall(r"`([^`]+)`", cells))
    assert named == set(Check)


def test_the_page_tells_of_every_check_command() -> None:
    page = (ROOT / "docs" / "checks.md").read_text()
    assert all(f"| `{entry.name}` |" in page for entry in registry.group_members("check"))
