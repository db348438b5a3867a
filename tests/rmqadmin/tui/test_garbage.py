"""Searches for garbage among all objects wait until nobody presses keys."""

import gc
import sys
import weakref
from collections.abc import Iterator

import pytest

from rmqadmin.tui.garbage import YOUNG_MAX, YOUNG_MAX_IN_USE, Garbage
from tests.rmqadmin.tui.opened import Driver, clients_of, drive
from tests.support.servers import Server

pytestmark = pytest.mark.skipif(sys.version_info[:2] == (3, 14), reason="it searches in small steps by itself")


class Ring:
    """Refers to itself, so only a search finds that it is garbage."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def garbage() -> Iterator[Garbage]:
    found = Garbage()
    found.begin()
    yield found
    found.end()


def old_ring() -> weakref.ref[Ring]:
    ring = Ring()
    gc.collect(1)
    gc.collect(1)  # it is among the oldest now
    return weakref.ref(ring)


def search_young(count: int) -> None:
    for _ in range(count):
        gc.collect(1)


def test_a_search_waits_while_keys_are_pressed(garbage: Garbage) -> None:
    gc.collect()
    ring = old_ring()
    search_young(YOUNG_MAX)
    garbage.touched()
    garbage.look()
    assert ring() is not None
    garbage.look()
    assert ring() is None


def test_it_does_not_wait_for_ever(garbage: Garbage) -> None:
    ring = old_ring()
    search_young(YOUNG_MAX_IN_USE)
    garbage.touched()
    garbage.look()
    assert ring() is None


def test_the_dashboard_leaves_pythons_settings_as_they_were(server: Server) -> None:
    before = gc.get_threshold()

    async def test(driver: Driver) -> None:
        assert gc.get_threshold()[:2] == before[:2]
        assert gc.get_threshold()[2] > before[2]

    drive(clients_of(server.namesrv_addr), test)
    assert gc.get_threshold() == before
