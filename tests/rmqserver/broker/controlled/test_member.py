"""A member of a set: what it does with the answers of controllers, and how it hands over."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import trio
import trio.testing

from rmqproto.errors import StorageError
from rmqproto.headers.controller import ReplicaInfoAnswer
from rmqserver.broker.controlled.controllers import Leadership
from rmqserver.broker.controlled.duties import CATCH_UP_MAX_S, NEAR_BYTES, has_caught_up
from rmqserver.broker.controlled.member import SetMember
from rmqserver.broker.controlled.set_state import NEVER, SyncSet
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.config.setting_values import BrokerRole
from tests.crash.recording_disk import RecordingDisk


class Opening:
    """A ``Host`` that opens nothing, and notes the state when it is asked to."""

    broker = None

    def __init__(self) -> None:
        self.was_fenced: list[bool] = []
        self.state: Any = None

    async def change_role(self, role: BrokerRole, broker_id: int, change: Callable[[], None] | None) -> None:
        self.was_fenced.append(self.state.is_fenced)

    def role_is_known(self) -> None: ...


def member_of(host: Any) -> SetMember:
    config = BrokerConfig.from_properties("enableControllerMode=true\ncontrollerAddr=n:1\n")
    return SetMember(config, SimpleNamespace(), lambda: "b:1", RecordingDisk(), host)  # type: ignore[arg-type]


def test_a_slave_that_is_elected_has_no_role_until_it_is_open() -> None:
    """While the elected slave is opened, its set is not its own yet. A slave that had copied nothing has no epoch, and
    code that looked for one used to end the broker."""
    host = Opening()
    member = member_of(host)
    host.state = member.state
    member.state.own_id = 2
    member.state.is_fenced = False
    trio.run(member._take, Leadership(2, 2, "b:1", frozenset({2}), 2), NEVER)
    assert host.was_fenced == [True]
    assert not member.state.is_fenced
    assert member.state.has_set_news.is_set()


def test_a_lease_goes_on_until_it_is_given_back() -> None:
    """The controller wants the lease back, and the successor is behind. An answer to a heartbeat that has overtaken the
    lease on its way back does not begin it again."""
    member, now_ms = member_of(Opening()), 1000
    state = member.state
    state.clock_ms = lambda: now_ms
    state.own_id, state.master_epoch, state.is_fenced = 1, 1, False
    state.sync_set = SyncSet(1, frozenset({1, 2}), 1, 0)

    def is_held_after(**more: int) -> bool:
        member._beat_answered(now_ms, [ReplicaInfoAnswer(master_broker_id=1, master_epoch=1, **more)])
        return state.holds_lease

    assert is_held_after(handover_id=7, successor_id=2)
    member._given_back_id = 7
    state.lease.give_back(now_ms)
    now_ms += 1
    assert not is_held_after(handover_id=7, successor_id=2)
    assert is_held_after(), "the controller has given it up"


def test_a_slave_opens_its_store_again_and_follows_and_a_master_with_slaves_does_not() -> None:
    """The slaves of a master may have what its own log has lost."""
    host = Opening()
    member, followed = member_of(host), list[str]()
    host.state = member.state
    member.state.master_addr = "m:1"
    member._following.start = followed.append  # type: ignore[method-assign, assignment]
    trio.run(member.open_store_again)
    assert (len(host.was_fenced), followed) == (1, ["m:1"])
    member.state.sync_set = SyncSet(1, frozenset({1, 2}), 1, 0)
    assert not member.may_open_store_again
    trio.run(member.open_store_again)
    assert (len(host.was_fenced), followed) == (1, ["m:1"])


def test_a_master_without_slaves_opens_its_store_again_and_registers_anew() -> None:
    """It used to refuse messages until somebody had started it again."""
    host, asked = Opening(), list[str]()
    member = member_of(host)
    host.state = state = member.state
    state.own_id, state.master_epoch, state.is_fenced = 1, 4, False
    state.sync_set = SyncSet(1, frozenset({1}), 1, 0)

    async def register() -> bool:
        asked.append("register")
        if len(asked) == 1:
            raise OSError("no controller leads")
        return True

    async def leadership() -> None:
        asked.append("who leads?")
        await trio.sleep_forever()

    member._register = register  # type: ignore[method-assign]
    member._questions.leadership = leadership  # type: ignore[method-assign, assignment]

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            await member.open_store_again()
            assert host.was_fenced == [True]
            assert state.sync_set is None
            nursery.start_soon(member._look)
            await trio.sleep(1000)
            nursery.cancel_scope.cancel()

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
    assert asked == ["register", "register", "who leads?"], "its term is over before it asks"


def test_a_heartbeat_tells_that_no_message_is_taken() -> None:
    """Nothing is said otherwise, as by Apache's brokers. A disk that cannot be asked takes none."""

    def cannot_be_asked() -> str:
        raise StorageError("why_not_writeable failed on /broker")

    store = SimpleNamespace(written_offset=1, confirmed_offset=1, why_not_writeable=str)
    host = Opening()
    host.broker = SimpleNamespace(store=store)  # type: ignore[assignment]
    member = member_of(host)
    assert member._heartbeat().takes_messages is None
    store.why_not_writeable = lambda: "its disk is 91% full"
    assert member._heartbeat().takes_messages is False
    store.why_not_writeable = cannot_be_asked
    assert member._heartbeat().takes_messages is False


