"""Histories of sets of brokers, and broken rules that show in them."""

from __future__ import annotations

import pytest

from tests.simulation.ledger import Violation
from tests.simulation.product import Product
from tests.simulation.simulation import Simulation
from tests.simulation.variants import (
    AIMS,
    QUORUM_VARIANTS,
    VARIANTS,
    Aim,
    Variant,
    answers_before_etcd_has_it,
    slave_reports_before_it_writes,
    takes_messages_with_too_few,
)

QUICK_SEEDS = 40
SLOW_SEEDS = 3000
SEEDS_OF_A_VARIANT = 400
"""Each is seen in the first 70."""

QUICK_SEEDS_OF_A_QUORUM = 20


def first_caught(variant: Variant, seeds: int, controllers: int = 1) -> int | None:
    broken, aim = Product(variant), AIMS.get(variant, Aim())
    for seed in range(seeds):
        try:
            Simulation(seed, broken, controllers=controllers, mode=aim.mode, kinds=aim.kinds).check()
        except Violation:
            return seed
    return None


def test_nothing_is_lost_and_all_is_well_again() -> None:
    acknowledged = 0
    for seed in range(QUICK_SEEDS):
        run = Simulation(seed)
        run.check()
        acknowledged += len(run.ledger.acknowledged)
    assert acknowledged > 10 * QUICK_SEEDS


def test_nor_with_three_controllers_behind_one_etcd() -> None:
    acknowledged = decided = 0
    for seed in range(QUICK_SEEDS_OF_A_QUORUM):
        run = Simulation(seed, controllers=3)
        run.check()
        assert run.etcd is not None
        acknowledged += len(run.ledger.acknowledged)
        decided += run.etcd.decisions
    assert acknowledged > 10 * QUICK_SEEDS_OF_A_QUORUM
    assert decided > 5 * QUICK_SEEDS_OF_A_QUORUM


@pytest.mark.slow
@pytest.mark.parametrize(("controllers", "seeds"), [(1, SLOW_SEEDS), (3, SLOW_SEEDS // 3)])
def test_nothing_is_lost_in_thousands_of_histories(controllers: int, seeds: int) -> None:
    for seed in range(QUICK_SEEDS, seeds):
        try:
            Simulation(seed, controllers=controllers).check()
        except Exception as error:
            error.add_note(f"python -m tests.simulation --seed {seed} --controllers {controllers}")
            raise


@pytest.mark.parametrize("controllers", [1, 3])
def test_a_seed_is_a_history(controllers: int) -> None:
    runs = [Simulation(7, controllers=controllers, is_recorded=True) for _ in range(2)]
    for run in runs:
        run.check()
    assert runs[0].world.lines == runs[1].world.lines
    assert len(runs[0].world.lines or ()) > 40


@pytest.mark.parametrize("variant", [slave_reports_before_it_writes, takes_messages_with_too_few])
def test_a_broken_rule_shows_soon(variant: Variant) -> None:
    assert first_caught(variant, QUICK_SEEDS) is not None


def test_a_broken_quorum_shows_soon() -> None:
    assert first_caught(answers_before_etcd_has_it, QUICK_SEEDS, 3) is not None


@pytest.mark.slow
@pytest.mark.parametrize("variant", QUORUM_VARIANTS)
def test_every_broken_rule_of_a_quorum_shows(variant: Variant) -> None:
    assert first_caught(variant, SEEDS_OF_A_VARIANT, 3) is not None


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_broken_rule_shows(variant: Variant) -> None:
    assert first_caught(variant, SEEDS_OF_A_VARIANT) is not None
