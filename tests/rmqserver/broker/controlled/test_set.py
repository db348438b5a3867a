"""Two brokers of ours that a controller makes a set: which is the master, which are in sync, and what producers were
told."""

import json
import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message, SendStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError, RocketMQError
from tests.support import servers
from tests.support.broker_set import BROKER_NAME, PATIENT, PROBE, BrokerSet
from tests.support.scripted_controller import ScriptedController
from tests.support.servers import until


@dataclass
class ScriptedSet(BrokerSet):
    controller: ScriptedController = field(kw_only=True)

    def in_sync(self, *ids: int) -> None:
        until(lambda: self.controller.members == set(ids))

    def both_in_sync(self, **settings: str) -> None:
        """Starts the master, 1, and then its slave, 2."""
        self.start(1, **settings)
        until(lambda: self.takes(1))
        self.start(2, **settings)
        self.in_sync(1, 2)

    def refuses(self, number: int) -> bool:
        """Whether that broker refuses messages as a broker that is not the master."""
        try:
            self.send(number, PROBE)
        except RocketMQError as error:
            return bool(re.search("REJECTREQUEST|service not available", str(error)))  # or while its role changes
        return False

    def has_kept(self, number: int, *bodies: bytes) -> bool:
        """Whether that broker has these messages, and otherwise only probes; also False while nobody may read there."""
        try:
            return [body for body in self.bodies(number) if body != PROBE] == [*bodies]
        except RocketMQError:
            return False


@pytest.fixture
def found(tmp_path: Path) -> Iterator[ScriptedSet]:
    with (
        ScriptedController() as controller,
        servers.namesrv(tmp_path / "namesrv") as namesrv,
        AdminClient(namesrv.namesrv_addr, timeout_s=60) as admin,
    ):
        made = ScriptedSet(tmp_path, controller.peer.address, namesrv, admin, controller=controller)
        yield made
        for server in made.brokers.values():
            server.stop()


def test_a_set_goes_from_hand_to_hand_and_keeps_what_was_told(found: ScriptedSet) -> None:
    found.both_in_sync(**PATIENT)
    kept = [b"%d" % number * 300 for number in range(1, 101)]
    assert {found.send(1, body) for body in kept} == {SendStatus.SEND_OK}
    found.in_sync(1, 2)
    found.controller.elect(2)
    until(lambda: found.takes(2))
    until(lambda: found.refuses(1))
    found.in_sync(1, 2)
    assert found.send(2, b"second master") is SendStatus.SEND_OK
    for number in (1, 2):
        until(lambda: found.has_kept(number, *kept, b"second master"))  # noqa: B023
    epochs = found.admin.epoch_cache(found.brokers[2].broker_addr)
    assert [entry.epoch for entry in epochs.epoch_list] == [1, 2]
    members = {0: found.brokers[2].broker_addr, 1: found.brokers[1].broker_addr}
    until(lambda: found.admin.cluster_info().broker_addr_table[BROKER_NAME].broker_addrs == members)


@pytest.mark.slow
def test_what_only_a_killed_master_had_is_cut_off_when_it_comes_back(found: ScriptedSet) -> None:
    found.both_in_sync()
    assert found.send(1, b"both") is SendStatus.SEND_OK
    found.controller.silent.add(1001)
    found.brokers[2].stop(signal.SIGKILL)
    assert found.send(1, b"x" * 4000) is SendStatus.FLUSH_SLAVE_TIMEOUT, "the controller has not agreed"
    assert b"x" * 4000 not in found.bodies(1), "nobody sees it"
    found.brokers[1].stop(signal.SIGKILL)
    found.controller.silent.clear()
    found.start(2)
    found.controller.elect(2)
    until(lambda: found.takes(2))
    assert found.send(2, b"after") is SendStatus.SEND_OK
    found.start(1)
    found.in_sync(1, 2)
    until(lambda: found.has_kept(1, b"both", b"after"))
    assert "event=log-cut" in found.brokers[1].log_tail()


@pytest.mark.slow
def test_what_a_former_master_delivered_alone_is_not_noted_as_delivered(found: ScriptedSet) -> None:
    """The slave never got the copy of the delayed message, so the copy is cut off once another broker leads. If this
    broker led again with the delivery noted, it would pass the message over."""
    settings = {**PATIENT, "messageDelayLevel": "2s"}
    found.both_in_sync(**settings)
    delayed = Message("Kept", b"delayed", properties={"DELAY": "1"})
    queue = MessageQueue("Kept", BROKER_NAME, 0)
    addr = found.brokers[1].broker_addr
    assert found.admin.send_message(addr, queue, delayed).status is SendStatus.SEND_OK
    end = found.admin.ha_status(addr).master_commit_log_max_offset
    found.controller.silent.add(1001)
    found.brokers[2].stop(signal.SIGKILL)
    until(lambda: found.admin.ha_status(addr).master_commit_log_max_offset > end)
    found.controller.elect(2)
    until(lambda: found.refuses(1))
    until(lambda: not found.admin.ha_status(addr).master)
    noted = found.brokers[1].store_dir / "config/delayOffset.json"
    assert not noted.exists() or "1" not in json.loads(noted.read_text()).get("offsetTable", {})


