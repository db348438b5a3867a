"""Work that Textual does for each key or digit and that our screens avoid. The pictures stay the same."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections import Counter
from collections.abc import Callable
from itertools import groupby
from types import SimpleNamespace
from typing import Any

import pytest
from rich.segment import Segment
from textual._compositor import Compositor, LayoutUpdate
from textual._context import visible_screen_stack
from textual._styles_cache import StylesCache
from textual.app import App
from textual.command import CommandPalette
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode
from textual.events import Resize
from textual.filter import ANSIToTruecolor
from textual.geometry import Region
from textual.screen import Screen
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets._toast import ToastRack

from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.tui import thrifty_screen
from rmqadmin.tui.app import DashboardApp
from rmqadmin.tui.dialogs.dialog import Dialog, DimmedLines
from rmqadmin.tui.dialogs.form import FormScreen
from rmqadmin.tui.dialogs.inputs import FieldInput
from rmqadmin.tui.screens.message import MessageScreen
from rmqadmin.tui.thrifty_screen import LineCompositor, ThriftyScreen
from rmqadmin.tui.widgets.key_line import KeyLine
from rmqadmin.tui.widgets.scroll_bar import DirectBar
from rmqadmin.tui.widgets.tables import row_table
from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqadmin.tui.widgets.tables.rows import Line, Rows
from rmqadmin.tui.widgets.texts.lines import Lines
from tests.rmqadmin.tui.fixed import ADDRS, NOW_MS, FixedClient, dead_letter
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
    display = App._display

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


def test_a_table_looks_as_if_textual_had_drawn_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual looks for borders and effects in each line, and applies the filter of colours to each cell."""

    async def test(driver: Driver) -> None:
        await driver.press("t")
        await put_cursor(driver, "flights")
        await driver.press("space")
        await driver.until_shown("paused")
        table = driver.app.screen.query_one(RowTable)
        whole = Region(0, 0, *table.size)
        ours = characters(table.render_lines(whole))
        monkeypatch.setattr(table, "_styles_cache", StylesCache())
        monkeypatch.setattr(RowTable, "get_line_filters", Widget.get_line_filters)
        assert any(isinstance(one, ANSIToTruecolor) for one in table.get_line_filters())
        table._styles.clear()
        assert characters(table.render_lines(whole)) == ours

    drive(FixedClient, test, now_ms=NOW_MS, size=(170, 40))


@pytest.mark.parametrize("tab", ["text", "hex", "properties"])
def test_lines_of_text_look_as_if_textual_had_drawn_them(monkeypatch: pytest.MonkeyPatch, tab: str) -> None:
    """It looks for borders and effects in each of fifty lines, which took half of the drawing of a message."""

    async def test(driver: Driver) -> None:
        letter = dead_letter(0)
        screen = MessageScreen(FoundMessage(letter, "broker-a", ADDRS["broker-a"], letter.properties), tab=tab)
        await driver.app.push_screen(screen)
        await driver.until(lambda: isinstance(driver.app.focused, Lines) and driver.app.focused.size.height > 1)
        lines = screen.tabs.contents[0]
        assert isinstance(lines, Lines)
        whole = Region(0, 0, *lines.outer_size)
        ours = seen(lines.render_lines(whole))
        monkeypatch.setattr(lines, "_styles_cache", StylesCache())
        monkeypatch.setattr(Lines, "padded", lambda lines, line: line)
        monkeypatch.setattr(Lines, "get_line_filters", Widget.get_line_filters)
        assert seen(lines.render_lines(whole)) == ours
        assert len(ours) == lines.outer_size.height > lines.virtual_size.height >= 1

    drive(FixedClient, test, now_ms=NOW_MS, size=(170, 40))


def characters(strips: list[Strip]) -> list[list[tuple[str, object]]]:
    return [[(character, style) for text, style, _ in strip for character in text] for strip in strips]


