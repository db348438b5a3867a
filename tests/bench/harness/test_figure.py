"""The printed form of a figure, and the exit status of the run."""

import pytest

from bench.__main__ import exit_status
from bench.harness.figure import Figure, show
from tests.support.quick import in_one_test


@in_one_test(
    (Figure("f", "ms", 300, at_most=300), True),
    (Figure("f", "ms", 301, at_most=300), False),
    (Figure("f", "MB/s", 25, 100, ratio_at_least=0.25), True),
    (Figure("f", "MB/s", 24, 100, ratio_at_least=0.25), False),
    (Figure("f", "ms", 10, 100, ratio_at_most=0.1), True),
    (Figure("f", "ms", 11, 100, ratio_at_most=0.1), False),
    (Figure("f", "ms", 11, 100), None),
    (Figure("f", "ms", 11, None, ratio_at_most=0.1), None),  # Apache was left out
)
def test_a_figure_is_held_against_its_bar(figure: Figure, is_reached: bool | None) -> None:
    assert figure.is_reached is is_reached
    assert figure.as_dict()["is_reached"] is is_reached


def test_a_missed_bar_and_errors_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    show([Figure("start", "ms", 400, 4000, "Apache's", at_most=300, errors=2), Figure("idle", "%", 0.25, at_most=1)])
    _, missed, reached = capsys.readouterr().out.splitlines()
    assert " ".join(missed.split()) == "start 400 ms 4000 ms 0.100 <= 300 ms MISSED Apache's 2 ERRORS"
    assert " ".join(reached.split()) == "idle 0.25 % <= 1 % ok"


def test_errors_end_the_run_as_a_failure_and_a_missed_bar_does_not() -> None:
    slow, wrong = Figure("f", "ms", 400, at_most=300), Figure("f", "ms", 4, errors=1)
    assert exit_status([{"errors": 0}], [slow]) == 0
    assert exit_status([{"errors": 3}], [slow]) == 1
    assert exit_status([{"errors": 0}], [slow, wrong]) == 1
