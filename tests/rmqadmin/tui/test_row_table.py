"""The table: its cursor stays on its row, old cells are dimmed, and only visible rows are drawn or asked for."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from rich.cells import cell_len
from textual.app import App, ComposeResult
from textual.color import Color
from textual.pilot import Pilot

from rmqadmin.core.health.finding import Check, Finding, Grade, Subject, SubjectKind
from rmqadmin.core.results import Shape
from rmqadmin.tui.filters import parse_filter
from rmqadmin.tui.screens.row_parts import RowState, state_column
from rmqadmin.tui.themes import readable
from rmqadmin.tui.widgets.frame import CutLine
from rmqadmin.tui.widgets.tables import rows
from rmqadmin.tui.widgets.tables.columns import JUDGED, MINOR, VITAL, Column
from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqadmin.tui.widgets.tables.rows import NOT_ASKED, Rows
from rmqadmin.tui.widgets.tables.window_table import WINDOW

NAMES = [f"topic-{number:04}" for number in range(1000)]


def int_or_none(number: int | None) -> int | None:
    return number


class TableApp(App[None]):
    CSS_PATH = "../../../rmqadmin/tui/style.tcss"

    def __init__(self) -> None:
        super().__init__()
        self.table = RowTable(
            [
                Column(name="name", value=str, importance=VITAL),
                Column(name="number", value=int_or_none, part="numbers", is_number=True),
            ],
            stale_after_s=5.0,
        )

    def get_css_variables(self) -> dict[str, str]:
        variables = super().get_css_variables()
        return {**variables, **readable(variables)}

    def compose(self) -> ComposeResult:
        yield self.table


@pytest.fixture
def app() -> TableApp:
    return TableApp()


@pytest.fixture
def table(app: TableApp) -> RowTable:
    return app.table


@pytest.fixture
def pilot(app: TableApp) -> AbstractAsyncContextManager[Pilot[None]]:
    """Open in each test, with a row for each of ``NAMES``."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Pilot[None]]:
        async with app.run_test(size=(40, 11)) as pilot:
            app.table.set_rows((name, name) for name in NAMES)
            await pilot.pause()
            yield pilot

    return opened()


def lines(table: RowTable) -> list[str]:
    return [table.render_line(y).text.rstrip() for y in range(table.size.height)]


def is_dim(table: RowTable, y: int, text: str) -> bool:
    segments = [segment for segment in table.render_line(y) if text in segment.text]
    assert segments, f"no {text!r} in line {y}"
    dim = Color.parse(table.app.get_css_variables()["text-disabled"]).rich_color
    return all(segment.style is not None and segment.style.color == dim for segment in segments)


def test_the_view_follows_the_cursor_before_anything_is_laid_out() -> None:
    """Rows have just come, and Textual does not know yet that they exceed the view."""

    async def run() -> None:
        app = TableApp()
        async with app.run_test(size=(40, 11)) as pilot:
            await pilot.pause()
            app.table.set_rows((name, name) for name in NAMES)
            app.table.move_to(NAMES[-1])
            await pilot.pause()
            assert app.table.visible_keys()[-1] == NAMES[-1]

    asyncio.run(run())


async def test_only_rows_in_view_are_asked_for(table: RowTable, pilot: Pilot[None]) -> None:
    assert table.visible_keys() == NAMES[:10]
    await pilot.press("end")
    await pilot.pause()
    assert table.visible_keys() == NAMES[-10:]
    assert lines(table)[-1].strip().startswith("topic-0999")


async def test_the_cursor_stays_on_its_row_and_the_row_on_its_line(table: RowTable, pilot: Pilot[None]) -> None:
    """When a refresh added a topic above, the cursor used to move to another topic, and `p` changed that one."""
    table.move_to("topic-0500")
    await pilot.pause()
    line = lines(table).index(next(line for line in lines(table) if line.strip().startswith("topic-0500")))
    table.set_rows((name, name) for name in ["a-new-one", "another", *NAMES])
    await pilot.pause()
    assert table.cursor_key == "topic-0500"
    assert lines(table)[line].strip().startswith("topic-0500")


async def test_the_cursor_of_a_row_that_is_gone_stays_near(table: RowTable, pilot: Pilot[None]) -> None:
    table.move_to("topic-0999")
    table.set_rows((name, name) for name in NAMES[:500])
    assert table.cursor_key == "topic-0499"
    table.set_rows(())
    assert table.cursor_key is None
    await pilot.press("enter", "down", "pageup", "end")
    assert table.cursor_key is None


