"""How long a master lets its clients wait for its successor."""

from types import SimpleNamespace
from typing import Any

import trio
import trio.testing

from rmqserver.broker.controlled.duties import CATCH_UP_MAX_S, NEAR_BYTES, has_caught_up

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
