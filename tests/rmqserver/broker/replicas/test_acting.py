"""A slave of ours acts for a master of ours until the master comes back: real processes."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message, SendStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import LockAnswer, LockRequest, SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicRoute
from rmqproto.bodies.statistics import ConsumerOffsetsBody
from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.errors import RocketMQError
from rmqproto.headers.nameserver import MinBrokerIdHeader
from rmqproto.perm import PERM_READ, PERM_WRITE
from rmqproto.wire.fastjson import dumps, loads_untrusted
from rmqserver.broker.replicas.slave_offsets import NOTED_FILE_NAME
from rmqserver.broker.tables.offsets import FILE_NAME
from tests.rmqserver.broker.messaging import pull_header, send
from tests.support import servers
from tests.support.servers import Server, until
from tests.support.wire import Wire

TOPIC, GROUP = "Acted", "ActedGroup"
QUEUE = MessageQueue(TOPIC, "broker-a", 0)
COMMON = (
    "--set", "mappedFileSizeCommitLog=65536", "--set", "enableSlaveActingMaster=true",
    "--set", "syncBrokerMemberGroupPeriod=50", "--set", "flushConsumerOffsetInterval=100",
)  # fmt: skip
MASTER = (*COMMON, "--set", "brokerRole=SYNC_MASTER", "--set", "inSyncReplicas=2", "--set", "slaveTimeout=30000")
SLAVE = (*COMMON, "--set", "brokerRole=SLAVE", "--set", "brokerId=1", "--set", "syncBrokerMetadataPeriod=100")


@dataclass
class Pair:
    directory: Path
    stack: ExitStack
    namesrv: Server
    admin: AdminClient
    master: Server | None = None
    slave: Server | None = None

    def start(self, name: str, *args: str) -> Server:
        return self.stack.enter_context(
            servers.broker(self.directory / name, self.namesrv.namesrv_addr, "broker-a", *args)
        )

    def start_master(self, name: str = "master", *more: str) -> str:
        self.master = self.start(name, *MASTER, *more)
        return self.master.broker_addr

    def start_slave(self, *more: str) -> str:
        self.slave = self.start("slave", *SLAVE, *more)
        return self.slave.broker_addr

    @property
    def master_addr(self) -> str:
        assert self.master is not None
        return self.master.broker_addr

    @property
    def slave_addr(self) -> str:
        assert self.slave is not None
        return self.slave.broker_addr

    def kill_master(self) -> None:
        assert self.master is not None
        self.master.stop(signal.SIGKILL)
        until(lambda: self.is_shown({0: self.slave_addr}, PERM_READ))

    def route(self) -> TopicRoute | None:
        try:
            return self.admin.topic_route(TOPIC)
        except RocketMQError:
            return None

    def is_shown(self, addrs: dict[int, str], perm: int) -> bool:
        now = self.route()
        return now is not None and now.broker_datas[0].broker_addrs == addrs and now.queue_datas[0].perm == perm

    def until_whole(self) -> None:
        until(lambda: self.is_shown({0: self.master_addr, 1: self.slave_addr}, PERM_READ | PERM_WRITE))

    def until_taken(self) -> None:
        """Waits until the master, which looks now and then, knows of its slave."""

        def is_taken() -> bool:
            try:
                return self.send(b"first", 3) is SendStatus.SEND_OK
            except RocketMQError:
                return False

        until(is_taken)

    def send(self, body: bytes, queue_id: int = 0) -> SendStatus:
        queue = MessageQueue(TOPIC, "broker-a", queue_id)
        return self.admin.send_message(self.master_addr, queue, Message(TOPIC, body)).status

    def bodies(self, addr: str) -> list[bytes]:
        found: list[bytes] = []
        while messages := self.admin.pull_message(addr, QUEUE, len(found)).messages:
            found += [message.body for message in messages]
        return found

    def committed(self, addr: str, queue_id: int = 0) -> int | None:
        try:
            return self.admin.consumer_offset(addr, GROUP, TOPIC, queue_id)
        except RocketMQError:
            return None

    def saved(self, name: str, file_name: str) -> dict[int, int]:
        """The group's offsets in a broker's file, by queue; nothing while the file is being replaced."""
        try:
            text = (self.directory / name / "store/config" / file_name).read_bytes()
        except FileNotFoundError:
            return {}
        return loads_untrusted(text, ConsumerOffsetsBody).offset_table.get(f"{TOPIC}@{GROUP}", {})

    def is_acting(self) -> bool:
        """Judged by the slave's last log line about its part; at first there is none."""
        assert self.slave is not None
        return re.findall(r"event=(acting-\S+)", self.slave.log_file.read_text())[-1:] == ["acting-for-master"]

    def commit(self, addr: str, queue_offset: int, queue_id: int = 0) -> None:
        self.admin.update_consumer_offset(addr, GROUP, TOPIC, queue_id, queue_offset)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    directory = tmp_path_factory.mktemp("acting")
    settings = ("--set", "supportActingMaster=true", "--set", "notifyMinBrokerIdChanged=true")
    scan = ("--set", "scanNotActiveBrokerInterval=50")
    with ExitStack() as stack:
        namesrv = stack.enter_context(servers.namesrv(directory / "namesrv", *settings, *scan))
        admin = stack.enter_context(AdminClient(namesrv.namesrv_addr, timeout_s=60))
        made = Pair(directory, stack, namesrv, admin)
        made.start_master()
        made.start_slave()
        admin.create_group(made.master_addr, SubscriptionGroupConfig(group_name=GROUP))
        until(lambda: len(admin.ha_status(made.master_addr).ha_connection_info) == 1)
        made.until_taken()
        assert {made.send(b"%d" % (n // 4), n % 4) for n in range(32)} == {SendStatus.SEND_OK}
        for queue_id, queue_offset in ((0, 2), (1, 7), (2, 3)):
            made.commit(made.master_addr, queue_offset, queue_id)
        made.until_whole()
        until(lambda: made.saved("master", FILE_NAME) == {0: 2, 1: 7, 2: 3})  # or a kill would lose them
        until(lambda: [made.committed(made.slave_addr, queue_id) for queue_id in range(3)] == [2, 7, 3])
        yield made


def test_a_slave_acts_and_its_master_takes_over_what_was_committed(pair: Pair) -> None:
    with Wire(pair.slave_addr) as wire:
        pair.kill_master()
        until(lambda: wire.ask(R.PULL_MESSAGE, pull_header(TOPIC)).code == ResponseCode.SUCCESS)
        assert pair.bodies(pair.slave_addr) == [b"%d" % number for number in range(8)]
        answer = send(wire, TOPIC)
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "messages are put to the slave" in (answer.remark or "")
        answer = wire.ask(R.CONSUMER_SEND_MSG_BACK, {"offset": "0", "group": GROUP, "delayLevel": "0"})
        assert (answer.code, answer.remark) == (1, "no master available along with 127.0.0.1")
        wanted = LockRequest(consumer_group=GROUP, client_id="me", mq_set=[QUEUE])
        answer = wire.ask(R.LOCK_BATCH_MQ, {}, dumps(wanted))
        assert loads_untrusted(answer.body, LockAnswer).lock_ok_mq_set == [QUEUE]
    assert pair.admin.max_offset(pair.slave_addr, TOPIC, 0) == 8
    pair.commit(pair.slave_addr, 6)
    pair.commit(pair.slave_addr, 1, 1)  # a step back, so the master's own counts as newer
    pair.start_master()
    pair.until_whole()
    assert [pair.committed(pair.master_addr, queue_id) for queue_id in range(3)] == [6, 7, 3]
    pair.until_taken()
    assert pair.send(b"more") is SendStatus.SEND_OK, "the slave follows again"
    assert pair.bodies(pair.master_addr)[-1] == b"more"
    until(lambda: pair.committed(pair.slave_addr, 1) == 7)
    until(lambda: pair.bodies(pair.slave_addr)[-1] == b"more")  # clients that have not heard of the master read on here
    until(lambda: not pair.is_acting())


def test_who_has_not_heard_that_the_master_is_back_commits_to_it_all_the_same(pair: Pair) -> None:
    pair.commit(pair.slave_addr, 8)
    until(lambda: pair.committed(pair.master_addr) == 8)
    pair.commit(pair.slave_addr, 5)
    pair.commit(pair.master_addr, 9)
    until(lambda: pair.committed(pair.slave_addr) == 9)
    assert pair.committed(pair.master_addr) == 9, "what is behind counts for nothing"


def test_what_was_committed_to_an_acting_slave_survives_its_death(pair: Pair) -> None:
    pair.kill_master()
    pair.commit(pair.slave_addr, 4, 3)
    until(lambda: pair.saved("slave", NOTED_FILE_NAME).get(3) == 4)
    assert pair.slave is not None
    pair.slave.stop(signal.SIGKILL)
    pair.start_master()
    assert pair.committed(pair.master_addr, 3) is None
    pair.start_slave()
    until(lambda: pair.committed(pair.master_addr, 3) == 4)
    pair.until_whole()


def test_a_second_slave_knows_what_the_master_knew_and_the_rest_comes_again(pair: Pair) -> None:
    """As with Apache's slaves: each has its master's offsets, and no other slave's. Offsets that were committed to the
    first slave reach the master when that slave is back."""
    second = pair.start("second", *COMMON, "--set", "brokerRole=SLAVE", "--set", "brokerId=2", "--set",
        "syncBrokerMetadataPeriod=100")  # fmt: skip
    before = pair.committed(pair.master_addr, 1)
    assert before is not None
    until(lambda: pair.committed(second.broker_addr, 1) == before)
    links = lambda: pair.admin.ha_status(pair.master_addr).ha_connection_info  # noqa: E731
    until(lambda: [link.diff for link in links()] == [0, 0])  # the log and the offsets arrive separately
    end = pair.admin.max_offset(pair.master_addr, TOPIC, 1)
    assert pair.master is not None
    assert pair.slave is not None
    pair.master.stop(signal.SIGKILL)
    until(lambda: pair.is_shown({0: pair.slave_addr, 2: second.broker_addr}, PERM_READ))
    pair.commit(pair.slave_addr, end, 1)
    until(lambda: pair.saved("slave", NOTED_FILE_NAME).get(1) == end)
    pair.slave.stop(signal.SIGKILL)
    until(lambda: pair.is_shown({0: second.broker_addr}, PERM_READ))
    assert pair.committed(second.broker_addr, 1) == before < end
    header = pull_header(TOPIC, queue_id=1, queue_offset=before)
    with Wire(second.broker_addr) as wire:
        until(lambda: wire.ask(R.PULL_MESSAGE, header).code == ResponseCode.SUCCESS)
    pair.start_slave()
    pair.start_master()
    until(lambda: pair.committed(pair.master_addr, 1) == end)
    until(lambda: pair.committed(second.broker_addr, 1) == end)
    second.stop()
    pair.until_whole()


def test_a_master_that_was_frozen_hears_how_far_consumers_are_before_it_is_shown_again(pair: Pair) -> None:
    for server in (pair.master, pair.slave):
        assert server is not None
        server.stop()
    newer = ("--set", "compatibleWithOldNameSrv=false")  # and both ask for the member group itself
    pair.start_slave(*newer)
    soon = ("--set", "brokerNotActiveTimeoutMillis=1000", "--set", "brokerHeartbeatInterval=50")
    pair.start_master("master", *soon, *newer)
    pair.until_whole()
    assert pair.master is not None
    os.kill(pair.master.pid, signal.SIGSTOP)
    try:
        until(lambda: pair.is_shown({0: pair.slave_addr}, PERM_READ))
        pair.commit(pair.slave_addr, 7, 2)
    finally:
        os.kill(pair.master.pid, signal.SIGCONT)
    pair.until_whole()
    assert pair.committed(pair.master_addr, 2) == 7


def test_a_sync_master_takes_nothing_that_would_wait_for_a_slave_that_is_away(pair: Pair) -> None:
    assert pair.slave is not None
    before = pair.admin.max_offset(pair.master_addr, TOPIC, 3)
    pair.slave.stop()

    def refusal() -> str:
        try:
            pair.send(b"waits", 3)
        except RocketMQError as error:
            return str(error)
        return ""

    until(lambda: not pair.admin.ha_status(pair.master_addr).ha_connection_info)
    assert "in-sync replicas not enough" in refusal()
    assert pair.admin.max_offset(pair.master_addr, TOPIC, 3) == before
    alone = Message(TOPIC, b"alone", properties={"WAIT": "false"})
    queue = MessageQueue(TOPIC, "broker-a", 3)
    assert pair.admin.send_message(pair.master_addr, queue, alone).status is SendStatus.SEND_OK
    pair.start_slave()
    until(lambda: not refusal())
    pair.until_whole()


def test_a_pull_of_what_only_the_master_has_waits(pair: Pair) -> None:
    pair.kill_master()
    with Wire(pair.slave_addr) as wire:
        until(lambda: wire.ask(R.PULL_MESSAGE, pull_header(TOPIC)).code == ResponseCode.SUCCESS)
        header = pull_header(TOPIC, queue_offset=1000)
        answer = wire.ask(R.PULL_MESSAGE, header)
        assert (answer.code, answer.ext["nextBeginOffset"]) == (ResponseCode.PULL_NOT_FOUND, "1000")
    pair.start_master()
    pair.until_whole()


def test_a_master_with_less_than_its_slave_stays_away(pair: Pair) -> None:
    pair.kill_master()
    server = pair.start("other", *MASTER)
    until(lambda: "event=not-online-yet" in server.log_tail())
    assert "make the slave the master" in server.log_tail()
    assert pair.is_shown({0: pair.slave_addr}, PERM_READ)
    with Wire(server.broker_addr) as wire:  # clients that knew it before may still connect
        assert send(wire, TOPIC).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert wire.ask(R.GET_ALL_CONSUMER_OFFSET).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert pair.slave is not None
        port = pair.slave_addr.rpartition(":")[2]
        pair.slave.stop()  # as an operator does before making it the master
        until(lambda: "it is away now" in server.log_tail())
        assert send(wire, TOPIC).code == ResponseCode.SERVICE_NOT_AVAILABLE
        pair.start_slave("--port", port)
    assert server.stop() == 0
    forced = pair.start("other", *MASTER, "--set", "skipPreOnline=true")
    until(lambda: pair.admin.cluster_info().broker_addr_table["broker-a"].broker_addrs.get(0) == forced.broker_addr)
    forced.stop()
    pair.start_master()
    pair.until_whole()


def test_who_says_that_the_smallest_id_is_another_is_not_believed(pair: Pair) -> None:
    until(lambda: not pair.is_acting())
    with Wire(pair.slave_addr) as wire:
        header = MinBrokerIdHeader(min_broker_id=1, broker_name="broker-a", offline_broker_addr=pair.master_addr)
        assert wire.ask(R.NOTIFY_MIN_BROKER_ID_CHANGE, header).code == 0
        pair.until_taken()
        assert not pair.is_acting()
        pair.kill_master()
        until(pair.is_acting)