async def test_a_filter_outlives_a_refresh(table: RowTable, pilot: Pilot[None]) -> None:
    table.set_filter(parse_filter("99"))
    assert table.shown_count == 19
    table.set_rows((name, name) for name in [*NAMES, "topic-1099"])
    assert table.shown_count == 20
    table.set_filter(parse_filter("!9"))
    assert "topic-0099" not in table.visible_keys()


async def test_parts_survive_a_refresh_of_the_others(table: RowTable, pilot: Pilot[None]) -> None:
    table.put("numbers", {"topic-0000": 12, "gone": 1})
    table.set_rows((name, name) for name in NAMES)
    assert lines(table)[1].split() == ["topic-0000", "12"]
    assert lines(table)[2].split() == ["topic-0001", NOT_ASKED]


async def test_cells_that_missed_refreshes_are_dim_and_have_a_sign(table: RowTable, pilot: Pilot[None]) -> None:
    table.put("numbers", {"topic-0000": 12, "topic-0001": 34})
    assert not is_dim(table, 1, "12")
    table.model.lines["topic-0000"].asked_s["numbers"] -= 70
    table.show_ages(5.0)
    assert is_dim(table, 1, "~12")
    assert lines(table)[1].split() == ["topic-0000", "~12"]
    assert not is_dim(table, 1, "topic-0000")
    assert not is_dim(table, 2, "34")
    table.put("numbers", {"topic-0000": 13})
    assert not is_dim(table, 1, "13")


async def test_markup_control_characters_and_wide_characters_keep_the_columns(
    table: RowTable, pilot: Pilot[None]
) -> None:
    names = ["[/red]", "a\x1b[2Jb", "订单", "x" * 300]
    table.set_rows((str(at), name) for at, name in enumerate(names))
    table.put("numbers", {str(at): 7 for at in range(4)})
    await pilot.pause()  # the scrollbar goes with the next layout
    texts = [table.render_line(y).text for y in range(1, 5)]
    assert len({cell_len(text) for text in texts}) == 1
    assert texts[0].startswith("    [/red] ")
    assert texts[1].startswith("    a\\x1b[2Jb ")
    assert texts[3].split()[0] == "x" * 13 + "…" + "x" * 12
    assert "".join(texts).isprintable()


async def test_many_new_rows_are_made_a_few_at_a_time(table: RowTable, pilot: Pilot[None]) -> None:
    """The loop answers keys in between. All at once, 10,000 topics took 250 ms."""
    rows = [(f"new-{number:05}", f"new-{number:05}") for number in range(1000)]
    made: list[int] = []
    waiting = asyncio.create_task(table.prepare(rows))
    while not waiting.done():
        made.append(len(table.model._prepared))
        await asyncio.sleep(0)
    steps = [after - before for before, after in itertools.pairwise([0, *made, len(table.model._prepared)])]
    assert sum(steps) == 1000
    assert max(steps) <= 250
    assert table.all_count == len(NAMES)
    fill = table.model._fill
    filled: list[str] = []
    table.model._fill = lambda line, part, value: filled.append(line.key) or fill(line, part, value)  # type: ignore[method-assign,func-returns-value]
    table.set_rows(rows)
    assert filled == []
    assert table.visible_keys() == [key for key, _ in rows[:10]]
    assert lines(table)[1].strip().startswith("new-00000")


async def test_rows_are_sorted_by_a_columns_values_with_unknown_ones_last(table: RowTable, pilot: Pilot[None]) -> None:
    """10 comes after 9, unlike the texts. The cursor is on the first row."""
    table.set_rows((name, name) for name in NAMES[:6])
    table.put("numbers", {NAMES[0]: 9, NAMES[1]: 10, NAMES[3]: 1000, NAMES[4]: None})
    await pilot.press("down")
    await pilot.press("greater_than_sign", "greater_than_sign")
    assert table.visible_keys() == [NAMES[at] for at in (3, 1, 0, 2, 4, 5)]
    assert table.cursor_key == NAMES[3]
    assert "number▼" in lines(table)[0]
    await pilot.press("o")
    assert table.visible_keys() == [NAMES[at] for at in (0, 1, 3, 2, 4, 5)]
    assert "number▲" in lines(table)[0]
    await pilot.press("greater_than_sign")
    assert table.visible_keys() == NAMES[:6], "past the last column: as they came"
    await pilot.press("less_than_sign")
    assert table.model.order_text() == "by number, falling (4 known so far)"


async def test_after_a_sort_the_view_is_at_the_top(table: RowTable, pilot: Pilot[None]) -> None:
    """The cursor went to the first row, but then the view used to move to the new place of its old row."""
    table.put("numbers", {name: number for number, name in enumerate(NAMES)})
    table.move_to("topic-0003")
    table.sort_by(1)
    await pilot.pause()
    assert (table.cursor_key, table.scroll_offset.y) == (NAMES[-1], 0)
    assert table.visible_keys()[0] == NAMES[-1]
    table.move_to("topic-0500")
    await pilot.press("less_than_sign")
    await pilot.pause()
    assert (table.cursor_key, table.scroll_offset.y) == (NAMES[0], 0)


