"""A master that was frozen or cut off acknowledges nothing alone once a controller may have elected another."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqproto.codes import ResponseCode
from rmqserver.broker.controlled.set_master import SetMaster
from rmqserver.broker.controlled.set_state import MasterLease, SetState, SyncSet, lease_ms
from rmqserver.broker.sending.pending import PendingPuts
from rmqserver.broker.stats import BrokerStats
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.epochs import EpochFile
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import StoreOptions
from tests.rmqserver.controller.test_controller_cases import Trio
from tests.rmqserver.store.conftest import put
from tests.support.clock import Clock

TIMEOUT_MS = 10_000
LEASE_MS = lease_ms(TIMEOUT_MS)


# --- against a controller --------------------------------------------------------------------------------------------


class Play:
    """The first of three replicas is the master. Its clock runs at another rate than the controller's. Its requests and
    their answers take a while."""

    def __init__(self, rate: float, *, says: bool):
        self.trio = Trio()
        self.rate = rate
        self.says = says
        """Whether answers to heartbeats say which broker is the master: ours do, Apache's do not."""
        self.lease = MasterLease()
        self.beat_sent_ms: int | None = None
        self.beat_answered: bool | None = None
        """Whether it was the master when its last heartbeat arrived, whose answer is on its way; None before."""
        self.asked: tuple[int, bool | None] | None = None
        self.wanted_back: int | None = None
        """The handover in the answer to its last heartbeat."""
        self.begun: int | None = None
        self.given_back: int | None = None

    @property
    def now_ms(self) -> int:
        return int(self.trio.seated.now_s * 1000 * self.rate)

    @property
    def is_master(self) -> bool:
        return self.trio.found.master_broker_id == 1

    def step(self, what: str, wait_s: float) -> None:
        if what in WHOLE:
            for part in WHOLE[what]:
                self.step(part, 0)
        elif what == "send a beat":
            self.beat_sent_ms, self.beat_answered = self.now_ms, None
        elif what == "beat arrives" and self.beat_sent_ms is not None and self.beat_answered is None:
            self.wanted_back = self.trio.beat(1, has_lease=self.says).handover_id
            self.beat_answered = self.is_master
        elif what == "beat is answered" and self.beat_answered is not None and self.beat_sent_ms is not None:
            says = self.beat_answered if self.says else None
            if self.wanted_back is None or self.wanted_back != self.given_back:
                self.lease.answered(self.beat_sent_ms, LEASE_MS, self.now_ms, says_master=says)
            self.begun, self.beat_sent_ms = self.wanted_back, None
        elif what == "ask":
            self.asked = self.lease.basis_ms, None
        elif what == "question arrives" and self.asked is not None:
            is_wanted_back = self.trio.seated.controller._handovers.of(self.trio.found) is not None
            self.asked = self.asked[0], None if is_wanted_back else self.is_master
        elif what == "question is answered" and self.asked is not None and self.asked[1] is not None:
            if self.asked[1]:
                self.lease.confirmed(self.asked[0])
            else:
                self.lease.end()
            self.asked = None
        elif what == "operator elects":
            self.trio.client.exchange(self.trio.election(2))
        else:
            self._step(what, wait_s)

    def _step(self, what: str, wait_s: float) -> None:
        if what == "successor is level" and self.begun is not None:
            self.lease.give_back(self.now_ms)
            self.given_back, self.begun = self.begun, None
        elif what == "lease arrives" and self.given_back is not None:
            self.trio.give_back(self.given_back)
        elif what == "wait":
            self.trio.seated.now_s += wait_s
            self.trio.beat(2, 3)
            self.trio.seated.controller.scan_brokers()
            self.trio.seated.controller.scan_handovers()


STEPS = (
    "send a beat", "beat arrives", "beat is answered", "ask", "question arrives", "question is answered", "wait",
    "operator elects", "successor is level", "lease arrives",
)  # fmt: skip
WHOLE = {"beat": STEPS[:3], "question": STEPS[3:6]}


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([0.95, 1.0, 1.05]),
    st.booleans(),
    st.lists(st.tuples(st.sampled_from([*STEPS, "wait", *WHOLE]), st.sampled_from([0.5, 3.0, 9.2, 11.0])), max_size=60),
)
def test_who_holds_the_lease_is_the_master(rate: float, says: bool, steps: list[tuple[str, float]]) -> None:
    """This holds however late answers are. Elections after the end of a connection are not played; nor are an
    operator's where the controller, like Apache's, does not ask for the lease."""
    play = Play(rate, says=says)
    for what, wait_s in steps:
        if what == "operator elects" and not says:
            continue
        play.step(what, wait_s)
        assert play.is_master or not play.lease.is_held(play.now_ms)


@pytest.mark.parametrize("says", [True, False])
def test_a_lease_is_had_prolonged_lost_and_had_again(says: bool) -> None:
    play = Play(1.0, says=says)

    def is_held() -> bool:
        return play.lease.is_held(play.now_ms)

    play.step("beat", 0)
    assert is_held() is says, "Apache's controllers have to be asked"
    play.step("question", 0)
    assert is_held()
    for _ in range(5):
        play.step("wait", 5)
        play.step("beat", 0)
        assert is_held()
    play.step("wait", 9.1)
    assert not is_held()
    assert play.is_master, "it has ended before anybody else may be elected"
    play.step("wait", 2)
    assert not play.is_master
    play.step("beat", 0)
    assert not is_held()


