"""Sends that the native core takes only if somebody says so: the state of a set's member, or the gate of a broker with
users. What is stored and answered is what the service would have done."""

import json
import math
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rmqproto.bodies.acl import AclEntry, AclInfo, AclPolicy, UserAccount
from rmqproto.codes import ResponseCode
from rmqproto.wire.credentials import Credentials
from rmqproto.wire.frames import frame
from rmqproto.wire.signing import SIGNATURE, sign
from rmqserver import core
from rmqserver.auth.auth_gate import AuthGate
from rmqserver.auth.auth_settings import AuthSettings
from rmqserver.auth.auth_table import AuthTable
from rmqserver.broker.assembly import BrokerAssembly
from rmqserver.broker.controlled.set_master import SetMaster
from rmqserver.broker.controlled.set_state import SetState, SyncSet
from rmqserver.doors.remoting.role_answers import MemberRequests
from rmqserver.doors.remoting.sends import SendHandlers
from rmqserver.remoting.gate import GatePlace
from rmqserver.remoting.service import Handler
from rmqserver.request_rules import SERVED
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.epochs import EpochFile
from tests.rmqserver.broker.parts import parts_on
from tests.rmqserver.broker.sending.test_plain_sends import (
    PROPERTIES,
    Admits,
    Broker,
    Make,
    assert_equal,
    header_of,
    make,
    odd_frame,
    pipelined,
    topic_config,
)
from tests.support.clock import Clock
from tests.support.quick import first_is_quick
from tests.support.stub_connection import StubConnection

__all__ = ["make"]

pytestmark = pytest.mark.skipif(not core.IS_NATIVE, reason="the native core is not built")

LEASE_MS = 1000
CONTROLLED = "enableControllerMode=true\ncontrollerAddr=127.0.0.1:1\n"


# --- members of a set ------------------------------------------------------------------------------------------------


class Copied(SetMaster):
    """A master whose slaves say what the test has them say."""

    reported: dict[int, int] = {}

    def acked(self) -> dict[int, int]:
        return self.reported


class Member(Broker):
    """The master of a set of three, with a lease."""

    def __init__(self, directory: Path, *, takes: bool, settings: str = "allAckInSyncStateSet=true"):
        self.settings, self.lease_clock = settings, Clock(0)
        self.state = SetState(EpochFile(str(directory / "epochs"), OsDisk()), self.lease_clock)
        self.state.is_fenced = False
        super().__init__(directory, takes=takes)
        self.elect({1})

    def elect(self, members: set[int]) -> None:
        self.state.sync_set = SyncSet(1, frozenset(members), 1, 0)
        self.state.lease.confirmed(self.lease_clock() + LEASE_MS)
        self.replicas.set_changed()

    def report(self, reported: dict[int, int]) -> None:
        self.replicas.reported = reported
        self.replicas.set_changed()

    def make_parts(self) -> BrokerAssembly:
        parts = parts_on(
            self.store,
            self.files,
            CONTROLLED + self.settings,
            replicas=lambda config, store: Copied(config, store, self.state),
        )
        assert isinstance(parts.replicas, Copied)
        self.replicas = parts.replicas
        return parts

    def handlers(self, sends: SendHandlers) -> dict[int, Handler]:
        table, members = sends.handlers(), MemberRequests(self.state, self.replicas)
        sends.may_put = members.may_put
        return table | members.handlers(table)


def change_set(broker: Broker, chance: Random) -> None:
    """What controllers, slaves and time do to a master."""
    assert isinstance(broker, Member)
    event = chance.randrange(12)
    if event == 0:
        broker.state.is_fenced = not broker.state.is_fenced
        broker.replicas.set_changed()
    elif event == 1:
        broker.elect(chance.choice(({1}, {1, 2}, {1, 2, 3})))
    elif event < 4:
        broker.lease_clock.now_ms += LEASE_MS // 2
    elif event == 4:
        broker.parts.pending.expire(math.inf, 5, 5)
    elif event == 5:
        broker.state.is_fenced = False
        broker.elect({1, 2})
    elif event < 8:
        end = broker.store.written_offset
        broker.report({slave: end - chance.choice((0, 0, 1, 10**6)) for slave in (2, 3)[: chance.randrange(3)]})


SETTINGS = [
    "allAckInSyncStateSet=true", "brokerRole=SYNC_MASTER\ninSyncReplicas=2\nminInSyncReplicas=2",
    "allAckInSyncStateSet=true\nminInSyncReplicas=2\nmasterLeaseEnable=false", "",
]  # fmt: skip


@pytest.mark.parametrize("settings", first_is_quick(SETTINGS))
def test_a_member_of_a_set_stores_and_answers_as_by_its_service(make: Make, settings: str) -> None:
    assert assert_equal(make, 1, 60, change_set, kind=Member, settings=settings) > 10


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS)
def test_members_over_many_changes(make: Make, settings: str) -> None:
    assert assert_equal(make, 2, 4000, change_set, kind=Member, settings=settings) > 1000


