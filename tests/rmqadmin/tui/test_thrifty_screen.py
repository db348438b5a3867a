"""Work that Textual does for each key or digit and that our screens avoid. The pictures stay the same."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from rich.segment import Segment
from textual._compositor import Compositor
from textual.geometry import Region
from textual.screen import Screen
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.strip import Strip
from textual.widgets._toast import ToastRack

from rmqadmin.tui.app import DashboardApp
from rmqadmin.tui.dialogs.dialog import DimmedLines
from rmqadmin.tui.thrifty_screen import LineCompositor
from rmqadmin.tui.widgets.row_table import RowTable
from rmqadmin.tui.widgets.scroll_bar import DirectBar
from tests.rmqadmin.tui.fixed import NOW_MS, FixedClient
from tests.rmqadmin.tui.opened import Driver, drive, put_cursor
from tests.rmqadmin.tui.test_speed import ManyTopics


def test_lines_are_composed_as_textual_does_it() -> None:
    async def test(driver: Driver) -> None:
        await driver.press("t")
        await put_cursor(driver, "flights")
        compositor = driver.app.screen._compositor
        assert isinstance(compositor, LineCompositor)
        every = compositor.size.region
        for crop, wanted in (
            (every, lambda y: True),
            (every, {0, 3, 4, 39}.__contains__),
            (Region(0, 2, 170, 5), {3, 4}.__contains__),
        ):
            ours = compositor._render_chops(crop, wanted)
            theirs = Compositor._render_chops(compositor, crop, wanted)
            drawn = [y for y in crop.line_range if wanted(y)]
            assert drawn
            assert [list(ours[y].items()) for y in drawn] == [list(theirs[y].items()) for y in drawn]

    drive(FixedClient, test, now_ms=NOW_MS, size=(170, 40))


def test_a_table_is_asked_only_for_the_lines_that_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual asked for all lines when the age in the last line changed along with one row."""
    asked: list[Region] = []
    render_lines = RowTable.render_lines

    def noted(table: RowTable, crop: Region) -> list[Strip]:
        asked.append(crop)
        return render_lines(table, crop)

    async def test(driver: Driver) -> None:
        await driver.press("t")
        await put_cursor(driver, "flights")
        await driver.press("space")
        await driver.until_shown("paused")
        monkeypatch.setattr(RowTable, "render_lines", noted)
        await driver.press("down")
        await driver.until(lambda: bool(asked))
        assert sum(crop.height for crop in asked) <= 2 * len(asked)

    drive(FixedClient, test, now_ms=NOW_MS, size=(170, 40))


def test_a_screen_is_whole_when_it_is_drawn_for_the_first_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The screen's own lines used to be empty, and appeared only with the second drawing."""
    first: dict[str, str] = {}
    display = vars(DashboardApp.__mro__[1])["_display"]

    def noted(app: DashboardApp, screen: Screen[Any], renderable: Any) -> None:
        if renderable is not None and type(screen).__name__ not in first:
            first[type(screen).__name__] = "\n".join(line.text for line in screen._compositor.render_strips())
        display(app, screen, renderable)

    monkeypatch.setattr(DashboardApp, "_display", noted)

    async def test(driver: Driver) -> None:
        await driver.press("t", "s")
        await driver.until_shown("Enter asks")
        for name, lines in (
            ("PulseScreen", r" rmqadmin .* Pulse .*\n.* asking … *\n.* Keys +q Quit"),
            ("TopicsScreen", r" rmqadmin .* Topics .*\n topics unknown .*\n.* Keys +q Quit"),
            ("SearchScreen", r" rmqadmin .* Search .*\n Enter asks .*\n.* Leave the line"),
        ):
            assert re.match(lines, first[name], re.DOTALL), first[name]

    drive(FixedClient, test, now_ms=NOW_MS, size=(170, 40))


def test_neither_rows_nor_a_mounted_screen_nor_what_says_nothing_ask_for_a_layout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With Textual they do, and the whole screen is drawn again."""
    laid_out: Counter[str] = Counter()
    lay_out = vars(Screen)["_refresh_layout"]

    def counted(screen: Screen[Any], size: Any = None, scroll: bool = False) -> None:
        laid_out[type(screen).__name__] += 1
        lay_out(screen, size, scroll)

    monkeypatch.setattr(Screen, "_refresh_layout", counted)

    async def test(driver: Driver) -> None:
        await driver.press("t")
        await put_cursor(driver, "flights")
        await driver.press("space")
        table = driver.app.screen.query_one(RowTable)
        await driver.until(lambda: not table._layout_required)
        table.set_rows([(key, table.part(key)) for key in table.row_keys()[:1]])
        assert (table.row_count, table.virtual_size.height, table._layout_required) == (1, 2, False)
        await driver.press("s")
        await driver.until_shown("Enter asks")
        await driver.press("tab", "tab")
        assert laid_out["SearchScreen"] <= 2
        (toasts,) = driver.app.screen.query_children(ToastRack)
        assert not toasts.styles.inline.has_rule("display")
        driver.app.say("something")
        await driver.until(lambda: toasts.display)

    drive(FixedClient, test, now_ms=NOW_MS, size=(170, 40))


def test_below_a_dialog_a_line_is_dimmed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All lines used to be dimmed again with each key, and four times when the dialog was opened."""
    dimmed: Counter[str] = Counter()
    dim = DimmedLines._dim

    def counted(lines: DimmedLines, pieces: tuple[Strip, ...], *styles: object) -> object:
        dimmed["".join(piece.text for piece in pieces)] += 1
        return dim(lines, pieces, *styles)  # type: ignore[arg-type]

    monkeypatch.setattr(DimmedLines, "_dim", counted)

    async def test(driver: Driver) -> None:
        await driver.press("t")
        await put_cursor(driver, "flights")
        await driver.press("space")
        await driver.until_shown("paused")
        await driver.press("question_mark")
        await driver.until_shown("on this screen")
        await driver.press("down", "up", "down")
        assert dimmed.total() >= 24
        assert {count for text, count in dimmed.items() if "flights" in text} == {1}

    drive(FixedClient, test, now_ms=NOW_MS, size=(120, 24))


def test_scroll_bars_look_as_textuals_do(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(driver: Driver) -> None:
        await driver.press("t")
        await driver.until_shown("300 topics", "1.0")
        bar = driver.app.screen.query_one(RowTable).vertical_scrollbar
        whole = bar.size.region
        for key in ("pagedown", "down", "end"):
            await driver.press(key)
            assert bar.renderer is DirectBar
            bar.refresh()
            ours = cells(bar.render_lines(whole))
            monkeypatch.setattr(ScrollBar, "renderer", ScrollBarRender)
            bar.refresh()
            assert cells(bar.render_lines(whole)) == ours
            assert len(ours) == whole.height
            monkeypatch.setattr(ScrollBar, "renderer", DirectBar)

    drive(ManyTopics, test, now_ms=NOW_MS)


def cells(strips: list[Strip]) -> list[tuple[str, object, object]]:
    """The text and style of each segment, and its effect when clicked."""
    found: list[Segment] = [segment for strip in strips for segment in strip]
    return [(one.text, one.style, one.style.meta if one.style else None) for one in found]