async def test_columns_that_do_not_fit_are_left_out_and_told_of_the_cursors_row(
    table: RowTable, pilot: Pilot[None]
) -> None:
    """The view has 40 cells. The column that rows are sorted by is never left out."""
    table.set_columns(
        [
            Column(name="name", value=lambda row: row, importance=VITAL),
            Column(name="first", value=lambda row: "f" * 5),
            Column(name="other", value=lambda row: "o" * 20, importance=MINOR),
            Column(name="id", value=lambda row: "0123456789" * 3, shape=Shape.ID),
        ]
    )
    table.set_rows((name, name) for name in NAMES)
    assert lines(table)[0].split() == ["name", "first", "id"]
    assert lines(table)[1].split() == ["topic-0000", "fffff", "0123456…3456789"]
    cut = [(cell.title, cell.text) for cell in table.cut_cells()]
    assert cut == [("id", "0123456789" * 3), ("other", "o" * 20)]
    table.sort_by(2)
    assert lines(table)[0].split() == ["name", "other▲"]


async def test_what_is_cut_takes_two_lines_in_any_script(table: RowTable, pilot: Pilot[None]) -> None:
    table.set_columns(
        [Column(name=name, value=lambda row: "主题" * 9, importance=VITAL, shape=Shape.PROSE) for name in "abcdef"]
    )
    table.set_rows((name, name) for name in NAMES)
    cut = CutLine()
    await pilot.app.mount(cut)
    cut.show(table)
    await pilot.pause()
    assert cut.region.height == 2


async def test_rows_of_the_system_are_left_out_and_counted(table: RowTable, pilot: Pilot[None]) -> None:
    table.set_hidden(lambda row: row.endswith("9"))
    assert (table.model.hidden_count, table.shown_count, table.all_count) == (100, 900, 1000)
    table.set_filter(parse_filter("/^topic-001"))
    assert table.visible_keys() == NAMES[10:19]
    table.set_hidden(None)
    assert table.visible_keys() == NAMES[10:20]


async def test_hidden_rows_take_no_room_from_the_columns_of_others(table: RowTable, pilot: Pilot[None]) -> None:
    """The long names of Apache's own topics took the rates of all others away on a small terminal."""
    long = "x" * 20
    table.set_columns([Column(name="name", value=lambda row: row, importance=VITAL), Column(name="rate", value=len)])
    table.set_hidden(lambda row: row == long)
    table.set_rows((name, name) for name in ["short", long])
    assert table.cells.shown[0] == (0, len("short"))
    table.set_hidden(None)
    assert table.cells.shown[0] == (0, len(long))


async def test_new_numbers_move_their_rows(table: RowTable, pilot: Pilot[None]) -> None:
    table.set_rows((name, name) for name in NAMES[:3])
    table.put("numbers", dict.fromkeys(NAMES[:3], 1))
    table.sort_by(1)
    assert table.cursor_key == NAMES[0]
    table.put("numbers", {NAMES[2]: 5})
    assert table.cursor_key == NAMES[0], "the cursor stays on its row"
    assert table.visible_keys() == [NAMES[2], NAMES[0], NAMES[1]]
    table.set_filter(parse_filter("!0000"))
    assert table.visible_keys() == [NAMES[2], NAMES[1]]


async def test_a_click_on_a_title_sorts_by_it_and_another_the_other_way(table: RowTable, pilot: Pilot[None]) -> None:
    await pilot.click(RowTable, offset=(3, 0))
    assert table.model.order_text() == "by name, rising"
    await pilot.click(RowTable, offset=(3, 0))
    assert table.model.order_text() == "by name, falling"
    assert table.visible_keys()[0] == NAMES[-1]


async def test_a_row_is_one_cell_and_each_title_in_it_sorts(table: RowTable, pilot: Pilot[None]) -> None:
    """Drawn as a cell for each column, a page of topics took three times as long."""
    table.put("numbers", {NAMES[7]: 7})
    assert len(table.columns) == 1
    assert lines(table)[0].endswith("number")
    await pilot.click(RowTable, offset=(lines(table)[0].index("number"), 0))
    assert table.model.order_text() == "by number, falling (1 known so far)"
    assert table.visible_keys()[0] == NAMES[7]
    await pilot.click(RowTable, offset=(0, 0))
    assert table.model.order_text() == "by number, falling (1 known so far)", "there is no title"


