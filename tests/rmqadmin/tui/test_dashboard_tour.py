"""docs/dashboard-tour.md: its keys are pressed in order, and its bold words appear on the screen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.rmqadmin.tui.fixed import NOW_MS
from tests.rmqadmin.tui.opened import Driver

PAGE = Path(__file__).parents[3] / "docs/dashboard-tour.md"
_STEP = re.compile(r"^\| (`.+`) \| (.+) \|$", re.MULTILINE)
_NAMES = {"?": "question_mark", "/": "slash", ":": "colon", "esc": "escape", ">": "greater_than_sign"}


def steps() -> list[tuple[list[str], list[str]]]:
    """For each line of its tables, the keys and texts, and the words that must then be on the screen."""
    found = _STEP.findall(PAGE.read_text())
    return [(re.findall(r"`(.+?)`", keys), re.findall(r"\*\*(.+?)\*\*", seen)) for keys, seen in found]


@pytest.mark.slow
@pytest.mark.usefixtures("utc")
@pytest.mark.dashboard(size=(120, 40), now_ms=NOW_MS, interval_s=2.0)
async def test_the_keys_of_the_page(driver: Driver) -> None:
    assert len(steps()) >= 15
    await driver.until_shown("Furthest behind", "Wrong", "Changes", "arrivals")
    for keys, seen in steps():
        for key in keys:
            if len(key) > 1 and key not in (*_NAMES, "enter", "space", "tab"):
                await type_in(driver, key)
            else:
                await driver.press(_NAMES.get(key, key))
        await driver.until(lambda seen=seen: all(word.lower() in driver.text.lower() for word in seen))


async def type_in(driver: Driver, text: str) -> None:
    """Types into the input that the key before it has opened."""
    await driver.type(text, into="filter" if driver.app.screen.query("#filter") else "command")
