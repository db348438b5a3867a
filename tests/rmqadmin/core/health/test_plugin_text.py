"""The line for monitoring systems, which parsers can read, and the thresholds that decide its state."""

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqadmin.core.health.plugin_text import (
    CheckedThing,
    CheckResult,
    Measure,
    PluginState,
    Quantity,
    parse_thresholds,
    state_of,
)
from rmqproto.errors import UsageError
from tests.support.quick import in_one_test

PERFDATA = re.compile(r"('[^'=|]*'|[^ '=|]+)=(-?[\d.]+)(s|%|)(;[\d.]*){0,2};0")
"""The format in the guidelines for monitoring plug-ins."""

VALUES = st.floats(0, 1e12, allow_nan=False)


@given(st.text(max_size=20), VALUES, st.sampled_from(["", "s", "%"]), st.none() | VALUES, st.none() | VALUES)
def test_performance_data_parses_whatever_a_group_is_called(
    label: str, value: float, unit: str, warning: float | None, critical: float | None
) -> None:
    text = str(Measure(label, value, unit, warning, critical))
    found = PERFDATA.fullmatch(text)
    assert found is not None, text
    assert float(found[2]) == pytest.approx(value, abs=1e-6)
    assert found[3] == unit


@given(st.text(max_size=40), st.text(max_size=40))
def test_nothing_in_a_name_ends_the_text_or_the_line(name: str, what: str) -> None:
    result = CheckResult([CheckedThing(name, PluginState.OK, what, [Measure("lag", 12, "", 100, 1000)])], "all")
    (line,) = result.cards(None, None)
    assert line.count("|") == 1
    assert line.splitlines() == [line[:-1]]
    assert line.endswith(" | lag=12;100;1000;0\n")


@pytest.mark.parametrize(
    ("value", "state"),
    [(10, PluginState.OK), (10.1, PluginState.WARNING), (20, PluginState.WARNING), (21, PluginState.CRITICAL)],
)
def test_a_value_at_its_threshold_is_well(value: float, state: PluginState) -> None:
    assert state_of(value, 10, 20) is state


def test_what_is_not_known_passes_no_threshold_and_is_worse_than_a_warning() -> None:
    assert state_of(None, 0, 0) is PluginState.OK
    things = [CheckedThing(state.name, state, "x") for state in PluginState]
    order = [PluginState.OK, PluginState.WARNING, PluginState.UNKNOWN, PluginState.CRITICAL]
    for count in range(1, 5):
        chosen = [thing for thing in things if thing.state in order[:count]]
        assert CheckResult(chosen, "all").exit_status() == order[count - 1]
    assert CheckResult([], "nothing there").plugin_line() == "OK - nothing there"


def test_the_worst_is_told_first_and_each_that_is_not_well_below() -> None:
    things = [
        CheckedThing("fine", PluginState.OK, "0 messages behind", [Measure("fine lag", 0)]),
        CheckedThing("slow", PluginState.WARNING, "5 messages behind", [Measure("slow lag", 5)]),
        CheckedThing("dead", PluginState.CRITICAL, "9 messages behind", [Measure("dead lag", 9)]),
    ]
    assert "".join(CheckResult(things, "3 groups").cards(80, 0)).splitlines() == [
        "CRITICAL - dead: 9 messages behind (and 1 more) | 'fine lag'=0;;;0 'slow lag'=5;;;0 'dead lag'=9;;;0",
        "CRITICAL: dead: 9 messages behind",
        "WARNING: slow: 5 messages behind",
    ]
    assert CheckResult(things[:1] * 2, "2 groups").plugin_line().startswith("OK - 2 groups | ")


ALL = tuple(Quantity)
MULTIPLES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


@given(st.integers(0, 10**6), st.sampled_from(sorted(MULTIPLES)))
def test_a_count_is_a_number_of_thousands(number: int, multiple: str) -> None:
    found = parse_thresholds(f"{number}{multiple}", "-w", ALL)
    assert found == {Quantity.COUNT: number * MULTIPLES[multiple]}


@given(st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(sorted(UNITS_MS))), min_size=1, max_size=3))
def test_a_time_is_a_sum_of_its_parts(parts: list[tuple[int, str]]) -> None:
    text = "".join(f"{number}{unit}" for number, unit in parts)
    expected = sum(number * UNITS_MS[unit] for number, unit in parts)
    assert parse_thresholds(text, "-w", ALL) == {Quantity.TIME_MS: expected}


@given(st.integers(0, 100), st.integers(0, 99), st.booleans())
def test_a_percentage_needs_its_sign_unless_nothing_else_makes_sense(whole: int, part: int, has_sign: bool) -> None:
    text = f"{whole}.{part:02d}{'%' if has_sign else ''}"
    (value,) = parse_thresholds(text, "-w", [Quantity.PERCENT]).values()
    assert value == pytest.approx(whole + part / 100)
    assert (Quantity.PERCENT in parse_thresholds(text, "-w", ALL)) == has_sign


@given(st.text(max_size=30))
def test_any_text_is_a_threshold_or_a_usage_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        found = parse_thresholds(text, "--warning", ALL)
        assert found
        assert all(value >= 0 for value in found.values())


def test_a_count_and_a_time_together() -> None:
    assert parse_thresholds("10k, 1h30m", "-c", ALL) == {Quantity.COUNT: 10_000, Quantity.TIME_MS: 5_400_000}


@in_one_test("", ",", "-5m", "+5m", "5", "80%", "1e3", "5 m", "10K", "nan", "5m,1h", "٣m")
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(UsageError, match="-w"):
        parse_thresholds(text, "-w", [Quantity.TIME_MS])
