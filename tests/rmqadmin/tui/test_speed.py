"""What the first frame and each key do not have to wait for. How long they take is measured by ``bench.dashboard``."""

from __future__ import annotations

from collections import Counter

import pytest
from textual.app import App
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode

from rmqadmin.tui.remembered import remember
from tests.rmqadmin.tui.fixed import NOW_MS, FixedClient
from tests.rmqadmin.tui.opened import Driver, drive
from tests.rmqadmin.tui.painted import painted


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One for each time that the whole style sheet is read once more."""
    found: list[int] = []
    reparse = Stylesheet.reparse

    def counted(sheet: Stylesheet) -> None:
        found.append(1)
        reparse(sheet)

    monkeypatch.setattr(Stylesheet, "reparse", counted)
    return found


@pytest.mark.parametrize("theme", [None, "solarized-light"])
def test_no_screen_waits_for_the_style_sheet_to_be_read_again(reads: list[int], theme: str | None) -> None:
    """Textual reads it twice for the first screen of each mode. A theme that is remembered is put on before."""
    if theme is not None:
        remember(lambda remembered: setattr(remembered, "theme", theme))

    async def test(driver: Driver) -> None:
        assert driver.app.theme == (theme or "textual-dark")
        for key, shown in (("c", "V5_5_0"), ("t", "flights"), ("g", "arrivals"), ("d", "1h ago")):
            await driver.press(key)
            await driver.until_shown(shown)
        assert reads == []

    drive(FixedClient, test, now_ms=NOW_MS)


def test_a_new_screen_is_styled_by_its_mounting_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual resumes it once more, or twice, and gives it the class of its width, and finds the style of each of its
    widgets every time."""
    styled: Counter[str] = Counter()
    find = App.update_styles

    def counted(app: App[None], node: DOMNode, animate: bool = True) -> None:
        styled[type(node).__name__] += 1
        find(app, node, animate=animate)

    monkeypatch.setattr(App, "update_styles", counted)

    async def test(driver: Driver) -> None:
        for key, shown in (
            ("c", "V5_5_0"),
            ("t", "flights"),
            ("enter", "3 queues"),
            ("g", "arrivals"),
            ("t", "3 queues"),
        ):
            await driver.press(key)
            await driver.until_shown(shown)
        names = ("PulseScreen", "BrokersScreen", "TopicsScreen", "QueuesScreen", "GroupsScreen")
        assert {name: styled[name] for name in names if styled[name]} == {"QueuesScreen": 1}  # that was left once

    drive(FixedClient, test, now_ms=NOW_MS, size=(170, 40))


def test_another_theme_is_seen_on_screens_that_were_opened_before(reads: list[int]) -> None:
    async def test(driver: Driver) -> None:
        await driver.press("t")
        await driver.until_shown("336,774")
        await driver.press("c")
        await driver.until_shown("V5_5_0")
        driver.app.theme = "solarized-light"
        await driver.until(lambda: driver.app.theme_variables["panel"] in grounds(driver))
        await driver.press("t")
        await driver.until_shown("336,774")
        await driver.until(lambda: driver.app.theme_variables["panel"] in grounds(driver))
        assert reads

    drive(FixedClient, test, now_ms=NOW_MS)


def grounds(driver: Driver) -> set[str]:
    return {ground.hex for _, _, ground in painted(driver)}
