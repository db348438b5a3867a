"""Our brokers in one set with Apache's, under one or three real Apache controllers. Each kind is the master once, and
each is killed. No acknowledged message is missing afterwards."""

import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rmqadmin.core.health.facts import read_facts
from rmqadmin.core.health.finding import Grade
from rmqadmin.core.health.ha_checks import ha_findings, registered_brokers
from rmqadmin.core.servers.ha_sets import read_ha
from rmqclient.admin import AdminClient
from rmqclient.message import Message, SendStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import ResponseCode
from rmqproto.errors import RocketMQError
from tests.support.frozen import Frozen
from tests.support.servers import until

from ..cluster import BROKER_NAME
from ..controllers import ApacheControllers, ApacheMember, OurMember

pytestmark = pytest.mark.interop

TOPIC = "Kept"


@dataclass
class Mixed:
    """``kept`` holds the bodies of acknowledged messages, in order."""

    controller: ApacheControllers
    admin: AdminClient
    kept: list[bytes] = field(default_factory=list)
    count: int = 0

    def leader_addr(self) -> str:
        """Waits for a leader of the controllers, and returns its address."""
        found: list[int] = []
        until(lambda: bool(found.extend(each for each in [self.controller.leader()] if each is not None) or found))
        return self.controller.addrs[found[0]]

    def findings(self) -> list[str]:
        """The complaints of `rmqadmin doctor` about the set and its controllers."""
        found = read_ha(self.admin, registered_brokers(read_facts(self.admin, None, with_tables=False)))
        now_ms = time.time_ns() // 1_000_000
        return [
            f"{one.grade} {one.check} {one.subject.name}: {one.what}"
            for one in ha_findings(found, now_ms)
            if one.grade is not Grade.OK
        ]

    def until_found(self, *parts: str) -> None:
        """Waits for exactly as many findings as parts, with each part in one of them."""
        until(lambda: has_parts(self.findings(), parts))

    def in_sync(self) -> set[str]:
        """The addresses of the in-sync replicas."""
        found = self.admin.replica_sets(self.leader_addr(), [BROKER_NAME]).replicas_info_table
        return {one.broker_address for each in found.values() for one in each.in_sync_replicas if one.alive}

    def until_in_sync(self, *members: ApacheMember | OurMember) -> None:
        until(lambda: self.in_sync() == {member.broker_addr for member in members})

    def send(self, member: ApacheMember | OurMember) -> bool:
        """Whether the message was acknowledged as stored."""
        self.count += 1
        body = b"%d-" % self.count * 100
        try:
            queue = MessageQueue(TOPIC, BROKER_NAME, 0)
            answer = self.admin.send_message(member.broker_addr, queue, Message(TOPIC, body))
        except RocketMQError:
            return False
        if answer.status is SendStatus.SEND_OK:
            self.kept.append(body)
            return True
        return False

    def send_many(self, member: ApacheMember | OurMember, count: int) -> None:
        """Starts once the member is the master, because a slave of ours would pass the messages on."""
        until(lambda: self.is_master(member) and self.send(member))
        assert all([self.send(member) for _ in range(count)])

    def is_master(self, member: ApacheMember | OurMember) -> bool:
        try:
            return self.admin.ha_status(member.broker_addr).master
        except RocketMQError:
            return False

    def bodies(self, member: ApacheMember | OurMember) -> list[bytes]:
        found: list[bytes] = []
        queue = MessageQueue(TOPIC, BROKER_NAME, 0)
        while messages := self.admin.pull_message(member.broker_addr, queue, len(found)).messages:
            found += [message.body for message in messages]
        return found

    def has_kept(self, member: ApacheMember | OurMember) -> bool:
        """Whether the kept messages are there in order; unacknowledged ones may lie between them."""
        try:
            found = iter(self.bodies(member))
        except RocketMQError:
            return False
        return all(body in found for body in self.kept)

    def elect(self, broker_id: int) -> None:
        self.admin.elect_master(self.leader_addr(), "DefaultCluster", BROKER_NAME, broker_id, 0)


def has_parts(found: list[str], parts: Sequence[str]) -> bool:
    return len(found) == len(parts) and all(any(part in each for each in found) for part in parts)


@pytest.fixture
def mixed(tmp_path: Path) -> Iterator[Mixed]:
    with ApacheControllers(tmp_path / "controller") as controller, AdminClient(controller.namesrv_addr) as admin:
        yield Mixed(controller, admin)


def test_ours_alone_and_ours_beside(mixed: Mixed, tmp_path: Path) -> None:
    ours, second = OurMember(tmp_path / "one", mixed.controller), OurMember(tmp_path / "two", mixed.controller)
    try:
        ours.start()
        mixed.send_many(ours, 20)
        second.start()
        mixed.until_in_sync(ours, second)
        mixed.send_many(ours, 20)
        ours.kill()
        mixed.send_many(second, 20)
        ours.start()
        mixed.until_in_sync(ours, second)
        mixed.send_many(second, 20)
        mixed.elect(1)
        mixed.send_many(ours, 20)
        mixed.until_in_sync(ours, second)
        for member in (ours, second):
            until(lambda: mixed.has_kept(member))  # noqa: B023
    finally:
        ours.kill()
        second.kill()