def seen(strips: list[Strip]) -> list[list[tuple[str, object]]]:
    """The characters and their styles; of a blank only the background."""
    return [
        [
            (character, style.bgcolor if character == " " and style else style)
            for text, style, _ in strip
            for character in text
        ]
        for strip in strips
    ]


def test_what_a_table_covers_is_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Region] = []
    render_lines = Screen.render_lines

    def noted(screen: Screen[Any], crop: Region) -> list[Strip]:
        asked.append(crop)
        return render_lines(screen, crop)

    async def test(driver: Driver) -> None:
        await driver.press("t")
        await put_cursor(driver, "flights")
        monkeypatch.setattr(Screen, "render_lines", noted)
        lines = driver.app.screen._compositor.render_strips()
        assert "flights" in "".join(line.text for line in lines)
        assert asked == []

    drive(FixedClient, test, now_ms=NOW_MS, size=(170, 40))


def test_rows_that_look_as_before_are_not_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual has a widget draw all of its lines when it gets the focus back, which each closed dialog causes."""
    drawn: list[str] = []
    draw = vars(row_table)["row_line"]

    def noted(rows: Rows, line: Line, *args: Any, **options: Any) -> Strip:
        drawn.append(line.key)
        return draw(rows, line, *args, **options)

    async def test(driver: Driver) -> None:
        await driver.press("t")
        await driver.until_shown("300 topics", "1.0")
        table = driver.app.screen.query_one(RowTable)
        await driver.press("space", "question_mark")
        await driver.until_shown("on this screen")
        table.rows.stale_after_s = None
        table._has_ages = False
        await driver.press("escape")
        await driver.until(lambda: driver.app.screen.query_one(RowTable) is table and table.has_focus)
        table.render_lines(Region(0, 0, *table.size))
        monkeypatch.setattr(row_table, "row_line", noted)
        table.refresh()
        table.render_lines(Region(0, 0, *table.size))
        assert drawn == []
        before, key = table._cursor, table.row_keys()
        table._set_cursor(before + 1)
        table.refresh()
        table.render_lines(Region(0, 0, *table.size))
        assert drawn == [key[before], key[before + 1]]

    drive(ManyTopics, test, now_ms=NOW_MS)


def test_a_key_can_be_read_between_the_layout_of_a_new_screen_and_its_drawing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are the longest steps of opening a screen, with the widgets' work at their new sizes between them."""
    turns: dict[str, list[str]] = {}
    lay_out, display = vars(Screen)["_refresh_layout"], App._display
    hear_of_size = KeyLine.on_resize

    def laid_out(screen: Screen[Any], size: Any = None, scroll: bool = False) -> None:
        steps = turns.setdefault(type(screen).__name__, [])
        if not steps:
            steps.append("layout")
            asyncio.get_running_loop().call_soon(steps.append, "turn")
        lay_out(screen, size, scroll)

    def heard(line: KeyLine) -> None:
        steps = turns.setdefault(type(line.screen).__name__, [])
        steps.append("size")
        asyncio.get_running_loop().call_soon(steps.append, "turn")
        hear_of_size(line)

    def displayed(app: DashboardApp, screen: Screen[Any], renderable: Any) -> None:
        if renderable is not None:
            turns.setdefault(type(screen).__name__, []).append("drawing")
        display(app, screen, renderable)

    monkeypatch.setattr(Screen, "_refresh_layout", laid_out)
    monkeypatch.setattr(KeyLine, "on_resize", heard)
    monkeypatch.setattr(DashboardApp, "_display", displayed)

    async def test(driver: Driver) -> None:
        await driver.press("t")
        await driver.until_shown("flights")
        await driver.press("question_mark")
        await driver.until_shown("on this screen")
        for name in ("TopicsScreen", "KeysScreen"):
            steps = turns[name]
            before = steps[: steps.index("drawing")]
            assert (before[0], sorted(before[1:])) == ("layout", ["size", "turn", "turn"]), steps

    drive(FixedClient, test, now_ms=NOW_MS, size=(170, 40))


