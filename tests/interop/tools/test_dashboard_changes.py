"""The dashboard's forms on real clusters: a topic and a group are created, changed and deleted, a property is changed,
and one queue of a group is moved."""

from collections.abc import Iterator

import pytest

from rmqadmin.core.topic_and_group_configs import read_topic
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from tests.rmqadmin.tui.forms import close, confirm, fill, set_field
from tests.rmqadmin.tui.opened import Driven, Driver, clients_of, drive, put_cursor
from tests.support.servers import Fresh, topic_config

from ..cluster import BROKER_NAME, Cluster

pytestmark = pytest.mark.interop

SIZE = (120, 40)


@pytest.fixture(autouse=True)
def state_home(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the place of undo files."""
    monkeypatch.setenv("XDG_STATE_HOME", str(cluster.work / "state"))


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[AdminClient]:
    with AdminClient(cluster.namesrv_addr) as client:
        yield client


def driven(cluster: Cluster, test: Driven) -> None:
    drive(clients_of(cluster.namesrv_addr), test, size=SIZE)


def group_of(admin: AdminClient, cluster: Cluster, group: str) -> SubscriptionGroupConfig | None:
    return admin.all_groups(cluster.broker_addr).subscription_group_table.get(group)


def test_a_topic_is_made_changed_and_deleted(cluster: Cluster, admin: AdminClient, fresh: Fresh) -> None:
    before, topic = fresh("a-DashboardForm"), fresh("a-DashboardMade")
    admin.create_topic(cluster.broker_addr, topic_config(before, 4))

    async def test(driver: Driver) -> None:
        await driver.press("t")
        await put_cursor(driver, before)
        await driver.press("n")
        await set_field(driver, "attributes", "+message.type=FIFO")
        await fill(driver, "topic", topic)
        await driver.until_shown("create", "Enter here does it")
        assert read_topic(admin, cluster.broker_addr, topic) is None
        await confirm(driver, "")
        await driver.until_shown("to undo this: rmqadmin apply -f")
        made = read_topic(admin, cluster.broker_addr, topic)
        assert made is not None
        assert (made.read_queue_nums, made.write_queue_nums, made.perm) == (8, 8, 6)
        assert made.attributes == {"message.type": "FIFO"}
        await close(driver)

        await put_cursor(driver, topic)
        await driver.press("e")
        await set_field(driver, "perm", "R")
        await fill(driver, "write", "4")
        await driver.until_shown("write_queue_nums", "RW (6)", "R (4)", f"Type {topic} to go on")
        await confirm(driver, topic)
        await driver.until_shown("to undo this: rmqadmin apply -f")
        changed = read_topic(admin, cluster.broker_addr, topic)
        assert changed is not None
        assert (changed.read_queue_nums, changed.write_queue_nums, changed.perm) == (8, 4, 4)
        assert changed.attributes == {"message.type": "FIFO"}
        await close(driver)

        await put_cursor(driver, topic)
        await driver.press("ctrl+d")
        await driver.until_shown("brings them back", "0 messages would be lost", f"Type {topic} to go on")
        await confirm(driver, topic)
        await driver.until_shown("to undo this: rmqadmin apply -f")
        assert read_topic(admin, cluster.broker_addr, topic) is None
        assert topic not in admin.topic_list()
        await close(driver)
        await driver.until(lambda: f" {topic} " not in driver.text)

    driven(cluster, test)


def test_a_group_is_made_changed_and_deleted_and_one_queue_of_it_moved(
    cluster: Cluster, admin: AdminClient, fresh: Fresh
) -> None:
    topic, before, group = fresh("a-DashboardMoved"), fresh("a-DashboardForm"), fresh("a-DashboardMade")
    addr = cluster.broker_addr
    admin.create_topic(addr, topic_config(topic, 2))
    admin.create_group(addr, SubscriptionGroupConfig(group_name=before))
    for queue_id in range(2):
        admin.send_message(addr, MessageQueue(topic, BROKER_NAME, queue_id), Message(topic, b"x"))

    async def test(driver: Driver) -> None:
        await driver.press("g")
        await put_cursor(driver, before)
        await driver.press("n")
        await set_field(driver, "retry-max-times", "3")
        await fill(driver, "group", group)
        await confirm(driver, "")
        await driver.until_shown("to undo this: rmqadmin apply -f")
        assert (made := group_of(admin, cluster, group)) is not None
        assert made.retry_max_times == 3
        await close(driver)

        await put_cursor(driver, group)
        await driver.press("e")
        await set_field(driver, "consume-broadcast-enable", True)
        await confirm(driver, group)
        await driver.until_shown("to undo this: rmqadmin apply -f")
        assert (changed := group_of(admin, cluster, group)) is not None
        assert (changed.retry_max_times, changed.consume_broadcast_enable) == (3, True)
        await close(driver)

        for queue_id in range(2):
            admin.update_consumer_offset(addr, group, topic, queue_id, 0)
        await put_cursor(driver, group)
        await driver.press("enter")
        await put_cursor(driver, f"{topic}/{BROKER_NAME}/1")
        await driver.press("e")
        await driver.until_shown(f"Reset the offset in queue 1 of {BROKER_NAME}")
        await driver.type("end", into="field-to")
        await driver.press("enter")
        await driver.until_shown("lag in 1 queue: 1 before, 0 after")
        await confirm(driver, group)
        await driver.until_shown("to undo this: rmqadmin resetOffset --undo")
        assert [admin.consumer_offset(addr, group, topic, queue_id) for queue_id in range(2)] == [0, 1]
        await close(driver)

        await driver.press("g")
        await put_cursor(driver, group)
        await driver.press("ctrl+d")
        await set_field(driver, "offsets", True)
        await confirm(driver, group)
        await driver.until_shown("to undo this: rmqadmin apply -f")
        assert group_of(admin, cluster, group) is None

    driven(cluster, test)


def test_a_property_of_a_broker_is_changed_and_read_back(cluster: Cluster, admin: AdminClient) -> None:
    addr, key = cluster.broker_addr, "transactionCheckMax"
    before = admin.broker_config(addr)[key]

    async def test(driver: Driver) -> None:
        await driver.press("c")
        await put_cursor(driver, f"{BROKER_NAME}/0")
        await driver.press("enter", "2")
        await put_cursor(driver, key)
        await driver.press("e")
        await fill(driver, "value", "7")
        await driver.until_shown(before, f"Type {key} to go on")
        await confirm(driver, key)
        await driver.until_shown("to undo this: rmqadmin updateBrokerConfig")
        assert admin.broker_config(addr)[key] == "7"

    try:
        driven(cluster, test)
    finally:
        admin.update_broker_config(addr, {key: before})
