"""The settings that the dashboard remembers from one start to the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqadmin.tui.remembered import SavedOrder, read_remembered, remember_filter, remember_order, remembered_path
from rmqadmin.tui.widgets.tables.row_table import RowTable
from tests.rmqadmin.tui.fixed import NAMESRV, FixedClient
from tests.rmqadmin.tui.opened import Driver, drive
from tests.support.quick import first_is_quick


@pytest.mark.slow
def test_tables_are_sorted_as_they_were_left() -> None:
    async def sort(driver: Driver) -> None:
        await driver.press("t")
        await driver.until_shown("flights")
        await driver.press("greater_than_sign", "o")
        await driver.until_shown("by topic, falling")
        await driver.until(lambda: read_remembered().orders == {"topics": SavedOrder("topic", descends=True)})

    async def look_again(driver: Driver) -> None:
        await driver.press("t")
        await driver.until_shown("by topic, falling", "flights")
        keys = driver.app.screen.query_one(RowTable).visible_keys()
        assert keys == sorted(keys, reverse=True)
        await driver.press("greater_than_sign", "less_than_sign", "less_than_sign")
        await driver.until(lambda: read_remembered().orders == {})

    for test in (sort, look_again):
        drive(FixedClient, test)


def test_what_another_dashboard_remembers_is_kept_and_what_cannot_be_read_is_forgotten() -> None:
    remember_order("topics", SavedOrder("topic", descends=True))
    remember_order("groups", SavedOrder("lag_count", descends=False))
    assert set(read_remembered().orders) == {"topics", "groups"}
    remembered_path().write_text('{"orders": [')
    assert read_remembered().orders == {}
    remember_order("topics", SavedOrder("topic", descends=True))
    assert set(read_remembered().orders) == {"topics"}


@pytest.mark.slow
async def test_where_nothing_can_be_written_it_says_so(driver: Driver, state_home: Path, said: list[str]) -> None:
    state_home.write_text("a file where the directory should be")
    await driver.press("t")
    await driver.until_shown("flights")
    await driver.press("greater_than_sign")
    await driver.until_shown("by topic, rising")
    await driver.until(lambda: any("tui.json" in text for text in said))


@pytest.mark.slow
def test_filter_interval_and_hidden_names_are_as_they_were_left() -> None:
    async def leave(driver: Driver) -> None:
        await driver.press("t")
        await driver.until_shown("flights", "of the system hidden")
        await driver.press("z", "slash")
        await driver.enter("fli", into="filter")
        await driver.until_shown("1 of 8 topics")
        await driver.press("plus")
        await driver.until(lambda: read_remembered().filters == {f"{NAMESRV} topics": "fli"})
        await driver.until(lambda: read_remembered().shows_system and read_remembered().interval_s is not None)

    async def look_again(driver: Driver) -> None:
        await driver.press("t")
        await driver.until_shown("1 of 8 topics", "filter fli")
        await driver.press("slash", "escape")
        await driver.until_shown("closed")
        await driver.until(lambda: read_remembered().filters == {})

    for test in (leave, look_again):
        drive(FixedClient, test)


def test_an_interval_that_nobody_can_choose_is_forgotten() -> None:
    remembered_path().parent.mkdir(parents=True, exist_ok=True)
    remembered_path().write_text('{"interval_s": 0.0}')
    assert read_remembered().interval_s is None
    remembered_path().write_text('{"interval_s": 5}')
    assert read_remembered().interval_s == 5.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    first_is_quick([b'{"orders": [', b'{"theme": "\xff"}', b'{"a":' + b"[" * 100_000]),
    ids=["cut", "bytes", "deep"],
)
def test_damaged_settings_are_told_of_once_and_kept_beside(damage: bytes, said: list[str]) -> None:
    remembered_path().parent.mkdir(parents=True, exist_ok=True)
    remembered_path().write_bytes(damage)
    beside = remembered_path().with_name("tui.json.damaged")

    async def look(driver: Driver) -> None:
        await driver.until_shown("is forgotten")
        assert [text for text in said if "tui.json.damaged" in text]
        assert beside.read_bytes() == damage
        await driver.until(lambda: driver.app.sampler is not None)
        sampler = driver.app.sampler
        assert sampler is not None
        assert [change.text for change in sampler.pulse.log.newest_first() if "tui.json" in change.text] == said

    async def look_again(driver: Driver) -> None:
        await driver.until(lambda: driver.app.sampler is not None)
        assert said == []

    drive(FixedClient, look)
    said.clear()
    drive(FixedClient, look_again)


def test_settings_damaged_meanwhile_are_kept_beside_before_they_are_written_anew() -> None:
    remembered_path().parent.mkdir(parents=True, exist_ok=True)
    remembered_path().write_text("{")
    remember_filter("topics", "fli")
    assert read_remembered().filters == {"topics": "fli"}
    assert remembered_path().with_name("tui.json.damaged").read_text() == "{"
