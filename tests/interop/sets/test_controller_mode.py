"""Our brokers under a real Apache controller, in one set with Apache's: each as the master, each killed, and nothing
that a producer was told is stored is missing afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message, SendStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import ResponseCode
from rmqproto.errors import RocketMQError
from tests.support.frozen import Frozen
from tests.support.servers import until

from ..cluster import BROKER_NAME
from ..controllers import ApacheController, ApacheMember, OurMember

pytestmark = pytest.mark.interop

TOPIC = "Kept"


@dataclass
class Mixed:
    """``kept``: bodies of messages that were told to be stored, in order."""

    controller: ApacheController
    admin: AdminClient
    kept: list[bytes] = field(default_factory=list)
    count: int = 0

    def in_sync(self) -> set[str]:
        """The addresses."""
        found = self.admin.replica_sets(self.controller.addr, [BROKER_NAME]).replicas_info_table
        return {one.broker_address for each in found.values() for one in each.in_sync_replicas if one.alive}

    def until_in_sync(self, *members: ApacheMember | OurMember) -> None:
        until(lambda: self.in_sync() == {member.broker_addr for member in members})

    def send(self, member: ApacheMember | OurMember) -> bool:
        """False if it was not told to be stored."""
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
        until(lambda: self.send(member))
        assert all([self.send(member) for _ in range(count)])

    def bodies(self, member: ApacheMember | OurMember) -> list[bytes]:
        found: list[bytes] = []
        queue = MessageQueue(TOPIC, BROKER_NAME, 0)
        while messages := self.admin.pull_message(member.broker_addr, queue, len(found)).messages:
            found += [message.body for message in messages]
        return found

    def has_kept(self, member: ApacheMember | OurMember) -> bool:
        """In order; messages whose producer was not told may lie between."""
        try:
            found = iter(self.bodies(member))
        except RocketMQError:
            return False
        return all(body in found for body in self.kept)

    def elect(self, broker_id: int) -> None:
        self.admin.elect_master(self.controller.addr, "DefaultCluster", BROKER_NAME, broker_id, 0)


@pytest.fixture
def mixed(tmp_path: Path) -> Iterator[Mixed]:
    with ApacheController(tmp_path / "controller") as controller, AdminClient(controller.namesrv_addr) as admin:
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
        ours.kill()
        mixed.send_many(theirs, 100)
        ours.start()
        mixed.until_in_sync(ours, theirs)
        mixed.send_many(theirs, 100)
        until(lambda: mixed.has_kept(ours))
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
    """Apache's controller has elected Apache's broker. It does not say so with its answers to heartbeats."""
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
        for member in (ours, theirs):
            until(lambda: mixed.has_kept(member))  # noqa: B023
    finally:
        ours.kill()
        theirs.kill()
