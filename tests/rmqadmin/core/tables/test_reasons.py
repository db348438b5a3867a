"""What is wrong is read to its end: a reason that its column cuts, or that has no column, follows the table whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import pytest

from rmqadmin.cli.output.output_format import Format
from rmqadmin.cli.output.rendering import render
from rmqadmin.core.results import Result, Row, doc
from rmqadmin.core.tables.layout import TableView

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
