"""Dialogs with fields, as a test fills them in."""

from __future__ import annotations

from pathlib import Path

from textual.widgets import Input

from tests.rmqadmin.tui.opened import Driver


async def fill(driver: Driver, field: str, text: str) -> None:
    """In place of what stands there, and Enter."""
    await set_field(driver, field, text)
    await driver.press("enter")


async def set_field(driver: Driver, field: str, text: str) -> None:
    await driver.until(lambda: bool(driver.app.screen.query(f"#field-{field}")))
    line = driver.app.screen.query_one(f"#field-{field}", Input)
    line.focus()
    line.value = ""
    await driver.type(text, into=f"field-{field}")


def name_line(driver: Driver) -> Input:
    return driver.app.screen.query_one("#name", Input)


async def confirm(driver: Driver, name: str) -> None:
    await driver.until(lambda: name_line(driver).display and name_line(driver).region in driver.app.screen.region)
    name_line(driver).focus()
    await driver.type(name, into="name")
    await driver.press("enter")


def undo_text(state_home: Path, command: str) -> str:
    (path,) = (state_home / "rmqadmin/undo").glob(f"*-{command}.yaml")
    return path.read_text()
