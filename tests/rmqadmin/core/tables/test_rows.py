"""Rows that come late, and reasons that a column cuts."""

from collections.abc import Sequence
from typing import Annotated, ClassVar

import pytest

from rmqadmin.cli.output.output_format import Format
from rmqadmin.cli.output.rendering import render
from rmqadmin.core.results import Result, Row, columns, doc
from rmqadmin.core.tables.layout import Layout, TableView


class Step(Row, frozen=True):
    name: Annotated[str, doc("what it is", key=True)]
    count: Annotated[int, doc("how many")]
    text: Annotated[str, doc("what it says")]


FIRST, LATER = Step(name="a", count=7, text="x" * 40), Step(name="b", count=1_234_567, text="y" * 40)


def lines(width: int | None, *, is_live: bool = False) -> list[str]:
    layout = Layout(columns(Step), [FIRST], TableView(width=width), is_live=is_live)
    return [layout.head(), layout.line(FIRST), layout.line(LATER), layout.line(FIRST)]


def test_a_number_that_has_no_room_takes_it_from_the_text_behind_it() -> None:
    """``277 ms`` used to become ``277 …`` in a column whose first value was ``82 ms``."""
    head, first, later, again = lines(40)
    assert "1,234,567" in later
    assert first == again
    assert {len(line.rstrip("\n")) for line in (first, later)} == {40}
    assert head.startswith("NAME  COUNT  TEXT")


def test_what_is_not_for_a_terminal_is_not_cut() -> None:
    assert lines(None)[2] == f"b     1,234,567  {'y' * 40}\n"


def test_live_numbers_have_room_from_the_first_row_on() -> None:
    assert lines(60, is_live=True)[0] == "NAME   COUNT  TEXT\n"


WHY = "/home/somebody/.config/rmqadmin/contexts/bad.toml:1: there is no setting 'namesrv_adr'"


class Broker(Row, frozen=True):
    broker_name: Annotated[str, doc("broker name", key=True)]
    broker_id: Annotated[int, doc("0 is the master", key=True)]
    error: Annotated[str | None, doc("why it did not answer", sparse=True)]


class Brokers(Result, frozen=True):
    row_type: ClassVar[type[Row]] = Broker
    found: list[Broker]

    def rows(self) -> Sequence[Row]:
        return self.found


def shown(width: int | None, *errors: str | None) -> str:
    rows = [Broker(broker_name="broker-a", broker_id=number, error=error) for number, error in enumerate(errors)]
    return "".join(render(Brokers(rows), "clusterList", Format.TABLE, view=TableView(width=width)))


@pytest.mark.parametrize("width", [30, 80])
def test_a_reason_that_is_cut_follows_the_table(width: int) -> None:
    text = shown(width, WHY, "gone", None)
    assert " ".join(text.partition("\n\n")[2].split()).startswith(f"broker-a/0: {WHY}")
    assert "broker-a/1:" not in text
    assert "broker-a/2:" not in text


@pytest.mark.parametrize(("width", "errors"), [(None, (WHY,)), (200, (WHY, None)), (80, (None,)), (80, ("gone",))])
def test_a_reason_that_is_whole_is_not_repeated(width: int | None, errors: tuple[str | None, ...]) -> None:
    assert shown(width, *errors).count("\n") == 1 + len(errors)
