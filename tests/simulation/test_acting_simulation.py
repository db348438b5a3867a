"""Histories of a master whose slaves act for it, and broken rules that they reveal."""

from __future__ import annotations

import pytest

from tests.simulation import product
from tests.simulation.acting import ActingSimulation
from tests.simulation.ledger import Violation
from tests.simulation.product import Product
from tests.simulation.variants import (
    ACTING_VARIANTS,
    Variant,
    slave_forgets_what_was_committed_to_it,
    slave_shows_another_log,
)

QUICK_SEEDS = 20
SLOW_SEEDS = 250
SEEDS_OF_A_VARIANT = 400
"""Each variant is detected within the first 120."""


def first_caught(variant: Variant, seeds: int) -> int | None:
    broken = Product(variant)
    for seed in range(seeds):
        try:
            ActingSimulation(seed, broken).check()
        except Violation:
            return seed
    return None


def test_nothing_is_lost_and_consumers_keep_their_place() -> None:
    acknowledged = handed_over = 0
    for seed in range(QUICK_SEEDS):
        run = ActingSimulation(seed)
        run.check()
        acknowledged += len(run.acknowledged)
        handed_over += run.handed_over
    assert acknowledged > 10 * QUICK_SEEDS
    assert handed_over > QUICK_SEEDS, "masters that came back had what was committed before"


@pytest.mark.sweep
def test_nothing_is_lost_in_hundreds_of_histories() -> None:
    for seed in range(QUICK_SEEDS, SLOW_SEEDS):
        try:
            ActingSimulation(seed).check()
        except Exception as error:
            error.add_note(f"python -m tests.simulation --acting --seed {seed}")
            raise


def test_a_slave_with_another_log_is_not_read_where_it_would_act() -> None:
    """The master loses the end of its log while the slave is away, and writes other messages there. The slave learns of
    them, and then the master goes away."""
    told = sum(_tells_of_another_log(seed, product.as_it_is()) for seed in range(QUICK_SEEDS))
    assert told > 1
    broken = Product(slave_shows_another_log)
    with pytest.raises(Violation, match="and knows that its log is another"):
        sum(_tells_of_another_log(seed, broken) for seed in range(QUICK_SEEDS))


def _tells_of_another_log(seed: int, of: Product) -> bool:
    """Returns False if nothing was lost."""
    run = ActingSimulation(seed, of, kinds=[lambda run, seconds: None])
    run._faults_end_s, told = 22.0, []
    master, slave = run.brokers[:2]
    at = run.world.at
    at(6.0, lambda: slave.kill(is_power_cut=False))
    at(6.05, lambda: master.kill(is_power_cut=True))
    at(7.0, lambda: run.start(master))
    at(11.0, lambda: run.start(slave))
    at(15.0, lambda: told.append(slave in run._told))
    at(15.0, lambda: master.kill(is_power_cut=False))
    at(17.0, lambda: run.pull(slave, 0))  # by a consumer that is far behind
    at(20.0, lambda: run.start(master))
    run.check()
    return told == [True]


def test_a_seed_is_a_history() -> None:
    runs = [ActingSimulation(7, is_recorded=True) for _ in range(2)]
    for run in runs:
        run.check()
    assert runs[0].world.lines == runs[1].world.lines
    assert len(runs[0].world.lines or ()) > 50


def test_a_broken_rule_shows_soon() -> None:
    assert first_caught(slave_forgets_what_was_committed_to_it, QUICK_SEEDS) is not None


@pytest.mark.slow
@pytest.mark.parametrize("variant", ACTING_VARIANTS)
def test_every_broken_rule_shows(variant: Variant) -> None:
    assert first_caught(variant, SEEDS_OF_A_VARIANT) is not None
