"""The line for monitoring systems: the state it gives, and that parsers can read its performance data."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqadmin.core.health.plugin_text import CheckedThing, CheckResult, Measure, PluginState, state_of

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