def test_apaches_takes_over_from_ours_and_back(mixed: Mixed, tmp_path: Path) -> None:
    ours, theirs = OurMember(tmp_path / "ours", mixed.controller), ApacheMember(tmp_path / "theirs", mixed.controller)
    try:
        ours.start()
        mixed.send_many(ours, 100)
        theirs.start()
        mixed.until_in_sync(ours, theirs)
        mixed.send_many(ours, 100)
        until(lambda: mixed.has_kept(theirs))
        mixed.until_found()
        ours.kill()
        mixed.send_many(theirs, 100)
        mixed.until_found("warning in-sync broker-a: one of 2 is in sync")
        ours.start()
        mixed.until_in_sync(ours, theirs)
        mixed.send_many(theirs, 100)
        until(lambda: mixed.has_kept(ours))
        mixed.until_found()
        theirs.kill()
        mixed.send_many(ours, 100)
        theirs.start()
        mixed.until_in_sync(ours, theirs)
        mixed.send_many(ours, 20)
        for member in (ours, theirs):
            until(lambda: mixed.has_kept(member))  # noqa: B023
    finally:
        ours.kill()
        theirs.kill()


def test_ours_that_was_frozen_acknowledges_nothing(mixed: Mixed, tmp_path: Path) -> None:
    """Apache's controller has elected Apache's broker, but its answers to heartbeats do not tell ours. Then Apache's
    broker freezes, and ours takes its place."""
    settings = {"allAckInSyncStateSet": "false", "controllerHeartBeatTimeoutMills": "5000"}
    ours = OurMember(tmp_path / "ours", mixed.controller, settings)
    theirs = ApacheMember(tmp_path / "theirs", mixed.controller, settings)
    try:
        ours.start()
        mixed.send_many(ours, 20)
        theirs.start()
        mixed.until_in_sync(ours, theirs)
        mixed.send_many(ours, 20)
        until(lambda: mixed.has_kept(theirs))
        assert ours.server is not None
        frozen = Frozen(ours.server.pid, ours.broker_addr)
        try:
            mixed.send_many(theirs, 20)
            frozen.send()
        finally:
            frozen.wake()
        assert ResponseCode.SUCCESS not in frozen.answered()
        mixed.until_in_sync(ours, theirs)
        mixed.send_many(theirs, 20)
        until(lambda: mixed.has_kept(ours))
        os.kill(theirs.broker_pid, signal.SIGSTOP)
        try:
            mixed.send_many(ours, 20)
        finally:
            os.kill(theirs.broker_pid, signal.SIGCONT)
        mixed.until_in_sync(ours, theirs)
        mixed.send_many(ours, 20)
        for member in (ours, theirs):
            until(lambda: mixed.has_kept(member))  # noqa: B023
    finally:
        ours.kill()
        theirs.kill()


def test_controllers_of_three_are_killed_and_then_the_master(tmp_path: Path) -> None:
    """After each kill `rmqadmin doctor` reports the true state."""
    with ApacheControllers(tmp_path / "controllers", 3) as controllers, AdminClient(controllers.namesrv_addr) as admin:
        mixed = Mixed(controllers, admin)
        ours, theirs = OurMember(tmp_path / "ours", controllers), ApacheMember(tmp_path / "theirs", controllers)
        try:
            theirs.start()
            mixed.send_many(theirs, 20)
            ours.start()
            mixed.until_in_sync(ours, theirs)
            mixed.send_many(theirs, 20)
            mixed.until_found()

            first = controllers.leader()
            assert first is not None
            controllers.kill(first)
            mixed.send_many(theirs, 20)
            mixed.leader_addr()
            silent = f"warning controllers {controllers.addrs[first]}: does not answer"
            mixed.until_found(silent)

            theirs.kill()
            mixed.send_many(ours, 20)
            mixed.until_found(silent, "warning in-sync broker-a: one of 2 is in sync")
            theirs.start()
            mixed.until_in_sync(ours, theirs)
            mixed.send_many(ours, 20)
            mixed.until_found(silent)

            second = controllers.leader()
            assert second is not None
            controllers.kill(second)
            other = f"warning controllers {controllers.addrs[second]}: does not answer"
            mixed.until_found(silent, other, "error controllers")
            mixed.send_many(ours, 20)  # two are in sync, so it needs no controller's leave
            for member in (ours, theirs):
                until(lambda: mixed.has_kept(member))  # noqa: B023
        finally:
            ours.kill()
            theirs.kill()
