"""The tabs of a message: one line, and only the views that have been opened."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from textual.widget import Widget

from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.tui.screens.message import MessageScreen
from rmqadmin.tui.widgets.tabbed_view import TabbedView, TabLine
from rmqadmin.tui.widgets.texts.json_tree import JsonTree
from tests.rmqadmin.tui.fixed import ADDRS, NOW_MS, TOPIC, FixedClient, dead_letter
from tests.rmqadmin.tui.opened import Driver, drive


async def open_message(driver: Driver) -> MessageScreen:
    """Opens a message that has not failed, without a list, and with no refreshes that draw."""
    stored = msgspec.structs.replace(dead_letter(0), topic=TOPIC)
    screen = MessageScreen(FoundMessage(stored, "broker-a", ADDRS["broker-a"], stored.properties))
    await driver.until_shown("Pulse")
    await driver.app.push_screen(screen)
    await driver.until_shown("tailnum")
    await driver.press("space")
    return screen


def widgets_of(view: TabbedView) -> Counter[type[Widget]]:
    return Counter(type(widget) for widget in view.walk_children(Widget))


def test_the_widgets_of_a_tab_are_made_when_it_is_opened() -> None:
    async def test(driver: Driver) -> None:
        screen = await open_message(driver)
        before = widgets_of(screen.tabs)
        await driver.press("4", "1", "4")
        await driver.until_shown("RETRY_TOPIC")
        assert {kind.__name__: count for kind, count in (widgets_of(screen.tabs) - before).items()} == {"TextLines": 1}

    drive(FixedClient, test, size=(120, 30), now_ms=NOW_MS)


def test_arrows_go_from_tab_to_tab_and_a_click_into_one() -> None:
    """An arrow used to move the focus into the tab, so the next one scrolled there."""

    async def test(driver: Driver) -> None:
        screen = await open_message(driver)
        await driver.press("tab", "right", "right")
        assert (screen.open_tab, type(driver.app.focused)) == ("hex", TabLine)
        await driver.press("left", "left", "left")
        assert screen.open_tab == "trace"
        await driver.press("2")
        assert driver.app.focused is screen.tabs.contents[0]
        await driver.pilot.click(TabLine, offset=(1, 1))
        await driver.until(lambda: isinstance(driver.app.focused, JsonTree))
        assert screen.open_tab == "json"

    drive(FixedClient, test, size=(120, 30), now_ms=NOW_MS)


@pytest.mark.parametrize(("width", "titles"), [(120, " JSON  Text"), (30, "Text  Hex  Properties  Record")])
def test_the_open_title_is_in_view_with_the_bar_below_it(width: int, titles: str) -> None:
    async def test(driver: Driver) -> None:
        await open_message(driver)
        await driver.press("5")
        await driver.until_shown("record size")
        lines = driver.text.splitlines()
        at = next(at for at, line in enumerate(lines) if line.startswith(titles))
        begin = lines[at].index("Record")
        assert lines[at + 1][begin - 1 : begin + len("Record") + 1].rstrip("╺") == "╸" + "━" * len("Record")

    drive(FixedClient, test, size=(width, 40), now_ms=NOW_MS)
