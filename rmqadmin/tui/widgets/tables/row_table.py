"""The table of most screens: rows by key, filled part by part, drawn line by line.

Textual's DataTable lays out every row when it is filled: 0.25 s for a thousand rows, in which no key is answered. This
one keeps rows as data and draws only visible lines whose text has changed, so a refresh costs only what it brings. A
part is what one question read (names and configuration; numbers of the visible rows), with the time of the question.
Cells older than a few refreshes are dim, with their age in the last column.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import time_ns
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from rmqadmin.core.results import Shape
from rmqadmin.tui.remembered import SavedOrder
from rmqadmin.tui.widgets.plain_view import PlainView
from rmqadmin.tui.widgets.tables.cells import Cells, CutCell
from rmqadmin.tui.widgets.tables.columns import BASE, Column
from rmqadmin.tui.widgets.tables.row_line import AGE_WIDTH, INDENT_WIDTH, header_line, row_line
from rmqadmin.tui.widgets.tables.rows import Line, Order, Rows

HEADER_HEIGHT = 1

NONE_MATCHES = "no row matches the filter"
ALL_HIDDEN = "only RocketMQ's own: z shows them"

_PREPARED_AT_ONCE = 200
"""Rows prepared in one turn of the loop: 5 ms."""

_STRIPS_MAX = 300
"""How many drawn rows are kept: several screens of them."""

_MOVES = (
    Binding("up,k", "move(-1)", "Up", show=False, id="table.up"),
    Binding("down,j", "move(1)", "Down", show=False, id="table.down"),
    Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False, id="table.page_up"),
    Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False, id="table.page_down"),
    Binding("home", "move(-1000000000)", "First", show=False, id="table.first"),
    Binding("end,G", "move(1000000000)", "Last", show=False, id="table.last"),
)
MOVING_KEYS = frozenset(key for binding in _MOVES for key in binding.key.split(","))


def moves_without(keys: set[str]) -> dict[str, str]:
    """A keymap in which none of ``keys``, which the user wants for other actions, moves the cursor."""
    own = {one.id: one.key.split(",") for one in _MOVES if one.id}
    left = {name: [key for key in mine if key not in keys] for name, mine in own.items() if not keys.isdisjoint(mine)}
    return {name: ",".join(mine) for name, mine in left.items() if mine}


def _wall_ms() -> int:
    return time_ns() // 1_000_000


class RowTable(PlainView, can_focus=True):
    """A table of ``columns``. Fill it with ``set_rows`` and ``put``; both keep the cursor on its row and the row on its
    line. Rows are in the order of ``set_rows`` unless the user sorts them. Posts ``Chosen`` for Enter and for a click
    on the cursor's row, ``Moved`` when other rows come into view, and ``Sorted``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *_MOVES,
        Binding("enter", "choose", "Open", id="table.open"),
        Binding("greater_than_sign", "sort(1)", "Sort", key_display="A-Z", id="table.sort_next"),
        Binding("less_than_sign", "sort(-1)", "Sort by the column before", show=False, id="table.sort_previous"),
        Binding("y", "copy", "Copy", show=False, id="table.copy"),
        Binding("o", "reverse", "Other order", show=False, id="table.reverse"),
    ]

    STYLES: ClassVar[Mapping[str, str]] = {
        "header": "bold $text-accent on $surface",
        "cursor": "$foreground on $primary-muted",
        "stale": "$text-disabled",
        "good": "$text-success",
        "warn": "$text-warning",
        "bad": "bold $text-error",
        "dim": "$text-muted",
        "line": "$line",
        "new": "bold $text-accent",
    }
    """Styles of whole lines, and what a mark adds to its line's."""

    @dataclass
    class Chosen(Message):
        """The user chose a row."""

        table: RowTable
        key: str

    @dataclass
    class Moved(Message):
        """Other rows may be visible now, or the cursor is on another."""

        table: RowTable

    @dataclass
    class Copied(Message):
        """The user copies the name of a row, or the whole row."""

        text: str
        is_whole: bool

    @dataclass
    class Sorted(Message):
        """The user sorted the rows."""

        table: RowTable

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        id: str | None = None,
        stale_after_s: float | None = None,
        opens: bool = True,
        now_ms: Callable[[], int] = _wall_ms,
        letters_taken: str = "",
    ):
        """``stale_after_s``: age from which cells are dim; None for rows that do not age. ``opens``: whether Enter
        opens a row. ``now_ms``: the clock of ages in cells. ``letters_taken``: capital letters that are keys of the
        screen and do not sort."""
        super().__init__(id=id)
        self.set_reactive(RowTable.virtual_size, Size(0, HEADER_HEIGHT))
        self.opens = opens
        self._letters_taken = letters_taken
        self._now_ms = now_ms
        self.rows = Rows(columns, now_ms, stale_after_s, letters_taken)
        self._given_keys: Collection[str] = ()
        self.filter_text = ""
        self._cursor = 0
        self._when_empty = ""
        self._copied_key: str | None = None
        """The row whose name was copied last, while the cursor stays on it."""
        self._has_ages = False
        self._drawn_width: int | None = None
        self._strips: dict[str, tuple[object, Strip]] = {}
        """Drawn rows, by key, each with what its look depends on apart from ``_strips_layout``."""
        self._strips_layout: object = None

    def give_keys(self, keys: Collection[str]) -> None:
        """Gives up capital letters that the user wants for other actions: none of them sorts any more."""
        self._given_keys = keys

    def say_when_empty(self, text: str) -> None:
        """Sets the text that an empty table shows."""
        if text != self._when_empty:
            self._when_empty = text
            self.refresh()

    @property
    def cells(self) -> Cells:
        return self.rows.cells

    # --- filling -----------------------------------------------------------------------------------------------------

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Replaces the columns, and removes all rows."""
        self.rows = Rows(columns, self._now_ms, self.rows.stale_after_s, self._letters_taken)
        self._show_passing()

    async def prepare(self, rows: Iterable[tuple[str, Any]]) -> None:
        """Makes the new ones of many rows in small batches, so that no key waits for all of them. Call it before
        ``set_rows``."""
        new = [(key, base) for key, base in rows if key not in self.rows.lines]
        for at in range(0, len(new), _PREPARED_AT_ONCE):
            self.rows.prepare(new[at : at + _PREPARED_AT_ONCE])
            await asyncio.sleep(0)

    def set_rows(self, rows: Iterable[tuple[str, Any]], *, keeps_others: bool = False) -> None:
        """As ``Rows.set_base``."""
        if self.rows.set_base(rows, keeps_others=keeps_others):
            self._show_passing()

    def put(self, part: str, found: Mapping[str, Any], *, asked_s: float | None = None) -> None:
        """As ``Rows.put``."""
        changed = self.rows.put(part, found, asked_s=asked_s)
        if changed and self.rows.sorted_part == part:
            self._show_moved(changed)
        elif self._fit():
            self.refresh()
        else:
            self._redraw(lambda line: line.key in changed)

    def _fit(self) -> bool:
        """Fits the columns into the width. Returns whether they have moved."""
        room = self._width - INDENT_WIDTH - (AGE_WIDTH if self._has_ages else 0)
        order = self.rows.order
        return self.cells.fit(room, None if order is None else order.at)

    def show_ages(self, stale_after_s: float) -> None:
        """Draws stale cells when their age changes. Ages have a column of their own while there are any."""
        self.rows.stale_after_s = stale_after_s
        has_ages = any(self.rows.oldest_s(line) is not None for line in self._in_view())
        if has_ages != self._has_ages:
            self._has_ages = has_ages
            self._fit()
            self.refresh()
        else:
            self._redraw(self.rows.is_any_stale)

    def _in_view(self) -> list[Line]:
        top = self.scroll_offset.y
        return self.rows.shown[top : top + self._height]

    def _redraw(self, wanted: Callable[[Line], bool]) -> None:
        """Draws the wanted lines in view again, and nothing else."""
        width = self._width
        regions = [Region(0, y, width, 1) for y, line in enumerate(self._in_view(), HEADER_HEIGHT) if wanted(line)]
        if regions:
            self.refresh(*regions)

    def set_filter(self, passes: Callable[[str], bool] | None, text: str = "") -> None:
        """Shows only rows whose base cells' text passes. ``text`` is how the filter was written."""
        self.rows.passes, self.filter_text = passes, text if passes else ""
        self._show_passing()

    def set_hidden(self, is_hidden: Callable[[Any], bool] | None) -> None:
        """Hides rows by their base part; None hides none."""
        self.rows.is_hidden = is_hidden
        self._show_passing()

    def _show_passing(self) -> None:
        self._arrange()
        self.refresh()

    def _show_moved(self, changed: Collection[str]) -> None:
        """Draws lines after the numbers that sort the rows were read: those with another row, or with a ``changed``
        one. Most refreshes move few rows."""
        lines, look = self._in_view(), self._look
        self._arrange()
        if self._look != look:
            self.refresh()
            return
        others = {after.key for before, after in zip(lines, self._in_view(), strict=True) if before is not after}
        self._redraw(lambda line: line.key in changed or line.key in others)

    @property
    def _look(self) -> object:
        """While this is equal, a line with the same row looks the same."""
        return self.scroll_offset.y, self._cursor, len(self._in_view()), list(self.cells.shown)

    def _arrange(self) -> None:
        """Sorts and filters. Keeps the cursor on its row, and that row on its line of the screen. But a view at the top
        of sorted rows stays there while the cursor remains visible, so that the user sees what comes."""
        key, before = self.cursor_key if self._keeps_row() else None, self._cursor
        self.rows.arrange()
        at = next((at for at, line in enumerate(self.rows.shown) if line.key == key), None)
        self._cursor = max(0, min(before, len(self.rows.shown) - 1)) if at is None else at
        self._resize()
        looks_at_top = self.rows.order is not None and self.scroll_offset.y == 0
        if self._cursor != before and not looks_at_top:
            self._view_from(self.scroll_offset.y + self._cursor - before)
        self._keep_cursor_visible()
        self.post_message(self.Moved(self))

    def _keeps_row(self) -> bool:
        """Whether the cursor stays on its row when rows come before it; otherwise it stays on its line."""
        return True

    # --- sorting -----------------------------------------------------------------------------------------------------

    def sort_by(self, at: int | None) -> None:
        """Sorts by a column: numbers falling, text rising, and the same column again the other way round. None restores
        the original order. Cursor and view go to the first row, which is why users sort. Sparklines are ignored."""
        if at is not None and self.rows.columns[at].kind is Shape.TREND:
            return
        if at is None:
            self.rows.order = None
        elif self.rows.order is not None and self.rows.order.at == at:
            self.rows.order = Order(at, not self.rows.order.descends)
        else:
            self.rows.order = Order(at, self.rows.columns[at].is_number)
        self._view_from(0)
        self._show_passing()
        self._view_from(0)
        self._set_cursor(0)
        self.post_message(self.Sorted(self))

    async def on_key(self, event: events.Key) -> None:
        """Sorts by the column whose capital letter was typed."""
        if event.character and event.character in self.cells.letters and event.key not in self._given_keys:
            event.stop()
            self.sort_by(self.cells.letters.index(event.character))

    def action_sort(self, columns: int) -> None:
        """Sorts by the next column, or the previous one. Past either end, restores the original order."""
        if not self.rows.columns:
            return
        sortable = [at for at, column in enumerate(self.rows.columns) if column.kind is not Shape.TREND]
        orders = [None, *sortable]
        before = None if self.rows.order is None else self.rows.order.at
        self.sort_by(orders[(orders.index(before) + columns) % len(orders)])

    def action_reverse(self) -> None:
        if self.rows.order is not None:
            self.sort_by(self.rows.order.at)

    @property
    def saved_order(self) -> SavedOrder | None:
        """The order of the rows, in the form that is remembered."""
        order = self.rows.order
        return None if order is None else SavedOrder(self.rows.columns[order.at].name, order.descends)

    def restore_order(self, saved: SavedOrder) -> None:
        """Restores a remembered order if its column still exists. Posts no message."""
        at = next((at for at, column in enumerate(self.rows.columns) if column.name == saved.column), None)
        if at is not None:
            self.rows.order = Order(at, saved.descends)
            self._show_passing()

    def _resize(self) -> None:
        """Fits the columns and sets the height of all rows."""
        if self._fit():
            self.refresh()
        height = len(self.rows.shown) + HEADER_HEIGHT
        if height != self.virtual_size.height:
            self.virtual_size = Size(0, height)

    # --- contents ----------------------------------------------------------------------------------------------------

    def row_keys(self) -> list[str]:
        """The keys of all rows, including those that the filter hides."""
        return list(self.rows.lines)

    @property
    def row_count(self) -> int:
        return len(self.rows.lines)

    @property
    def shown_count(self) -> int:
        return len(self.rows.shown)

    @property
    def cursor_at(self) -> int:
        """The position of the cursor among the shown rows, from 0."""
        return self._cursor

    @property
    def cursor_key(self) -> str | None:
        return self.rows.shown[self._cursor].key if self._cursor < len(self.rows.shown) else None

    def part(self, key: str, part: str = BASE) -> Any:
        """One part of a row, or None."""
        line = self.rows.lines.get(key)
        return None if line is None else line.parts.get(part)

    @property
    def _width(self) -> int:
        """The cells of a line, without a vertical scrollbar."""
        return self.scrollable_content_region.width

    @property
    def _height(self) -> int:
        """Rows that fit under the header."""
        return max(1, self.scrollable_content_region.height - HEADER_HEIGHT)

    def visible_keys(self) -> list[str]:
        """The keys of the rows in view, top to bottom."""
        return [line.key for line in self._in_view()]

    def cut_cells(self) -> list[CutCell]:
        """The cells of the cursor's row that are left out or shortened, and errors in full."""
        if self._cursor >= len(self.rows.shown):
            return []
        line = self.rows.shown[self._cursor]
        errors = [CutCell("error", None, text) for text in line.errors.values()]
        return [*errors, *self.cells.cut(line.texts)]

    def view_text(self) -> str:
        """How the rows are filtered and sorted, for the status line. Empty if they are neither."""
        return ", ".join(
            filter(None, [f"filter {self.filter_text}" if self.filter_text else "", self.rows.order_text()])
        )

    # --- moving ------------------------------------------------------------------------------------------------------

    def move_to(self, key: str) -> None:
        """Puts the cursor on a row if that is shown."""
        for at, line in enumerate(self.rows.shown):
            if line.key == key:
                self._set_cursor(at)

    def _set_cursor(self, at: int) -> None:
        before, top = self._cursor, self.scroll_offset.y
        self._cursor = max(0, min(at, len(self.rows.shown) - 1))
        self._copied_key = None
        self._keep_cursor_visible()
        if self.scroll_offset.y == top:
            keys = [line.key for at in (before, self._cursor) for line in self.rows.shown[at : at + 1]]
            self._redraw(lambda line: line.key in keys)
        else:
            self.refresh()
        self.post_message(self.Moved(self))

    def _keep_cursor_visible(self) -> None:
        top, height = self.scroll_offset.y, self._height
        if self._cursor < top:
            self._view_from(self._cursor)
        elif self._cursor >= top + height:
            self._view_from(self._cursor - height + 1)

    def _view_from(self, y: int) -> None:
        """Scrolls to line ``y``. Immediately, because the code after it reads the scroll offset, and a later scroll
        would undo a sort's. By force, because the layout may not know new rows yet and would refuse."""
        self.scroll_to(y=y, animate=False, immediate=True, force=True)

    def action_move(self, rows: int) -> None:
        self._set_cursor(self._cursor + rows)

    def action_page(self, pages: int) -> None:
        self._set_cursor(self._cursor + pages * max(1, self._height - 1))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "choose" or self.opens

    def action_choose(self) -> None:
        key = self.cursor_key
        if key is not None:
            self.post_message(self.Chosen(self, key))

    def action_copy(self) -> None:
        """Copies the name of the cursor's row; the second time, the whole row."""
        if self._cursor >= len(self.rows.shown):
            return
        line = self.rows.shown[self._cursor]
        is_whole = line.key == self._copied_key
        self._copied_key = None if is_whole else line.key
        self.post_message(self.Copied(self.rows.told(line) if is_whole else self.rows.name_of(line), is_whole))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.post_message(self.Moved(self))

    def watch_show_vertical_scrollbar(self) -> None:
        """Fits the columns again. A scrollbar takes a cell without a resize event, which cut off the last digit of each
        row."""
        self._resize()
        self.refresh()

    def on_resize(self) -> None:
        self._resize()
        self._keep_cursor_visible()
        self.post_message(self.Moved(self))

    async def on_click(self, event: events.Click) -> None:
        if event.y < HEADER_HEIGHT:
            column = self.cells.column_at(event.x - INDENT_WIDTH)
            if column is not None:
                self.sort_by(column)
            return
        at = self.scroll_offset.y + event.y - HEADER_HEIGHT
        if at >= len(self.rows.shown):
            return
        if at == self._cursor and self.opens:
            self.action_choose()
        else:
            self._set_cursor(at)

    # --- drawing -----------------------------------------------------------------------------------------------------

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._strips.clear()

    def _style(self, name: str) -> Style:
        """The style of a cell in a usual line. ``name`` is one of ``STYLES``; empty for the table's own."""
        return self.style_over("", name)

    def _style_at_cursor(self, name: str) -> Style:
        """As ``_style``, in the cursor's line."""
        return self.style_over("cursor", name)

    def why_empty(self) -> str:
        if self.row_count:
            return NONE_MATCHES if self.filter_text else ALL_HIDDEN
        return self._when_empty

    def render_lines(self, crop: Region) -> list[Strip]:
        """Finds the width once for all lines, because that takes as long as half a line."""
        self._drawn_width = self._width
        try:
            return super().render_lines(crop)
        finally:
            self._drawn_width = None

    def render_line(self, y: int) -> Strip:
        width = self._drawn_width or self._width
        at = self.scroll_offset.y + y - HEADER_HEIGHT
        if y < HEADER_HEIGHT:
            return header_line(self.rows, self._style("header"), width, with_age=self._has_ages)
        if at < len(self.rows.shown):
            has_cursor = at == self._cursor and self.has_focus
            return self._row_strip(self.rows.shown[at], has_cursor=has_cursor, width=width)
        if at == 0 and (words := self.why_empty()):
            style = self._style("dim")
            return Strip([Segment(f" {words}", style)]).adjust_cell_length(width, style)
        return Strip.blank(width, self._style(""))

    def _row_strip(self, line: Line, *, has_cursor: bool, width: int) -> Strip:
        """A drawn row. It is drawn again only if it looks different, wherever it stands now."""
        rows, style_of = self.rows, self._style_at_cursor if has_cursor else self._style
        if self._has_ages or line.errors:
            return row_line(rows, line, style_of, width, has_cursor=has_cursor, with_age=self._has_ages)
        layout = rows, width, rows.cells.shown
        if self._strips_layout != layout or len(self._strips) > _STRIPS_MAX:
            self._strips_layout = layout
            self._strips.clear()
        is_marked = line.key in rows.marked
        look = line.texts, line.marks, has_cursor, is_marked, rows.stale_parts(line)
        before = self._strips.get(line.key)
        if before is not None and before[0] == look:
            return before[1]
        strip = row_line(rows, line, style_of, width, has_cursor=has_cursor, with_age=False)
        self._strips[line.key] = look, strip
        return strip