def test_a_new_size_of_the_terminal_is_not_lost_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process waits for a processor for 10 ms between any two looks of a timer at the clock."""
    looks = itertools.count()

    async def test(driver: Driver) -> None:
        await driver.press("t")
        monkeypatch.setattr("textual.timer._time", SimpleNamespace(get_time=lambda: next(looks) / 100))
        for width, height in ((120, 40), (90, 30)):
            await driver.pilot.resize_terminal(width, height)
            await driver.until(lambda height=height: driver.text.count("\n") == height)

    drive(FixedClient, test, now_ms=NOW_MS, size=(80, 24))


def test_a_dialog_hears_of_a_new_size_of_the_terminal_after_the_screen_below_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both got one event, and what handled it first kept the other from it."""

    async def test(driver: Driver) -> None:
        await driver.press("t", "question_mark")
        await driver.until_shown("on this screen")
        dialog, heard_below, hear = driver.app.screen, asyncio.Event(), ThriftyScreen._on_resize

        async def heard(screen: ThriftyScreen[Any], event: Resize) -> None:
            await hear(screen, event)
            if screen is not dialog:
                heard_below.set()

        monkeypatch.setattr(ThriftyScreen, "_on_resize", heard)
        dialog.call_next(heard_below.wait)
        await driver.pilot.resize_terminal(120, 40)
        assert heard_below.is_set()
        await driver.until(lambda: driver.text.count("\n") == 40)

    drive(FixedClient, test, now_ms=NOW_MS, size=(80, 24))


def test_keys_can_be_read_while_screens_are_fitted_to_another_size_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Textual lays out and draws the top screen and the one below it in one turn, which took 40 to 54 ms. It found the
    styles of the pulse after that, because its classes change at 160 columns."""
    turns: list[str] = []
    lay_out, draw, find = vars(Screen)["_refresh_layout"], LineCompositor._render_chops, Stylesheet.update_nodes

    def noted(step: str) -> None:
        if turns[-1:] in ([], ["turn"]):
            asyncio.get_running_loop().call_soon(turns.append, "turn")
        turns.append(step)

    def laid_out(screen: Screen[Any], size: Any = None, scroll: bool = False) -> None:
        noted(f"layout of {type(screen).__name__}")
        lay_out(screen, size, scroll)
        turns.append("laid out")

    def drawn(compositor: LineCompositor, *wanted: Any) -> Any:
        noted("drawing")
        return draw(compositor, *wanted)

    def styled(sheet: Stylesheet, *nodes: Any, **options: Any) -> None:
        noted("styles")
        find(sheet, *nodes, **options)

    async def test(driver: Driver) -> None:
        await driver.press("h")
        await driver.until_shown("lag of all groups")
        await driver.press("question_mark")
        await driver.until_shown("on this screen")
        monkeypatch.setattr(Screen, "_refresh_layout", laid_out)
        monkeypatch.setattr(LineCompositor, "_render_chops", drawn)
        monkeypatch.setattr(Stylesheet, "update_nodes", styled)
        await driver.pilot.resize_terminal(120, 40)
        await driver.until(lambda: "layout of KeysScreen" in turns and turns[-2:] == ["drawing", "turn"])
        layouts = [turns.index(f"layout of {screen}") for screen in ("PulseScreen", "KeysScreen")]
        assert turns.index("styles") < layouts[0] < layouts[1], turns
        for at in layouts:
            assert turns[at + 1] == "laid out", turns  # and not drawn in the same turn
        assert "turn" in turns[layouts[0] : layouts[1]]
        assert driver.app.screen._compositor.size == (120, 40)

    drive(FixedClient, test, now_ms=NOW_MS, size=(170, 40))


def test_a_new_layout_is_drawn_once_in_the_turn_after_it_and_only_where_it_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Textual drew it in the same turn. It also drew the whole screen again because the focus moved, and because a
    widget was mounted."""
    turns: list[str] = []
    lay_out, draw = vars(Screen)["_refresh_layout"], vars(Screen)["_compositor_refresh"]

    def laid_out(screen: Screen[Any], size: Any = None, scroll: bool = False) -> None:
        turns.append("layout")
        asyncio.get_running_loop().call_soon(turns.append, "turn")
        lay_out(screen, size, scroll)

    def drawn(screen: Screen[Any]) -> None:
        is_whole = screen.size.region in screen._compositor._dirty_regions
        turns.append("whole screen" if is_whole else "drawing")
        draw(screen)

    async def test(driver: Driver) -> None:
        await driver.press("t")
        await put_cursor(driver, "flights")
        await driver.press("space")
        await driver.until_shown("paused")
        monkeypatch.setattr(Screen, "_refresh_layout", laid_out)
        monkeypatch.setattr(Screen, "_compositor_refresh", drawn)
        await driver.press("slash", "f")
        await driver.until_shown("filter f")
        await driver.press("escape")
        await driver.until(lambda: driver.app.screen.query_one(RowTable).has_focus and turns.count("layout") >= 2)
        assert turns[:3] == ["layout", "turn", "drawing"]
        assert "whole screen" not in turns

    drive(FixedClient, test, now_ms=NOW_MS, size=(170, 40))