async def test_rows_to_ask_for_are_those_that_nobody_asked_for(table: RowTable, pilot: Pilot[None]) -> None:
    table.put("numbers", dict.fromkeys(NAMES[:990], 1))
    assert table.model.asked_longest_ago("numbers", 10) == NAMES[990:]
    assert table.model.known_count("numbers") == 990


MANY = [f"topic-{number:05}" for number in range(10_000)]


@pytest.mark.slow
async def test_paging_down_through_many_rows_shows_each_once_and_in_order(table: RowTable, pilot: Pilot[None]) -> None:
    """The DataTable never has more than WINDOW of them."""
    table.focus()
    table.set_rows((name, name) for name in NAMES)
    seen: dict[str, None] = {}
    for _ in range(120):
        await pilot.pause()
        assert table.row_count <= WINDOW
        assert [line.split()[0] for line in lines(table)[1:]] == table.visible_keys()
        seen |= dict.fromkeys(table.visible_keys())
        table.action_page_down()
    assert list(seen) == NAMES
    assert table.cursor_key == NAMES[-1]


async def test_the_first_and_the_last_of_ten_thousand_rows_are_one_key_away(
    table: RowTable, pilot: Pilot[None]
) -> None:
    table.focus()
    table.set_rows((name, name) for name in MANY)
    await pilot.press("end")
    await pilot.pause()
    assert (table.cursor_key, lines(table)[-1].split()[0]) == (MANY[-1], MANY[-1])
    assert table.view_text() == "rows 9,601 to 10,000"
    await pilot.press("pageup", "home")
    await pilot.pause()
    assert (table.cursor_key, lines(table)[1].split()[0]) == (MANY[0], MANY[0])


async def test_a_view_that_the_wheel_has_moved_stays_when_numbers_come(table: RowTable, pilot: Pilot[None]) -> None:
    table.scroll_to(y=30, animate=False)
    await pilot.pause()
    table.put("numbers", dict.fromkeys(table.visible_keys(), 7))
    await pilot.pause()
    assert table.visible_keys() == NAMES[30:40]
    assert table.cursor_key == NAMES[0]


def judged(*names: str, grade: Grade = Grade.ERROR) -> dict[str, RowState]:
    return {name: RowState((Finding(grade, "test", Subject(SubjectKind.TOPIC, name), "broken"),)) for name in names}


def test_the_worst_rows_come_first_and_stay_so_while_the_cursor_stays_on_its_row() -> None:
    async def run() -> None:
        app = TableApp()
        app.table = RowTable([Column(name="name", value=str, importance=VITAL), state_column()])
        async with app.run_test(size=(60, 11)) as pilot:
            app.table.set_rows((name, name) for name in NAMES)
            app.table.put(JUDGED, judged(NAMES[500]) | judged(NAMES[7], grade=Grade.WARNING))
            app.table.action_first()
            await pilot.pause()
            assert app.table.visible_keys()[:3] == [NAMES[500], NAMES[7], NAMES[0]]
            assert lines(app.table)[1].split() == ["✖", NAMES[500], "broken"]
            assert app.table.view_text().endswith("worst first")
            app.table.move_to(NAMES[7])
            app.table.put(JUDGED, judged(NAMES[300]))
            app.table.set_rows((name, name) for name in NAMES)
            await pilot.pause()
            assert app.table.visible_keys()[:3] == [NAMES[300], NAMES[500], NAMES[7]]
            assert app.table.cursor_key == NAMES[7]
            app.table.sort_by(0)
            assert app.table.visible_keys()[0] == NAMES[0], "as the user wants it"
            app.table.sort_by(None)
            app.table.put(JUDGED, {NAMES[300]: RowState(usual="fine")})
            assert [line.key for line in app.table.model.shown[:3]] == [NAMES[500], NAMES[7], NAMES[0]]

    asyncio.run(run())


def test_a_state_is_as_old_as_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is only put when it is another, so a red one turned grey after some seconds."""
    clock = [0.0]
    monkeypatch.setattr(rows, "monotonic", lambda: clock[0])
    broken = Finding(Grade.ERROR, Check.REACHABLE, Subject(SubjectKind.BROKER, "a"), "does not answer")
    model = Rows([Column(name="topic", value=str), state_column()], lambda: 0, stale_after_s=5.0)
    model.set_base([("a", "a")])
    model.put(JUDGED, {"a": RowState((broken,))})
    for elapsed_s, is_read_again, style in ((0.0, False, "bad"), (60.0, True, "bad"), (60.0, False, "stale")):
        clock[0] += elapsed_s
        if is_read_again:
            model.set_base([("a", "a")])
        assert model.cell(model.lines["a"], 1) == ("does not answer", style)