LOG_END = NEAR_BYTES * 3


class Handing:
    """A master whose successor, 2, acknowledges what the test says. ``held_s`` says since when its clients wait."""

    def __init__(self, acked: int | None, watch: Any = None):
        self.acked = acked
        self.watch = watch
        self.held_s: float | None = None
        self.has_caught_up: bool | None = None

    def hold(self) -> None:
        self.held_s = trio.current_time()

    async def run(self) -> None:
        master: Any = SimpleNamespace(
            store=SimpleNamespace(written_offset=LOG_END), acked=lambda: {} if self.acked is None else {2: self.acked}
        )
        pending: Any = SimpleNamespace(has_settled=lambda log_end: True)
        self.has_caught_up = await has_caught_up(master, pending, self.watch, 2, self.hold)


def handed(first: int | None, later: int | None) -> Handing:
    """``later`` is what the successor acknowledges after half of the time."""
    handing = Handing(first)

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(handing.run)
            await trio.sleep(CATCH_UP_MAX_S / 2)
            handing.acked = later

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
    return handing


def test_clients_wait_once_the_successor_is_nearly_level() -> None:
    assert handed(LOG_END, LOG_END).held_s == 0
    found = handed(0, LOG_END)
    assert found.has_caught_up
    assert found.held_s is not None
    assert found.held_s >= CATCH_UP_MAX_S / 2


def test_clients_do_not_wait_for_a_successor_that_is_far_behind_or_away() -> None:
    """They waited for a second, and the master stayed."""
    for acked in (LOG_END - NEAR_BYTES - 1, None):
        found = handed(acked, acked)
        assert (found.has_caught_up, found.held_s) == (False, None)


def test_a_successor_that_is_lost_meanwhile_ends_the_wait() -> None:
    found = handed(LOG_END - 1, None)
    assert (found.has_caught_up, found.held_s) == (False, 0)


class Watch:
    """The successor copies tables for ``takes_s``. Then it is behind in the log, as if a delayed message had come."""

    def __init__(self, takes_s: float):
        self.takes_s = takes_s
        self.handing = Handing(LOG_END, self)
        self.held_s: float | None = None

    async def copied_by(self, broker_id: int) -> bool:
        self.held_s = self.handing.held_s
        await trio.sleep(self.takes_s)
        self.handing.acked = LOG_END - 1
        return True


def test_tables_are_copied_while_clients_wait_and_then_the_log_again() -> None:
    watch = Watch(0.1)

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch.handing.run)
            await trio.sleep(0.2)
            assert watch.handing.has_caught_up is None
            watch.handing.acked = LOG_END

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
    assert (watch.handing.has_caught_up, watch.held_s) == (True, 0)


def test_a_successor_that_copies_tables_for_long_is_behind() -> None:
    watch = Watch(10)
    trio.run(watch.handing.run, clock=trio.testing.MockClock(autojump_threshold=0))
    assert (watch.handing.has_caught_up, watch.held_s) == (False, 0)