@pytest.mark.slow
def test_a_master_that_is_none_any_more_promises_nothing(found: ScriptedSet) -> None:
    """The master was cut off from the controller, and has not heard of the next one."""
    found.both_in_sync()
    found.controller.silent.add(1004)
    with found.controller.lock:
        found.controller.master, found.controller.epoch = 2, found.controller.epoch + 1
    found.brokers[2].stop(signal.SIGKILL)
    until(lambda: ResponseCode.CONTROLLER_INVALID_MASTER in found.controller.refused_sets)
    until(lambda: not found.takes(1))


@pytest.mark.slow
def test_a_lost_answer_of_the_controller_makes_nobody_less_needed(found: ScriptedSet) -> None:
    found.both_in_sync()
    found.controller.lost.add(1001)
    found.brokers[2].stop(signal.SIGKILL)
    found.in_sync(1)
    found.controller.lost.clear()
    until(lambda: found.send(1, b"alone") is SendStatus.SEND_OK)


@pytest.mark.slow
def test_who_may_have_joined_is_waited_for_until_the_set_is_known(found: ScriptedSet) -> None:
    """The controller has taken the slave in, and the answer was lost. A repeated proposal is refused, because it
    changes nothing. The slave may be elected, so it must have every message that is acknowledged from then on."""
    found.start(1)
    until(lambda: found.takes(1))
    found.controller.lost.add(1001)
    found.start(2)
    found.in_sync(1, 2)
    found.controller.silent.add(1004)  # before the master asks again and hears of it
    found.brokers[2].stop(signal.SIGKILL)
    found.controller.lost.clear()
    found.controller.refused_sets.clear()
    until(lambda: ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH in found.controller.refused_sets)
    assert {found.send(1, b"alone") for _ in range(3)} == {SendStatus.FLUSH_SLAVE_TIMEOUT}
    found.controller.silent.clear()
    until(lambda: found.send(1, b"agreed") is SendStatus.SEND_OK)
    assert found.controller.members == {1}


@pytest.mark.slow
def test_who_must_have_a_message_changes_with_the_settings(found: ScriptedSet) -> None:
    found.start(1)
    until(lambda: found.takes(1))
    address = found.brokers[1].broker_addr
    found.admin.update_broker_config(address, {"minInSyncReplicas": "2"})
    with pytest.raises(RefusedError, match="in-sync replicas not enough"):
        found.send(1, b"alone")
    found.start(2)
    found.in_sync(1, 2)
    until(lambda: found.takes(1))
    assert found.send(1, b"both") is SendStatus.SEND_OK
    found.controller.silent.add(1001)
    found.brokers[2].stop(signal.SIGKILL)
    assert found.send(1, b"waits") is SendStatus.FLUSH_SLAVE_TIMEOUT
    assert b"waits" not in found.bodies(1)
    found.admin.update_broker_config(address, {"allAckInSyncStateSet": "false"})
    until(lambda: b"waits" in found.bodies(1))
    assert found.send(1, b"alone") is SendStatus.SEND_OK


@pytest.mark.slow
def test_who_leaves_before_it_has_a_message_makes_it_no_promise_of_one(found: ScriptedSet) -> None:
    """minInSyncReplicas=2, so two brokers must have it. The message was taken while two were in sync. When the
    controller agrees that the slave is gone, the message is on the master alone; the producer used to be told 0
    then."""
    found.start(1)
    until(lambda: found.takes(1))
    found.admin.update_broker_config(found.brokers[1].broker_addr, {"minInSyncReplicas": "2"})
    found.start(2)
    found.in_sync(1, 2)
    until(lambda: found.takes(1))
    address = found.brokers[1].broker_addr
    end = found.admin.ha_status(address).master_commit_log_max_offset
    found.controller.silent.add(1001)
    found.brokers[2].stop(signal.SIGKILL)
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(found.send, 1, b"alone")
        until(lambda: found.admin.ha_status(address).master_commit_log_max_offset > end)
        found.controller.silent.clear()
        assert sent.result() is SendStatus.FLUSH_SLAVE_TIMEOUT
    found.in_sync(1)
    found.start(2)
    found.in_sync(1, 2)
    until(lambda: found.takes(1))
    assert b"alone" in found.bodies(1), "it is stored all the same"


@pytest.mark.slow
def test_without_a_master_nothing_is_taken(found: ScriptedSet) -> None:
    found.controller.is_electing = False
    found.start(1)
    with pytest.raises(RefusedError) as refused:
        found.send(1, PROBE)
    assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert found.admin.cluster_info().broker_addr_table == {}
    found.controller.is_electing = True
    until(lambda: found.takes(1))
    found.brokers[1].stop()
    assert (found.directory / "b1/store/brokerIdentity").read_text() == "DefaultCluster#broker-a#1"
    found.start(1)
    until(lambda: found.takes(1))


@pytest.mark.slow
def test_who_is_elected_has_no_group_ahead_of_its_queues(found: ScriptedSet) -> None:
    """The offset was copied from a master with a longer queue. The next messages get lower offsets, and must be
    read."""
    found.both_in_sync()
    found.admin.create_group(found.brokers[1].broker_addr, SubscriptionGroupConfig(group_name="Ahead"))
    found.admin.update_consumer_offset(found.brokers[1].broker_addr, "Ahead", "Kept", 0, 1000)

    def at(number: int) -> int | None:
        return found.admin.consumer_offset(found.brokers[number].broker_addr, "Ahead", "Kept", 0)

    until(lambda: at(2) == 1000)
    found.controller.elect(2)
    until(lambda: found.takes(2))
    assert 0 < (at(2) or 0) < 1000
