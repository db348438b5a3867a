"""``--watch`` and ``--until``."""

import json
from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar

import pytest

from rmqadmin.cli.output.asked_columns import Look
from rmqadmin.cli.output.output_format import Color, Format
from rmqadmin.cli.watch import parse_until, watch
from rmqadmin.core.results import Result, Row, doc
from rmqproto.errors import ConnectError, UsageError
from tests.rmqadmin.conftest import Rmqadmin
from tests.support.quick import in_one_test


class LagRow(Row, frozen=True):
    name: Annotated[str, doc("name", key=True)]
    lag_count: Annotated[int | None, doc("lag")]
    active: Annotated[bool, doc("active")]


class Total(Row, frozen=True):
    total_count: Annotated[int, doc("total")]


class Lags(Result, frozen=True):
    """Lags."""

    row_type: ClassVar[type[Row]] = LagRow
    lags: list[int | None]

    def rows(self) -> Sequence[LagRow]:
        return [LagRow(name=f"q{at}", lag_count=lag, active=lag == 0) for at, lag in enumerate(self.lags)]

    def summary(self) -> Total:
        return Total(total_count=sum(lag or 0 for lag in self.lags))


@in_one_test(
    ("lag_count == 0", [0, 0], True),
    ("lag_count==0", [0, 1], False),
    ("lag_count == 0", [], False),  # no rows is not the same as no lag
    ("lag_count == 0", [0, None], False),
    ("lag_count < 2", [0, 1], True),
    ("lag_count >= 1", [1, 5], True),
    ("lag_count != 3", [1, 5], True),
    ("total_count <= 6", [1, 5], True),
    ("total_count > 6", [1, 5], False),
    ("active == true", [0, 0], True),
    ("active == true", [0, 1], False),
    ("name == q0", [4], True),
    ("name == 'q0'", [4, 4], False),
)
def test_a_condition_holds_for_the_summary_or_for_every_row(
    expression: str, lags: list[int | None], holds: bool
) -> None:
    assert parse_until(expression).holds(Lags(lags)) is holds


@pytest.mark.parametrize("expression", ["", "lag_count", "lag_count = 0", "== 0", "lag_count =="])
def test_what_is_no_condition_is_refused(expression: str) -> None:
    with pytest.raises(UsageError):
        parse_until(expression)


def test_a_field_that_is_not_there_is_refused_and_those_that_are_are_named() -> None:
    with pytest.raises(UsageError) as caught:
        parse_until("lag == 0").holds(Lags([0]))
    assert caught.value.hint == "The fields are name, lag_count, active, total_count."
    with pytest.raises(UsageError):
        parse_until("lag_count == none").holds(Lags([0]))


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr("rmqadmin.cli.watch.time.sleep", found.append)
    return found


def answers(*lags: list[int | None] | Exception) -> Iterator[Lags]:
    for lag in lags:
        if isinstance(lag, Exception):
            raise lag
        yield Lags(lag)


def test_elsewhere_than_on_a_terminal_each_tick_is_one_line_until_the_condition_holds(
    slept: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = answers([2], [1], [0], [0])
    last = watch(lambda: next(asked), "c", Look(Format.JSONL, Color.NEVER), 5.0, parse_until("lag_count == 0"))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["summary"]["total_count"] for line in lines] == [2, 1, 0]
    assert last == Lags([0])
    assert slept == [5.0, 5.0]


@pytest.mark.parametrize("format", [Format.CSV, Format.TSV])
def test_a_table_of_ticks_has_one_heading(
    slept: list[float], capsys: pytest.CaptureFixture[str], format: Format
) -> None:
    asked = answers([2], [1], [0])
    watch(lambda: next(asked), "command", Look(format, Color.NEVER), 1.0, parse_until("lag_count == 0"))
    lines = capsys.readouterr().out.splitlines()
    assert [line.startswith("name") for line in lines] == [True, False, False, False]


def test_elsewhere_than_on_a_terminal_nothing_marks_what_has_changed(
    slept: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = answers([2], [0])
    watch(lambda: next(asked), "c", Look(Format.TABLE, Color.NEVER), 5.0, parse_until("lag_count == 0"))
    out = capsys.readouterr().out
    assert out.count("LAG") == 2
    assert "\x1b" not in out


def test_a_server_that_is_away_for_a_tick_does_not_end_a_watch_that_has_begun(
    slept: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[Lags | ConnectError] = [Lags([1]), ConnectError("away", address="h:1"), Lags([0])]

    def ask() -> Lags:
        answer = said.pop(0)
        if isinstance(answer, ConnectError):
            raise answer
        return answer

    watch(ask, "c", Look(Format.JSONL, Color.NEVER), 1.0, parse_until("lag_count == 0"))
    captured = capsys.readouterr()
    assert captured.out.count("\n") == 2
    assert captured.err == "rmqadmin: away; asking again in 1 s\n"
    assert len(slept) == 2


def test_the_first_tick_fails_as_the_command_would(slept: list[float]) -> None:
    asked = answers(ConnectError("away", address="h:1"))
    with pytest.raises(ConnectError):
        watch(lambda: next(asked), "c", Look(Format.JSONL, Color.NEVER), 1.0, None)
    assert slept == []


@pytest.mark.parametrize("expression", ["lag == 0", "lag_count == none"])
def test_a_condition_that_cannot_be_is_refused_before_anything_is_shown(
    expression: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole first table stood before the error."""
    with pytest.raises(UsageError):
        watch(lambda: Lags([1]), "c", Look(Format.TABLE, Color.NEVER), 1.0, parse_until(expression))
    assert capsys.readouterr().out == ""


def test_until_needs_watch(run: Rmqadmin) -> None:
    run("topicList", "--until", "topic == T", status=2, err="--until needs --watch")


def test_a_watch_on_a_server_ends_with_0_when_the_condition_holds(rmqadmin: Rmqadmin) -> None:
    ran = rmqadmin("clusterList", "--watch", "0.1", "--until", "active == true", "--output", "jsonl", status=0)
    assert ran.items[0]["active"] is True


def test_mqadmins_interval_is_a_watch(rmqadmin: Rmqadmin) -> None:
    rmqadmin("clusterList", "-i", "0.1", "--until", "active == true", "--output", "jsonl", status=0)


def test_the_time_of_a_single_probe_is_its_mean(rmqadmin: Rmqadmin) -> None:
    """`clusterRT -a 1` showed no number: the first message, which opens the connection, is left out of a mean."""
    (row,) = rmqadmin("-o", "json", "clusterRT", "-a", "1").items
    assert row["mean_rt_ms"] > 0
