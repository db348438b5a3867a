"""Filling in dialogs with fields."""

from __future__ import annotations

from pathlib import Path

from textual.widget import Widget
from textual.widgets import Input, Select

from rmqadmin.tui.screens.base import DashboardScreen
from tests.rmqadmin.tui.opened import Driver, put_cursor


async def fill(driver: Driver, field: str, text: str) -> None:
    """Replaces a field's text, and presses Enter."""
    await set_field(driver, field, text)
    await driver.press("enter")


async def set_field(driver: Driver, field: str, value: object) -> None:
    """Sets the text at once; typing would take a tenth of a second for each character. Or makes a choice."""
    await driver.until(lambda: bool(driver.app.screen.query(f"#field-{field}")))
    await put(driver, driver.app.screen.query_one(f"#field-{field}"), value)


async def put(driver: Driver, line: Widget, value: object) -> None:
    assert isinstance(line, Input | Select)
    line.focus()
    await driver.until(lambda: driver.app.focused is line)
    line.value = value
    await driver.handled(line)


def name_line(driver: Driver) -> Input:
    return driver.app.screen.query_one("#name", Input)


async def confirm(driver: Driver, name: str) -> None:
    await driver.until(lambda: name_line(driver).display and name_line(driver).region in driver.app.screen.region)
    await put(driver, name_line(driver), name)
    await driver.press("enter")


async def preview_user(driver: Driver, user: str, password: str) -> None:
    """Goes from the screen of users to the preview of a new user, which does not show the password."""
    await driver.press("n")
    await set_field(driver, "password", password)
    await fill(driver, "user", user)
    await driver.until_shown("create", "(new)", "Enter here does it")
    assert password not in driver.text


async def preview_grant(driver: Driver, user: str, actions: str, resources: str) -> None:
    """Goes from the screen of users to the preview of what the user may then do."""
    await put_cursor(driver, f"User:{user}/0")
    await driver.press("p")
    await set_field(driver, "actions", actions)
    await fill(driver, "resources", resources)
    await driver.until_shown(f"Allow {actions}", f"Type User:{user} to go on")


async def close(driver: Driver) -> None:
    """Goes back to the screen below, which then asks again."""
    await driver.press("escape")
    await driver.until(lambda: isinstance(driver.app.screen, DashboardScreen))


def undo_text(state_home: Path, command: str) -> str:
    (path,) = (state_home / "rmqadmin/undo").glob(f"*-{command}.yaml")
    return path.read_text()
