"""Timers are sent, awaited and counted: none is lost and none is early."""

import pytest

from bench.broker.lateness import Lateness, figures, lateness_of
from bench.harness.figure import percentile
from bench.harness.servers import ours


@pytest.mark.slow
def test_all_timers_come_and_none_too_early() -> None:
    with ours() as broker:
        found = lateness_of(broker, 200)
    assert found.errors == 0
    assert len(found.others_ms) == 1000
    assert 0 <= found.others_ms[0] <= found.others_ms[-1]
    assert found.crowd_s >= 0


def test_lateness_is_held_against_apaches() -> None:
    late, in_time = Lateness([10.0, 20.0, 500.0], 2.0, errors=1), Lateness([10.0, 30.0, 400.0], 4.0, errors=0)
    p50, p99, largest, crowd = figures(late, in_time, "n")
    assert (p50.ours, p50.beside, p50.is_reached) == (20.0, 30.0, True)
    assert (p99.ours, largest.ours, largest.beside, largest.is_reached) == (500.0, 500.0, 400.0, False)
    assert (crowd.ours, crowd.beside, crowd.is_reached) == (2.0, 4.0, None)
    assert p50.errors == 1
    assert [each.beside for each in figures(late, None, "n")] == [None] * 4


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(each) for each in range(1, 201)]
    assert [percentile(values, percent) for percent in (0, 50, 99, 100)] == [1, 101, 199, 200]
