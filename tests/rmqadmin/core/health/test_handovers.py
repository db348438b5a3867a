"""Servers that are asked in the middle of a handover."""

from __future__ import annotations

from typing import Any

import pytest

from rmqadmin.core.health.ha_checks import AGAIN_AFTER_S, ServerFacts, read_settled
from rmqadmin.core.servers.ha_sets import HaFacts, HaSet
from tests.rmqadmin.core.health.test_ha_checks import controlled, dead, master, slave

AFTER = controlled(master(2), slave(1), master_id=2, registered_master=2)


def looked_at(*readings: HaSet) -> tuple[list[float], HaSet]:
    """How long it waited before each reading but the first, and the set that it took."""
    left, slept_s = [*readings], list[float]()
    cluster: Any = None

    def read() -> ServerFacts:
        return ServerFacts(cluster, HaFacts(sets=[left.pop(0)], controllers=[]))

    found = read_settled(read, lambda text: None, slept_s.append)
    return slept_s, found.ha.sets[0]


@pytest.mark.parametrize(
    "before",
    [
        controlled(master(1), slave(2), master_id=2, registered_master=1),
        controlled(slave(1), master(2), master_id=2, registered_master=1),
        controlled(master(1), master(2), master_id=2, registered_master=2),
        controlled(slave(1, in_sync=False), master(2), master_id=2, registered_master=2),
        controlled(slave(1), master(2), master_id=2, registered_master=None),
    ],
    ids=["elected", "opened", "both", "alone", "not registered"],
)
def test_a_set_that_changes_its_master_is_asked_again(before: HaSet) -> None:
    """Doctor said that a broker had never reached its master, and that one with the id 0 was a slave: errors, where
    nothing was wrong a second later."""
    assert looked_at(before, AFTER) == ([AGAIN_AFTER_S], AFTER)


def test_what_stays_so_is_told() -> None:
    alone = controlled(master(1), slave(2, in_sync=False))
    assert looked_at(alone, alone) == ([AGAIN_AFTER_S], alone)


@pytest.mark.parametrize(
    "found", [AFTER, controlled(master(1), dead(2)), controlled(dead(1), dead(2), master_id=None)],
    ids=["well", "a dead slave", "no master"],
)  # fmt: skip
def test_one_that_does_not_is_asked_once(found: HaSet) -> None:
    assert looked_at(found) == ([], found)