def test_a_key_can_be_read_while_a_screen_that_comes_back_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lines are drawn a few at a time, each once, and are shown together. All in one turn, they held up keys for
    more than 30 ms."""
    steps: list[int | str] = []
    render_line, display = RowTable.render_line, App._display

    async def test(driver: Driver) -> None:
        await driver.press("t")
        await driver.until_shown("300 topics")
        table = driver.app.screen.query_one(RowTable)
        await driver.press("space", "g")
        await driver.until(lambda: table.screen is not driver.app.screen)

        def rendered(one: RowTable, y: int) -> Strip:
            if one is table:
                steps.append(y)
                asyncio.get_running_loop().call_soon(steps.append, "turn")
            return render_line(one, y)

        def displayed(app: DashboardApp, screen: Screen[Any], renderable: Any) -> None:
            if isinstance(renderable, LayoutUpdate):
                steps.append("shown")
            display(app, screen, renderable)

        monkeypatch.setattr(RowTable, "render_line", rendered)
        monkeypatch.setattr(DashboardApp, "_display", displayed)
        await driver.press("t")
        await driver.until(lambda: "shown" in steps)
        drawn = steps[: steps.index("shown")]
        assert [step for step in drawn if step != "turn"] == list(range(table.size.height))
        in_turns = [len(list(run)) for is_turn, run in groupby(drawn, lambda step: step == "turn") if not is_turn]
        assert max(in_turns) <= thrifty_screen.DRAWN_AT_ONCE < table.size.height

    drive(ManyTopics, test, now_ms=NOW_MS, size=(100, 60))


def test_only_the_lines_that_have_changed_below_a_dialog_are_composed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each digit that changed below, the whole screen was composed."""

    async def test(driver: Driver) -> None:
        await driver.press("t")
        await put_cursor(driver, "flights")
        await driver.press("space")
        await driver.until_shown("paused")
        await driver.press("question_mark")
        await driver.until_shown("on this screen")
        below, dialog = driver.app.screen_stack[-2:]
        composed: list[int] = []
        render_chops = LineCompositor._render_chops

        def noted(compositor: LineCompositor, crop: Region, is_rendered_line: Callable[[int], bool]) -> Any:
            if compositor is below._compositor:
                composed.extend(y for y in crop.line_range if is_rendered_line(y))
            return render_chops(compositor, crop, is_rendered_line)

        whole = Region(0, 0, *dialog.size)
        visible_screen_stack.set(driver.app._background_screens)
        before = dialog.render_lines(whole)
        monkeypatch.setattr(LineCompositor, "_render_chops", noted)
        dialog.refresh(Region(0, 3, dialog.size.width, 1))
        assert dialog.render_lines(whole) == before
        assert composed == [3]

    drive(FixedClient, test, now_ms=NOW_MS, size=(170, 40))


