"""A real slave at our master, and ours at a real one: the whole log is copied, a producer waits for the slave, and the
former slave serves alone."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message, SendStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.message.properties import PRODUCER_SEQ
from tests.support import servers
from tests.support.processes import free_ports
from tests.support.servers import Server, until

from ..apache import ApacheBroker, ApacheRocketMQ
from ..cluster import BROKER_NAME, SETTINGS

pytestmark = pytest.mark.interop

FILES = {"mappedFileSizeCommitLog": str(1 << 18)}
MASTER = {**SETTINGS, **FILES, "brokerRole": "SYNC_MASTER", "inSyncReplicas": "2", "brokerIP2": "127.0.0.1"}
SLAVE = {**SETTINGS, **FILES, "brokerRole": "SLAVE", "brokerId": "1", "slaveReadEnable": "true"}
QUEUES = 4
COUNT = 200
"""Messages of 3 KB each, more than one log file."""


def our_broker(directory: Path, settings: dict[str, str], namesrv_addr: str, port: int) -> Server:
    directory.mkdir(parents=True, exist_ok=True)
    given = [part for setting in settings.items() for part in ("--set", "=".join(setting))]
    args = ("broker", "--namesrv", namesrv_addr, "--port", str(port), "--data", directory / "store", *given)
    return Server(*args, log_file=directory / "log")


@dataclass
class Pair:
    admin: AdminClient
    master_addr: str
    slave_addr: str = ""

    def send(self, topic: str, number: int, *, waits: bool) -> SendStatus:
        """Sends with the sequence number that our producer would add. To Apache's brokers it is a property like any
        other."""
        properties = {PRODUCER_SEQ: f"pair:0:{number // QUEUES}"} | ({} if waits else {"WAIT": "false"})
        message = Message(topic, b"%d" % number * 1000, properties=properties)
        return self.admin.send_message(
            self.master_addr, MessageQueue(topic, BROKER_NAME, number % QUEUES), message
        ).status

    def until_copied(self) -> None:
        def is_copied() -> bool:
            links = self.admin.ha_status(self.master_addr).ha_connection_info
            return bool(links) and links[0].diff == 0

        until(is_copied)

    def until_known(self, topic: str) -> None:
        """Waits until the slave knows the topic. An Apache slave learns of a topic that is younger than itself only a
        minute after its start."""
        until(lambda: topic in self.admin.all_topics(self.slave_addr).topic_config_table)

    def bodies(self, addr: str, topic: str, queue_id: int) -> list[bytes]:
        found: list[bytes] = []
        at = self.admin.min_offset(addr, topic, queue_id)
        while messages := self.admin.pull_message(addr, MessageQueue(topic, BROKER_NAME, queue_id), at).messages:
            found += [message.body for message in messages]
            at = messages[-1].queue_offset + 1
        return found


def test_a_real_slave_follows_our_master(tmp_path: Path) -> None:
    with (
        servers.namesrv(tmp_path / "namesrv") as namesrv,
        our_broker(tmp_path / "master", MASTER, namesrv.namesrv_addr, free_ports()[1]) as master,
        AdminClient(namesrv.namesrv_addr) as admin,
    ):
        pair = Pair(admin, master.broker_addr)
        for number in range(COUNT):
            pair.send("Copied", number, waits=False)
        with ApacheBroker(tmp_path / "slave", SLAVE, namesrv.namesrv_addr) as slave:
            pair.slave_addr = slave.broker_addr
            pair.until_copied()
            assert {pair.send("Copied", COUNT + number, waits=True) for number in range(8)} == {SendStatus.SEND_OK}
            pair.until_known("Copied")
            for queue_id in range(QUEUES):
                wanted = [b"%d" % number * 1000 for number in range(queue_id, COUNT + 8, QUEUES)]
                assert pair.bodies(slave.broker_addr, "Copied", queue_id) == wanted, "with its first file"
            slave.kill()
            assert pair.send("Copied", COUNT + 8, waits=True) is SendStatus.FLUSH_SLAVE_TIMEOUT


def test_our_slave_follows_no_real_master_that_has_lost_what_it_has(tmp_path: Path) -> None:
    """The master loses the end of its log, as in a power cut, then writes as much again at once, so it is ahead when
    the slave finds it."""
    settings = MASTER | {"brokerRole": "ASYNC_MASTER", "inSyncReplicas": "1"}
    with (
        servers.namesrv(tmp_path / "namesrv") as namesrv,
        ApacheBroker(tmp_path / "master", settings, namesrv.namesrv_addr) as master,
        our_broker(tmp_path / "slave", SLAVE, namesrv.namesrv_addr, free_ports()[1]) as slave,
        AdminClient(namesrv.namesrv_addr, timeout_s=60) as admin,
    ):
        pair = Pair(admin, master.broker_addr, slave.broker_addr)

        def send(first: int, count: int) -> None:
            for number in range(first, first + count):
                assert pair.send("Copied", number, waits=False) is SendStatus.SEND_OK

        def end() -> int:
            return admin.ha_status(slave.broker_addr).ha_client_runtime_info.max_offset

        send(0, 8)
        pair.until_copied()
        master.kill()
        shutil.copytree(master.store_dir, tmp_path / "before")
        master.start()
        send(100, 8)
        pair.until_copied()
        had = end()
        master.kill()
        shutil.rmtree(master.store_dir)
        (tmp_path / "before").rename(master.store_dir)
        master.start()
        send(1000, 40)
        until(lambda: "event=other-log" in slave.log_tail())
        assert end() == had


@pytest.fixture
def apache(tmp_path: Path) -> Iterator[ApacheRocketMQ]:
    with ApacheRocketMQ(tmp_path / "apache", MASTER) as running:
        yield running


def test_our_slave_follows_a_real_master_and_takes_its_place(apache: ApacheRocketMQ, tmp_path: Path) -> None:
    port = free_ports()[1]
    with AdminClient(apache.namesrv_addr) as admin:
        pair = Pair(admin, apache.broker_addr)
        with our_broker(tmp_path / "slave", SLAVE, apache.namesrv_addr, port) as slave:
            pair.slave_addr = slave.broker_addr
            admin.create_group(apache.broker_addr, SubscriptionGroupConfig(group_name="LaterGroup"))
            pair.until_copied()
            for number in range(COUNT):
                pair.send("Copied", number, waits=number > COUNT - 8)
            admin.update_consumer_offset(apache.broker_addr, "LaterGroup", "Copied", 1, 7)
            pair.until_copied()
            pair.until_known("Copied")
            until(lambda: admin.consumer_offset(slave.broker_addr, "LaterGroup", "Copied", 1) == 7)
            wanted = {queue_id: pair.bodies(apache.broker_addr, "Copied", queue_id) for queue_id in range(QUEUES)}
            assert sum(map(len, wanted.values())) == COUNT
            for queue_id, bodies in wanted.items():
                until(lambda: pair.bodies(slave.broker_addr, "Copied", queue_id) == bodies)  # noqa: B023
    with servers.namesrv(tmp_path / "namesrv") as namesrv:
        alone = {**SETTINGS, **FILES}
        with (
            our_broker(tmp_path / "slave", alone, namesrv.namesrv_addr, port) as server,
            AdminClient(namesrv.namesrv_addr) as admin,
        ):
            pair = Pair(admin, server.broker_addr)
            assert {queue_id: pair.bodies(server.broker_addr, "Copied", queue_id) for queue_id in wanted} == wanted
            assert pair.send("Copied", 1, waits=True) is SendStatus.SEND_OK
            assert pair.bodies(server.broker_addr, "Copied", 1) == wanted[1], "the Apache master's log says that it is"
            assert pair.send("Copied", COUNT + 1, waits=True) is SendStatus.SEND_OK
            assert len(pair.bodies(server.broker_addr, "Copied", 1)) == COUNT // QUEUES + 1