def test_a_lease_that_was_given_back_begins_again_with_what_is_said_later() -> None:
    lease = MasterLease()
    lease.answered(0, LEASE_MS, 0, says_master=True)
    asked_before_ms = lease.basis_ms
    lease.give_back(100)
    assert not lease.is_held(100)
    lease.confirmed(asked_before_ms)
    lease.answered(90, LEASE_MS, 110, says_master=True)
    assert not lease.is_held(110), "both were asked before"
    lease.answered(101, LEASE_MS, 120, says_master=True)
    assert lease.is_held(120)


def test_after_the_end_of_a_connection_only_a_word_of_the_controller_prolongs_it() -> None:
    lease = MasterLease()
    lease.answered(0, LEASE_MS, 0, says_master=True)
    asked_before_ms = lease.basis_ms
    lease.doubt()
    lease.confirmed(asked_before_ms)
    lease.answered(100, LEASE_MS, 100, says_master=None)
    assert (lease.is_held(LEASE_MS - 1), lease.is_held(LEASE_MS)) == (True, False), "the controller may be gone itself"
    lease.confirmed(lease.basis_ms)
    assert lease.is_held(LEASE_MS)
    lease.answered(200, LEASE_MS, 200, says_master=None)
    assert lease.is_held(LEASE_MS + 100)
    lease.answered(300, LEASE_MS, 300, says_master=False)
    assert not lease.is_held(0)


# --- what is acknowledged --------------------------------------------------------------------------------------------


@dataclass
class Master:
    """A master without its slave, on a clock that the test moves. ``told``: the codes with which puts ended."""

    clock: Clock
    state: SetState
    replicas: SetMaster
    pending: PendingPuts
    told: list[int]

    def put(self) -> None:
        put(self.replicas.store)
        self.pending.wait(lambda outcome: self.told.append(outcome.code), until_safe=True)
        self.pending.end_round()
        self.pending.settle()


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Master]:
    clock = Clock()
    state = SetState(EpochFile(str(tmp_path / "epochs"), OsDisk()), clock)
    state.own_id, state.is_fenced, state.sync_set = 1, False, SyncSet(1, frozenset({1}), 1, 0)
    config = BrokerConfig()
    store = MessageStore(tmp_path / "store", StoreOptions(waits_for_copies=True), background=False)
    store.open()
    replicas = SetMaster(config, store, state)
    pending = PendingPuts(store, BrokerStats("c", clock, frozenset()), replicas)
    replicas.on_report = pending.settle
    replicas.hold_back()
    yield Master(clock, state, replicas, pending, [])
    store.close()


def test_a_frozen_master_ends_nothing_well_until_it_is_confirmed(alone: Master) -> None:
    alone.put()
    assert alone.told == [], "no controller has said yet that it is the master"
    alone.state.lease.confirmed(alone.clock.now_ms + LEASE_MS)
    alone.replicas.set_changed()
    assert alone.told == [ResponseCode.SUCCESS]
    alone.put()
    assert alone.told == [ResponseCode.SUCCESS] * 2
    alone.clock.now_ms += LEASE_MS
    alone.put()
    assert len(alone.told) == 2
    alone.pending.expire(float("inf"), 5, 3)
    assert alone.told[2:] == [ResponseCode.FLUSH_SLAVE_TIMEOUT], "it may be cut off"
    alone.put()
    alone.state.lease.confirmed(alone.clock.now_ms + LEASE_MS)
    alone.replicas.set_changed()
    assert alone.told[3:] == [ResponseCode.SUCCESS], "nobody was elected"


def test_how_long_a_lease_lasts_is_told_of_a_master_that_needs_one(alone: Master) -> None:
    assert alone.replicas.lease_left_ms == 0
    alone.state.lease.confirmed(alone.clock.now_ms + LEASE_MS)
    alone.clock.now_ms += 1000
    assert alone.replicas.lease_left_ms == LEASE_MS - 1000
    alone.clock.now_ms += LEASE_MS
    assert alone.replicas.lease_left_ms == 0
    alone.replicas.config.record({"masterLeaseEnable": "false"})
    assert alone.replicas.lease_left_ms is None
    alone.replicas.config.record({"masterLeaseEnable": "true"})
    alone.state.sync_set = None
    assert alone.replicas.lease_left_ms is None, "a slave has none"


def test_the_others_are_as_good_as_a_lease_where_all_must_have_it(alone: Master) -> None:
    """The controller elects only one of the others, and an elected one no longer follows."""
    alone.replicas.config.record({"allAckInSyncStateSet": "true"})
    assert not alone.replicas.may_acknowledge
    alone.state.sync_set = SyncSet(1, frozenset({1, 2}), 2, 0)
    assert alone.replicas.may_acknowledge
    alone.put()
    assert alone.told == [], "the other one has it not"
    alone.replicas.config.record({"allAckInSyncStateSet": "false", "masterLeaseEnable": "false"})
    alone.replicas.set_changed()
    assert alone.told == [ResponseCode.SUCCESS], "as Apache's master"