def test_the_screen_below_a_new_dialog_is_composed_once_for_its_first_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    of, display = DimmedLines.of, App._display

    def noted(lines: DimmedLines, screen: Screen[Any], *args: Any) -> list[Strip]:
        changed = args[3] if len(args) > 3 else None
        if changed is None or len(changed) == screen.size.height:
            steps.append("dim")
        return of(lines, screen, *args)

    def displayed(app: DashboardApp, screen: Screen[Any], renderable: Any) -> None:
        if renderable is not None and isinstance(screen, Dialog):
            steps.append("drawing")
        display(app, screen, renderable)

    monkeypatch.setattr(DimmedLines, "of", noted)
    monkeypatch.setattr(DashboardApp, "_display", displayed)

    async def test(driver: Driver) -> None:
        await driver.press("t")
        await driver.until_shown("flights")
        await driver.press("question_mark")
        await driver.until_shown("on this screen")
        assert steps[:2] == ["dim", "drawing"]

    drive(FixedClient, test, now_ms=NOW_MS, size=(170, 40))


def test_a_form_has_a_widget_for_each_field_besides_those_of_all_fields() -> None:
    """A field used to be four widgets, so the key that opened a form waited for all of them."""

    async def test(driver: Driver) -> None:
        await driver.press("t")
        await put_cursor(driver, "flights")
        await driver.press("n")
        await driver.until_shown("New topic", "TRANSACTION")
        form = driver.app.screen
        assert isinstance(form, FormScreen)
        inputs = form.query(FieldInput)
        assert len(inputs) == len(form.fields()) == 8
        assert len(form.query("#form *")) <= len(inputs) + 5
        lines = driver.text.splitlines()
        for field, line in zip(form.fields(), inputs, strict=True):
            assert re.search(rf" {field.label} .* {re.escape(field.hint)} ", lines[line.region.y]), field

    drive(FixedClient, test, now_ms=NOW_MS, size=(120, 40))


def test_fields_with_a_text_find_their_styles_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual found them again for each field that was filled when the form opened."""
    again: Counter[str | None] = Counter()
    update_styles = vars(App)["update_styles"]

    def noted(app: App[Any], node: DOMNode, animate: bool = True) -> None:
        if isinstance(node, FieldInput):
            again[node.id] += 1
        update_styles(app, node, animate)

    async def test(driver: Driver) -> None:
        await driver.press("t")
        await put_cursor(driver, "flights")
        monkeypatch.setattr(App, "update_styles", noted)
        await driver.press("n")
        await driver.until_shown("New topic", "TRANSACTION")
        await driver.until(lambda: isinstance(driver.app.focused, FieldInput))
        assert again == {"field-topic": 1}  # it has the focus

    drive(FixedClient, test, now_ms=NOW_MS, size=(120, 40))


def test_the_palette_is_laid_out_and_drawn_in_different_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual's was drawn as soon as it was laid out: two waits for a key in one."""
    laying_out: list[Screen[Any]] = []
    drawn: list[bool] = []
    lay_out, draw = vars(Screen)["_refresh_layout"], vars(Screen)["_compositor_refresh"]

    def laid_out(screen: Screen[Any], size: Any = None, scroll: bool = False) -> None:
        laying_out.append(screen)
        try:
            lay_out(screen, size, scroll)
        finally:
            laying_out.pop()

    def noted(screen: Screen[Any]) -> None:
        if isinstance(screen, CommandPalette):
            drawn.append(screen in laying_out)
        draw(screen)

    monkeypatch.setattr(Screen, "_refresh_layout", laid_out)
    monkeypatch.setattr(Screen, "_compositor_refresh", noted)

    async def test(driver: Driver) -> None:
        await driver.press("ctrl+p")
        await driver.until_shown("Search for commands")
        await driver.press(*"keys")
        await driver.until_shown("All that work here")
        await driver.press("escape")
        driver.app.search_themes()
        await driver.until_shown("Search for themes", "dracula")
        assert drawn
        assert not any(drawn)

    drive(FixedClient, test, now_ms=NOW_MS, size=(120, 40))
