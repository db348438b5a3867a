"""Messages that a producer was told are stored (0), and what is left of them when the master is killed or its machine
is lost: the cells of the table in ``docs/durability.md`` that no other test shows."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message, SendStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.errors import RefusedError
from tests.support import servers
from tests.support.broker_set import BROKER_NAME, PROBE, BrokerSet, set_under
from tests.support.servers import Server, all_of, until

pytestmark = pytest.mark.slow

QUEUE = MessageQueue("Promised", "broker-a", 0)
COUNT = 30


class Mode(NamedTuple):
    settings: tuple[str, ...]
    properties: dict[str, str]
    alone: SendStatus
    """What a producer is told while the slave is away."""


_COPIED = ("--set", "brokerRole=SYNC_MASTER", "--set", "inSyncReplicas=2", "--set", "slaveTimeout=30000")
MODES = {
    "WAIT=false": Mode(_COPIED, {"WAIT": "false"}, SendStatus.SEND_OK),
    "flush async": Mode(("--flush", "async"), {}, SendStatus.SEND_OK),
    "flush sync": Mode(("--flush", "sync"), {}, SendStatus.SEND_OK),
    "a slave has it": Mode(_COPIED, {}, SendStatus.FLUSH_SLAVE_TIMEOUT),
}
of_each_mode = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)


@dataclass
class Pair:
    directory: Path
    stack: ExitStack
    namesrv: Server
    admin: AdminClient

    def broker(self, name: str, *args: str) -> Server:
        return self.stack.enter_context(
            servers.broker(self.directory / name, self.namesrv.namesrv_addr, "broker-a", *args)
        )

    def slave(self) -> Server:
        return self.broker("slave", "--set", "brokerRole=SLAVE", "--set", "brokerId=1")

    def send(self, master: Server, mode: Mode, word: str, count: int = COUNT) -> tuple[list[bytes], set[SendStatus]]:
        bodies = [f"{word} {number}".encode() for number in range(count)]
        messages = [Message("Promised", body, properties=mode.properties) for body in bodies]
        return bodies, {self.admin.send_message(master.broker_addr, QUEUE, one).status for one in messages}

    def until_copied(self, master: Server) -> None:
        until(lambda: [one.diff for one in self.admin.ha_status(master.broker_addr).ha_connection_info] == [0])

    def bodies(self, server: Server) -> list[bytes]:
        return [message.body for message in all_of(self.admin, server.broker_addr, QUEUE)]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as stack:
        namesrv = stack.enter_context(servers.namesrv(tmp_path / "namesrv"))
        admin = stack.enter_context(AdminClient(namesrv.namesrv_addr, timeout_s=60))
        yield Pair(tmp_path, stack, namesrv, admin)


@of_each_mode
def test_a_killed_master_has_all_that_it_told(pair: Pair, mode: Mode) -> None:
    master, _ = pair.broker("master", *mode.settings), pair.slave()
    sent, told = pair.send(master, mode, "told")
    assert told == {SendStatus.SEND_OK}
    master.stop(signal.SIGKILL)
    assert pair.bodies(pair.broker("master", *mode.settings)) == sent


@of_each_mode
def test_of_a_lost_machine_is_left_what_its_slave_has(pair: Pair, mode: Mode) -> None:
    """In the mode that answers 0 only after the copy, that is every acknowledged message."""
    master, slave = pair.broker("master", *mode.settings), pair.slave()
    copied, told = pair.send(master, mode, "copied")
    assert told == {SendStatus.SEND_OK}
    if mode.alone is SendStatus.SEND_OK:
        pair.until_copied(master)  # no producer waited for that
    until(lambda: "Promised" in pair.admin.all_topics(slave.broker_addr).topic_config_table)
    slave.stop()
    pair.admin.update_broker_config(master.broker_addr, {"slaveTimeout": "10"})
    assert pair.send(master, mode, "alone", 3)[1] == {mode.alone}
    master.stop(signal.SIGKILL)
    promoted = pair.broker("slave", "--set", "brokerRole=ASYNC_MASTER", "--set", "brokerId=0")
    assert pair.bodies(promoted) == copied


# --- under controllers -----------------------------------------------------------------------------------------------

StartSet = Callable[..., BrokerSet]


@pytest.fixture
def two(tmp_path: Path) -> Iterator[StartSet]:
    """Starts two brokers with these settings, both in sync, under a controller that elects. The first is the master."""
    scans = ("--set", "scanNotActiveBrokerInterval=300", "--set", "scanInactiveMasterInterval=300")
    with (
        servers.controller(tmp_path / "controller", *scans) as controller,
        set_under(tmp_path, controller.controller_addr) as made,
    ):

        def start(**settings: str) -> BrokerSet:
            made.start(1, **settings)
            until(lambda: made.takes(1))  # so the other one gets its topic
            made.join(2, **settings)
            return made

        yield start


def kept(found: BrokerSet, number: int) -> list[bytes]:
    """The bodies in order, uncompressed."""
    stored = all_of(found.admin, found.brokers[number].broker_addr, MessageQueue("Kept", BROKER_NAME, 0))
    return [body for message in stored if (body := message.plain_body()) != PROBE]


def test_what_the_elected_one_lacks_is_lost_where_the_master_alone_is_asked(two: StartSet) -> None:
    """The slave is frozen during the sends. Of 24 MB it gets only what fits into the sockets' buffers."""
    settings = {"allAckInSyncStateSet": "false", "mappedFileSizeCommitLog": str(1 << 26)}
    found = two(**settings)
    assert found.send(1, b"both") is SendStatus.SEND_OK
    until(lambda: kept(found, 2) == [b"both"])
    sent = [Random(number).randbytes(3_000_000) for number in range(8)]  # incompressible
    os.kill(found.brokers[2].pid, signal.SIGSTOP)
    try:
        assert {found.send(1, body) for body in sent} == {SendStatus.SEND_OK}
        found.brokers[1].stop(signal.SIGKILL)
    finally:
        os.kill(found.brokers[2].pid, signal.SIGCONT)
    until(lambda: found.takes(2))
    left = kept(found, 2)
    assert left == [b"both", *sent][: len(left)]
    assert 1 <= len(left) <= len(sent)
    found.start(1, **settings)
    until(lambda: len(found.in_sync_addrs()) == 2)
    assert "event=log-cut" in found.brokers[1].log_tail()
    until(lambda: kept(found, 1) == left)


