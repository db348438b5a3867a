"""Runs the fuzz targets over their seeds, without a fuzzer. Each finding of ``make fuzz`` becomes a seed and so a
test."""

import pytest

from fuzz.targets import TARGETS, run_one, seeds
from tests.support.quick import in_one_test

CASES = [(name, number) for name in TARGETS for number in range(len(seeds(name)))]


@in_one_test(*CASES)
def test_seed(name: str, number: int) -> None:
    run_one(TARGETS[name], seeds(name)[number])


@pytest.mark.parametrize("name", TARGETS)
def test_every_cut_of_every_seed(name: str) -> None:
    for part in {seed[:cut] for seed in seeds(name) for cut in range(min(len(seed), 300))}:  # many begin alike
        run_one(TARGETS[name], part)


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_takes_at_least_one_of_its_seeds(name: str) -> None:
    """Fuzzing a target that refuses all seeds would be in vain."""
    from rmqproto.errors import ProtocolError

    taken = 0
    for seed in seeds(name):
        try:
            TARGETS[name](seed)
            taken += 1
        except ProtocolError:
            pass
    assert taken
