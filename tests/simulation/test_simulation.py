"""Histories of sets of brokers, and broken rules that show in them."""

from __future__ import annotations

import pytest

from tests.simulation.ledger import Violation
from tests.simulation.product import Product
from tests.simulation.simulation import Simulation
from tests.simulation.variants import (
    VARIANTS,
    Variant,
    slave_reports_before_it_writes,
    takes_messages_with_too_few,
)

QUICK_SEEDS = 40
SLOW_SEEDS = 3000
SEEDS_OF_A_VARIANT = 400
"""Each is seen in the first 130, most in the first 70."""


def first_caught(variant: Variant, seeds: int) -> int | None:
    broken = Product(variant)
    for seed in range(seeds):
        try:
            Simulation(seed, broken).check()
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


@pytest.mark.parametrize("seed", [105447])  # a slave about to cut its log, told of a master it cannot reach yet
def test_what_went_wrong_once_is_well(seed: int) -> None:
    Simulation(seed).check()


@pytest.mark.slow
def test_nothing_is_lost_in_thousands_of_histories() -> None:
    for seed in range(QUICK_SEEDS, SLOW_SEEDS):
        try:
            Simulation(seed).check()
        except Exception as error:
            error.add_note(f"python -m tests.simulation --seed {seed}")
            raise


def test_a_seed_is_a_history() -> None:
    runs = [Simulation(7, is_recorded=True) for _ in range(2)]
    for run in runs:
        run.check()
    assert runs[0].world.lines == runs[1].world.lines
    assert len(runs[0].world.lines or ()) > 50


@pytest.mark.parametrize("variant", [slave_reports_before_it_writes, takes_messages_with_too_few])
def test_a_broken_rule_shows_soon(variant: Variant) -> None:
    assert first_caught(variant, QUICK_SEEDS) is not None


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_broken_rule_shows(variant: Variant) -> None:
    assert first_caught(variant, SEEDS_OF_A_VARIANT) is not None