def test_a_topic_that_was_created_just_before_the_kill_can_be_read(two: StartSet) -> None:
    """Its message was copied with the log, but the topic only comes with the next copy of the tables. The new master
    used to refuse all reads of it."""
    found = two(syncBrokerMetadataPeriod="600000")
    addr, queue = found.brokers[2].broker_addr, MessageQueue("New", BROKER_NAME, 3)
    until(lambda: "Kept" in found.admin.all_topics(addr).topic_config_table)  # the only copy there will be
    assert (
        found.admin.send_message(found.brokers[1].broker_addr, queue, Message("New", b"told")).status
        is SendStatus.SEND_OK
    )
    found.brokers[1].stop(signal.SIGKILL)
    until(lambda: found.admin.broker_config(addr)["brokerRole"] == "SYNC_MASTER")
    assert [message.body for message in found.admin.pull_message(addr, queue, 0).messages] == [b"told"]
    assert "event=topic-listed topic=New queues=8" in found.brokers[2].log_tail()


def test_a_planned_handover_loses_nothing_where_the_master_alone_is_asked(two: StartSet) -> None:
    """The slave is in sync, and frozen during the sends. The master keeps its place until its successor is heard and
    has everything; the controller used to elect that one at once, and the rest was cut off. Tables and offsets of the
    last syncBrokerMetadataPeriod used to be lost, too."""
    settings = {
        "allAckInSyncStateSet": "false", "mappedFileSizeCommitLog": str(1 << 26), "syncBrokerMetadataPeriod": "600000",
        "controllerHeartBeatTimeoutMills": "120000", "haMaxTimeSlaveNotCatchup": "120000",  # on a busy machine, too
    }  # fmt: skip
    found = two(**settings)
    sent = [Random(number).randbytes(3_000_000) for number in range(8)]  # incompressible

    def hand_over() -> bool:
        try:
            found.admin.elect_master(found.controller_addr, "DefaultCluster", BROKER_NAME, 2, 0)
        except RefusedError as refusal:
            refused.append(refusal.remark)
            return False
        return True

    refused: list[str] = []
    os.kill(found.brokers[2].pid, signal.SIGSTOP)
    try:
        assert {found.send(1, body) for body in sent} == {SendStatus.SEND_OK}
        assert not hand_over()
    finally:
        os.kill(found.brokers[2].pid, signal.SIGCONT)
    assert "broker 2 has sent no heartbeat" in refused[0]
    until(lambda: found.send(1, b"goes on") is SendStatus.SEND_OK)
    former, addr = found.brokers[1].broker_addr, found.brokers[2].broker_addr
    found.admin.create_group(former, SubscriptionGroupConfig(group_name="Last", retry_max_times=7))
    found.admin.update_consumer_offset(former, "Last", "Kept", 0, 5)
    until(hand_over)
    until(lambda: found.takes(2))
    assert found.admin.all_groups(addr).subscription_group_table["Last"].retry_max_times == 7
    assert found.admin.consumer_offset(addr, "Last", "Kept", 0) == 5
    assert kept(found, 2) == [*sent, b"goes on"]
    until(lambda: len(found.in_sync_addrs()) == 2)
    assert "event=log-cut" not in found.brokers[1].log_tail()


@pytest.mark.parametrize("all_must_have_it", ["true", "false"])
def test_a_master_that_is_alone_loses_nothing_and_nobody_takes_its_place(two: StartSet, all_must_have_it: str) -> None:
    found = two(allAckInSyncStateSet=all_must_have_it)
    found.brokers[2].stop()
    until(lambda: len(found.in_sync_addrs()) == 1)
    until(lambda: found.send(1, b"alone") is SendStatus.SEND_OK)
    end = len(kept(found, 1))
    found.brokers[1].stop(signal.SIGKILL)
    found.start(2, allAckInSyncStateSet=all_must_have_it)
    sets = found.admin.replica_sets(found.controller_addr, [BROKER_NAME])
    assert sets.replicas_info_table[BROKER_NAME].master_broker_id is None
    assert not found.takes(2), "it lacks what the other was told to have"
    found.start(1, allAckInSyncStateSet=all_must_have_it)
    until(lambda: found.takes(1))
    assert kept(found, 1)[end - 1] == b"alone"
    until(lambda: len(found.in_sync_addrs()) == 2)
    until(lambda: kept(found, 2) == kept(found, 1))
