"""A broker is killed and the name server is lost while the dashboard is open. Known values stay, with their age, sums
say what they lack, and nothing becomes 0."""

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from tests.rmqadmin.tui.opened import Driver, clients_of, drive, put_cursor
from tests.support import servers
from tests.support.forwarder import Forwarder
from tests.support.servers import Fresh, Server, topic_config

from ..apache import ApacheBroker
from ..cluster import BROKER_NAME, SETTINGS, Cluster

pytestmark = pytest.mark.interop

SECOND = "broker-b"


class Second:
    """A second broker in the cluster, of the same kind."""

    def __init__(self, cluster: Cluster, work: Path):
        self._server: ApacheBroker | Server
        if cluster.name == "apache":
            self._server = ApacheBroker(work, {**SETTINGS, "brokerName": SECOND}, cluster.namesrv_addr)
            self._server.start()
        else:
            self._server = servers.broker(work, cluster.namesrv_addr, SECOND)
        self.addr = self._server.broker_addr

    def kill(self) -> None:
        if isinstance(self._server, ApacheBroker):
            self._server.kill()
        else:
            self._server.stop(signal.SIGKILL)

    def until_registered(self, admin: AdminClient) -> None:
        """Apache's broker may register only 10 s after its start, unless its permissions are set."""

        def is_known() -> bool:
            admin.update_broker_config(self.addr, {"brokerPermission": "6"})
            return SECOND in admin.cluster_info().broker_addr_table

        servers.until(is_known)


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[AdminClient]:
    with AdminClient(cluster.namesrv_addr) as client:
        yield client


@pytest.fixture
def second(cluster: Cluster, admin: AdminClient, tmp_path: Path) -> Iterator[Second]:
    made = Second(cluster, tmp_path)
    try:
        made.until_registered(admin)
        yield made
    finally:
        made.kill()


def line_of(driver: Driver, name: str) -> str:
    return next((line for line in driver.lines if name in line.split()), "")


def test_a_broker_is_killed_and_then_the_name_server_is_lost(
    cluster: Cluster, admin: AdminClient, second: Second, fresh: Fresh
) -> None:
    topic, group = fresh("a-DashboardGone"), fresh("a-DashboardGone")
    for name, addr in ((BROKER_NAME, cluster.broker_addr), (SECOND, second.addr)):
        admin.create_topic(addr, topic_config(topic))
        admin.create_group(addr, SubscriptionGroupConfig(group_name=group))
        admin.send_message(addr, MessageQueue(topic, name, 0), Message(topic, b"x"))
        admin.update_consumer_offset(addr, group, topic, 0, 0)

    async def test(driver: Driver) -> None:
        await driver.press("t")
        await put_cursor(driver, topic)
        await driver.until(lambda: line_of(driver, topic).split()[4:7] == ["2", "2", "2"])
        await driver.press("g")
        await put_cursor(driver, group)
        await driver.until(lambda: line_of(driver, group).split()[1:2] == ["2"])
        await driver.press("enter")
        await driver.until_shown("2 queues, lag 2,")
        await driver.press("c")
        await driver.until(lambda: line_of(driver, SECOND).endswith("active"))

        second.kill()
        await driver.until(lambda: bool(re.search(r"gone \d+( s|m\d+s) ago", line_of(driver, SECOND))))
        await driver.until_shown("2 brokers, 1 gone")
        assert line_of(driver, BROKER_NAME).endswith("active")
        await driver.press("t")
        await driver.until(lambda: line_of(driver, topic).split()[4:7] == ["2", "2", "≥1"])
        await driver.until_shown(f"without {SECOND}, gone")
        await driver.press("g")
        await driver.until_shown("2 queues, lag ≥1,", f"without {SECOND}, ")
        assert line_of(driver, SECOND), "its queue is as it was"
        await driver.press("escape")
        await driver.until(lambda: line_of(driver, group).split()[1:2] == ["≥1"])
        await driver.press("h")
        await driver.until(lambda: "gone" in line_of(driver, f"{SECOND}/0"))

        door.__exit__()
        await driver.until_shown(f"{door.address}  cannot connect to")
        for key, noun, row in (("c", "brokers", BROKER_NAME), ("t", "topics", topic), ("g", "groups", group)):
            await driver.press(key)
            await driver.until_shown("cannot connect", row)
            assert not re.search(rf"\b0 {noun}", driver.text)
        await driver.press("d")
        await driver.until_shown("cannot connect")
        assert not re.search(r"\b0 groups", driver.text)

    with Forwarder() as door:
        door.to = cluster.namesrv_addr
        drive(clients_of(door.address), test, size=(204, 40))
