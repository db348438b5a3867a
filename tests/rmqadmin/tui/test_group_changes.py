"""Groups made, changed and deleted from the dashboard: shown first, done, and how to take it back."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqproto.bodies.groups import SubscriptionGroupConfig
from tests.rmqadmin.tui.conftest import World
from tests.rmqadmin.tui.forms import close, confirm, fill, set_field, undo_text
from tests.rmqadmin.tui.opened import Driver, at_row, put_cursor

SMALL = (80, 24)


def config_of(world: World, group: str) -> SubscriptionGroupConfig | None:
    return world.admin.all_groups(world.server.broker_addr).subscription_group_table.get(group)


@pytest.mark.slow
@pytest.mark.dashboard(size=SMALL)
async def test_a_group_is_made_changed_and_deleted(driver: Driver, world: World, state_home: Path) -> None:
    group = f"{world.group}-made"
    await at_row(driver, "g", world.group, "n")
    await fill(driver, "group", group)
    await driver.until_shown("create", "shows all 12 rows", "Enter here does it")
    assert config_of(world, group) is None
    await confirm(driver, "")
    await driver.until_shown("to undo this: rmqadmin apply -f")
    assert (made := config_of(world, group)) is not None
    assert (made.retry_max_times, made.consume_broadcast_enable) == (16, False)
    await close(driver)

    await put_cursor(driver, group)
    await driver.press("e")
    await driver.until_shown("nothing would change")
    await set_field(driver, "consume-enable", False)
    await driver.until_shown("change", "consume_enable", f"Type {group} to go on")
    await confirm(driver, group)
    await driver.until_shown("to undo this")
    assert (changed := config_of(world, group)) is not None
    assert (changed.consume_enable, changed.retry_max_times) == (False, 16)
    await close(driver)

    await put_cursor(driver, group)
    await driver.press("ctrl+d")
    await set_field(driver, "letters", True)
    await driver.until_shown("delete", f"Type {group} to go on")
    await confirm(driver, group)
    await driver.until_shown("to undo this")
    assert config_of(world, group) is None
    assert "consumeEnable: false" in undo_text(state_home, "deleteSubGroup")
