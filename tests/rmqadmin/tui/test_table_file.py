"""The screen's table saved to a file: the rows that are shown, and what their sums lack."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import msgspec
import pytest
from textual.widgets import Input

from rmqadmin.core.files import expanded
from rmqadmin.tui.command_line.line_screen import CommandLineScreen
from rmqadmin.tui.command_line.places import write_table
from rmqadmin.tui.widgets.tables.columns import NUMBERS, Column
from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqadmin.tui.widgets.tables.rows import Rows
from rmqproto.errors import UsageError
from tests.rmqadmin.tui.conftest import World
from tests.rmqadmin.tui.opened import Driver, at_row, drive


class Lag(msgspec.Struct, frozen=True):
    lag_count: int
    lacking: tuple[str, ...] = ()


def rows_of(*parts: Lag) -> Rows:
    rows = Rows([Column(name="lag_count", is_number=True, is_sum=True)], lambda: 0, None)
    rows.set_base((str(at), part) for at, part in enumerate(parts))
    rows.arrange()
    return rows


def test_a_sum_that_lacks_a_broker_says_so_in_the_file_too(tmp_path: Path) -> None:
    path = tmp_path / "lag.csv"
    assert write_table(path, rows_of(Lag(1000), Lag(2, ("broker-b",)))) == 2
    assert path.read_text() == "lag_count,lacking\n1000,\n2,broker-b\n"
    whole = tmp_path / "whole.jsonl"
    write_table(whole, rows_of(Lag(1000)))
    assert whole.read_text() == '{"lag_count": 1000}\n'


@pytest.mark.parametrize(
    ("name", "told"),
    [("there.csv", "not replaced"), ("x.txt", "must end in"), ("no/x.csv", "No such file"), ("x\0.csv", "no NUL")],
)
def test_what_cannot_be_written_is_refused(tmp_path: Path, name: str, told: str) -> None:
    (tmp_path / "there.csv").write_text("mine")
    with pytest.raises(UsageError, match=told):
        write_table(expanded(tmp_path / name), rows_of(Lag(1)))
    assert (tmp_path / "there.csv").read_text() == "mine"


@pytest.mark.slow
def test_topics_as_they_are_filtered(world: World, tmp_path: Path, said: list[str]) -> None:
    async def save(driver: Driver, path: Path) -> None:
        await driver.press("colon")
        await driver.until(lambda: isinstance(driver.app.screen, CommandLineScreen))
        driver.app.screen.query_one("#command", Input).value = f"save {path}"
        await driver.press("enter")
        await driver.until(lambda: f"saved 1 row in {path}" in said)

    async def test(driver: Driver) -> None:
        await at_row(driver, "t", world.topic, "slash")
        await driver.enter(world.topic, into="filter")
        await driver.until_shown("1 of ")
        table = driver.app.screen.query_one(RowTable)
        await driver.until(lambda: table.part(world.topic, NUMBERS) is not None)
        for name in ("topics.csv", "topics.jsonl"):
            await save(driver, tmp_path / name)

    drive(world.make_client, test, size=(200, 40))
    (record,) = csv.DictReader((tmp_path / "topics.csv").read_text().splitlines())
    assert (record["topic"], record["perm"], record["message_count"]) == (world.topic, "RW (6)", "4")
    assert record["last_updated_ms"].startswith("20")
    (told,) = map(json.loads, (tmp_path / "topics.jsonl").read_text().splitlines())
    assert (told["topic"], told["message_count"]) == (world.topic, 4)