def test_a_frozen_master_acknowledges_nothing_that_the_core_took(make: Make) -> None:
    broker, peer = make(kind=Member), StubConnection()
    assert isinstance(broker, Member)
    broker.elect({1, 2})
    broker.play(pipelined(0))  # the service finds the topic again
    broker.report({2: broker.store.written_offset})
    broker.passed.clear()
    assert broker.play(pipelined(1), peer=peer) == []
    assert broker.passed == []
    broker.state.sync_set = SyncSet(1, frozenset({1}), 2, 0)  # nobody else must have it, but the lease is over
    broker.lease_clock.now_ms += LEASE_MS
    broker.report({2: broker.store.written_offset})
    assert peer.answers == []
    (refused,) = broker.play(pipelined(2))
    assert (refused.opaque, refused.code, len(broker.passed)) == (2, ResponseCode.SERVICE_NOT_AVAILABLE, 1)
    broker.elect({1})
    assert [(answer.opaque, answer.code) for answer in peer.answers] == [(1, 0)]
    assert [answer.code for answer in broker.play(pipelined(3))] == [0]


@pytest.mark.parametrize("takes", [True, False])
def test_what_changes_while_a_master_has_no_role_counts_when_it_has_one_again(make: Make, takes: bool) -> None:
    broker, peer = make(takes, kind=Member), StubConnection()
    assert isinstance(broker, Member)
    broker.elect({1, 2})
    broker.state.is_fenced = True
    broker.elect({1})
    broker.parts.topics.put(topic_config("TopicCapture"))
    broker.state.is_fenced = False
    broker.elect({1, 2})
    assert broker.play(pipelined(0), pipelined(1), peer=peer) == []
    broker.report({2: broker.store.written_offset})
    assert [answer.opaque for answer in peer.answers] == [0, 1]


# --- users -----------------------------------------------------------------------------------------------------------

ALICE, ROOT = Credentials("alice", "alice-secret"), Credentials("root", "root-secret")


class Guarded(Broker):
    """Alice may send to the topics whose names begin with ``T``, and root to all."""

    def __init__(self, directory: Path, *, takes: bool):
        super().__init__(directory, takes=takes)
        self.table = AuthTable(None)
        self.table.create_user(UserAccount(username=ALICE.access_key, password=ALICE.secret_key))
        self.table.create_user(UserAccount(username=ROOT.access_key, password=ROOT.secret_key, user_type="Super"))
        self.allow("Topic:T*")
        self.gate = AuthGate(AuthSettings(is_authenticating=True, is_authorizing=True), self.table, "C", SERVED)

    def allow(self, *resources: str) -> None:
        entries = [AclEntry(resource=resource, actions=["Pub"], decision="Allow") for resource in resources]
        self.table.put_acl(f"User:{ALICE.access_key}", AclInfo(policies=[AclPolicy(entries=entries)]))

    def open_queues(self) -> None:
        super().open_queues()
        self.service.use_gate(GatePlace.USERS, self.gate, self.gate.admits_at_sight, self.gate.admits_undecoded)


def signed(header: dict[str, Any], body: bytes, user: Credentials = ALICE) -> bytes:
    ext = header["extFields"]
    texts = {name: value for name, value in ext.items() if isinstance(value, str)}
    sign(texts, body, user)
    ext.update(texts)
    return frame(json.dumps(header, separators=(",", ":")).encode(), body)


def signed_frame(chance: Random, headers: list[dict[str, Any]], opaque: int) -> bytes:
    """An odd frame, or one of a few that come again and again; their signatures may be damaged."""
    if chance.random() < 0.4:
        return odd_frame(chance, headers, opaque)
    topic = chance.choice(("TopicCapture",) * 4 + ("Tagged", "NoSuchTopic"))
    fields = {"b": topic, "g": str(opaque), "i": PROPERTIES if chance.random() < 0.1 else "TAGS\x01t\x02"}
    data = signed(json.loads(header_of(opaque=opaque, **fields)), b"body", chance.choice((ALICE,) * 4 + (ROOT,)))
    if chance.random() < 0.1:
        at = data.index(SIGNATURE.encode()) + chance.randrange(40)
        data = data[:at] + b"A" + data[at + 1 :]
    return data


def change_users(broker: Broker, chance: Random) -> None:
    assert isinstance(broker, Guarded)
    event = chance.randrange(30)
    if event == 0:
        broker.allow(*chance.choice((("Topic:T*",), ("Topic:Tagged",), ("Topic:T*", "Topic:NoSuchTopic"))))
    elif event == 1:
        status = chance.choice(("enable", "disable", "enable"))
        broker.table.update_user(UserAccount(username=ALICE.access_key, user_status=status))


def test_a_broker_with_users_stores_and_answers_as_by_its_service(make: Make) -> None:
    assert assert_equal(make, 1, 60, change_users, signed_frame, kind=Guarded) > 20


@pytest.mark.slow
def test_users_over_many_changes(make: Make) -> None:
    assert assert_equal(make, 2, 4000, change_users, signed_frame, kind=Guarded) > 500


def test_behind_a_second_gate_the_core_takes_nothing(make: Make) -> None:
    broker, peer = make(kind=Guarded), StubConnection()

    def passed() -> int:
        before = len(broker.passed)
        assert [answer.code for answer in broker.play(signed(json.loads(header_of(i="")), b"body"), peer=peer)] == [0]
        return len(broker.passed) - before

    assert [passed() for _ in range(3)] == [1, 0, 0]
    broker.service.use_gate(GatePlace.FAULTS, Admits())
    assert passed() == 1
    broker.service.use_gate(GatePlace.FAULTS, None)
    assert passed() == 0
