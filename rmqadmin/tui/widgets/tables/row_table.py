"""The table of most screens: Textual's DataTable over ``Rows``.

The DataTable has a window of the rows, at most WINDOW, which moves when the cursor or the view comes near one of its
ends. Rows of the window are empty until they are in view, and only cells whose text has changed are written: filling it
with ten thousand rows would take two seconds. A part is what one question read (names and configuration; numbers of the
visible rows), with the time of the question. Cells older than a few refreshes are dim.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import time_ns
from typing import Any, ClassVar

from rich.style import Style
from rich.text import Text
from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.style import Style as VisualStyle
from textual.widgets import DataTable

from rmqadmin.core.results import Shape
from rmqadmin.core.tables.marks import Mark
from rmqadmin.core.tables.widths import GAP
from rmqadmin.core.terminal_text import shortened_at_end
from rmqadmin.tui.key_map import bound
from rmqadmin.tui.remembered import SavedOrder
from rmqadmin.tui.widgets.tables.cells import Cells, CutCell
from rmqadmin.tui.widgets.tables.columns import BASE, Column
from rmqadmin.tui.widgets.tables.rows import Line, Order, Rows

HEADER_HEIGHT = 1

NONE_MATCHES = "no row matches the filter"
ALL_HIDDEN = "only RocketMQ's own: z shows them"

NOT_ASKED, NOT_KNOWN = "·", "?"
"""Cells of a part that has not been read yet, and of one that could not be read."""

WINDOW = 400
"""The most rows that the DataTable has."""

_NEAR = 60
"""How near to an end of the window the cursor or the view may come before the window moves: more than a page, so that
no key meets the end."""

_PREPARED_AT_ONCE = 200
"""Rows prepared in one turn of the loop: 5 ms."""

_MARK_KEY, _EMPTY_KEY = "mark", "empty"
_MARKED, _BROKEN, _LOOK = ("●", "new"), ("✖", "bad"), ("▲", "warn")
"""Shown before the row: that the user has marked it, and the worst of its cells. Nothing is told by a colour alone."""

_RISES, _FALLS = "▲", "▼"

_STYLES = {
    "stale": "$text-disabled",
    "good": "$text-success",
    "warn": "$text-warning",
    "bad": "bold $text-error",
    "dim": "$text-muted",
    "line": "$curve",
    "new": "bold $text-accent",
}
"""How the cells of each mark look."""

Cell = tuple[str, str]
"""The text of a cell, at the width of its column, and the name of its style."""


def _wall_ms() -> int:
    return time_ns() // 1_000_000


class RowTable(DataTable[Text]):
    """A table of ``columns``. Fill it with ``set_rows`` and ``put``; both keep the cursor on its row and the row on its
    line. Rows are in the order of ``set_rows`` unless the user sorts them. Posts ``Chosen`` for Enter and for a click
    on the cursor's row, ``Moved`` when other rows come into view, and ``Sorted``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bound("open", "select_cursor"),
        bound("up", "cursor_up"),
        bound("down", "cursor_down"),
        bound("page_up"),
        bound("page_down"),
        bound("first"),
        bound("last"),
        bound("sort_next", "sort(1)"),
        bound("sort_previous", "sort(-1)"),
        bound("reverse"),
        bound("copy"),
        bound("copy_row"),
    ]

    HAS_SIGNS = True
    """Whether a column before the others has the sign of each row."""

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
        has_titles: bool = True,
    ):
        """``has_titles``: whether the titles of the columns are shown. ``stale_after_s``: age from which cells are dim;
        None for rows that do not age. ``opens``: whether Enter opens a row. ``now_ms``: the clock of ages in cells."""
        super().__init__(
            id=id,
            show_header=has_titles,
            cursor_type="row",
            show_row_labels=False,
            cursor_foreground_priority="renderable",
            show_cursor=False,
        )
        self.opens = opens
        self.model = Rows(columns, now_ms, stale_after_s)
        self._now_ms = now_ms
        self.filter_text = ""
        self._when_empty = ""
        self._first = 0
        """The position among the shown rows of the first row of the window."""
        self._laid_out: list[int] | None = None
        """The columns that the DataTable has, by number; none while it shows why it is empty."""
        self._written: dict[int, list[Cell]] = {}
        """The cells that were written, by row of the window."""
        self._styles: dict[str, Style] = {}
        self._is_ready = False

    def on_mount(self) -> None:
        self._is_ready = True
        self.app.theme_changed_signal.subscribe(self, lambda _: self._restyle())
        self._place(0, 0)
        self.watch(self, "scroll_y", self._view_moved, init=False)

    def say_when_empty(self, text: str) -> None:
        """Sets the text that an empty table shows."""
        if text != self._when_empty:
            self._when_empty = text
            if not self.model.shown:
                self._keep()

    @property
    def cells(self) -> Cells:
        return self.model.cells

    # --- filling -----------------------------------------------------------------------------------------------------

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Replaces the columns, and removes all rows."""
        self.model = Rows(columns, self._now_ms, self.model.stale_after_s)
        self._laid_out = None
        self._place(0, 0)

    async def prepare(self, rows: Iterable[tuple[str, Any]]) -> None:
        """Makes the new ones of many rows in small batches, so that no key waits for all of them. Call it before
        ``set_rows``."""
        new = [(key, base) for key, base in rows if key not in self.model.lines]
        for at in range(0, len(new), _PREPARED_AT_ONCE):
            self.model.prepare(new[at : at + _PREPARED_AT_ONCE])
            await asyncio.sleep(0)

    def set_rows(self, rows: Iterable[tuple[str, Any]], *, keeps_others: bool = False) -> None:
        """As ``Rows.set_base``."""
        if self.model.set_base(rows, keeps_others=keeps_others):
            self._arrange()

    def put(self, part: str, found: Mapping[str, Any], *, asked_s: float | None = None) -> None:
        """As ``Rows.put``."""
        if self.model.put(part, found, asked_s=asked_s):
            if self.model.sorted_part == part:
                self._arrange()
            else:
                self._keep()

    def show_ages(self, stale_after_s: float) -> None:
        """Dims the cells that have become stale."""
        self.model.stale_after_s = stale_after_s
        self._write_view()

    def set_filter(self, passes: Callable[[str], bool] | None, text: str = "") -> None:
        """Shows only rows whose base cells' text passes. ``text`` is how the filter was written."""
        self.model.passes, self.filter_text = passes, text if passes else ""
        self._arrange()

    def set_hidden(self, is_hidden: Callable[[Any], bool] | None) -> None:
        """Hides rows by their base part; None hides none."""
        self.model.is_hidden = is_hidden
        self._arrange()

    def _arrange(self) -> None:
        """Sorts and filters. Keeps the cursor on its row, and that row on its line of the screen. But the view at the
        top of sorted rows stays there, so that the user sees what comes, and all of a table without the focus does."""
        key, before, top = self.cursor_key, self.cursor_at, self._top
        self.model.arrange()
        at = None if top == 0 and not self.has_focus else self._at_of(key)
        at = before if at is None else at
        stays = top == 0 and self.model.sorted_part is not None
        self._place(at, top if stays else top + at - before)
        self.post_message(self.Moved(self))

    # --- the window --------------------------------------------------------------------------------------------------

    def _place(self, at: int, top: int, *, follows: bool = True) -> None:
        """Makes the DataTable equal to the rows, with the cursor on the shown row ``at`` and that of ``top`` on the
        first line, or as near as both can be. If the view ``follows``, the cursor is in view."""
        if not self._is_ready:
            return
        count, height = len(self.model.shown), self._height
        if follows:
            at = max(0, min(at, count - 1))
            top = max(at - height + 1, min(top, at))
        top = max(0, min(top, count - height))
        self._first = self._first_for(top)
        rows = min(WINDOW, count)
        if self._lay_out():
            self._fill(rows, range(top - self._first, top - self._first + height))
        self.scroll_to(y=top - self._first, animate=False, immediate=True, force=True)
        self.move_cursor(row=max(0, min(at - self._first, rows - 1)), scroll=False)
        self._write_view()

    def _keep(self) -> None:
        """As ``_place``, with cursor and view as they are. A cursor that the mouse wheel has left far behind comes
        along."""
        self._place(self.cursor_at, self._top, follows=False)

    def _first_for(self, top: int) -> int:
        """Where the window begins for a view that begins at ``top``."""
        first, last_first = self._first, max(0, len(self.model.shown) - WINDOW)
        is_near_begin = first > 0 and top < first + _NEAR
        is_near_end = first < last_first and top + self._height > first + WINDOW - _NEAR
        if is_near_begin or is_near_end:
            first = top + (self._height - WINDOW) // 2
        return max(0, min(first, last_first))

    def _lay_out(self) -> bool:
        """Gives the DataTable the columns that have room, or why it is empty. Returns whether it has rows."""
        order, has_rows = self.model.order, bool(self.model.shown)
        room = self.scrollable_content_region.width - GAP - (1 + GAP) * self.HAS_SIGNS
        self.cells.fit(room, None if order is None else order.at)
        shown = [at for at, _ in self.cells.shown]
        titles = [self._title(at, width) for at, width in self.cells.shown]
        if not has_rows:
            self.clear(columns=True)
            sign, room = " " * (1 + GAP) * self.HAS_SIGNS, room + (1 + GAP) * self.HAS_SIGNS
            self.add_column(Text(sign + (" " * GAP).join(titles), no_wrap=True), width=room, key=_EMPTY_KEY)
            self.add_row(Text(shortened_at_end(self.why_empty(), max(1, room)), self._style("dim"), no_wrap=True))
            self._laid_out = None
        elif shown != self._laid_out:
            self.clear(columns=True)
            if self.HAS_SIGNS:
                self.add_column(Text(""), width=1, key=_MARK_KEY)
            for (at, width), title in zip(self.cells.shown, titles, strict=True):
                self.add_column(Text(title, no_wrap=True), width=width, key=str(at))
            self._laid_out = shown
        else:
            self._widen(titles)
        if self.show_cursor != has_rows:
            self.show_cursor = has_rows
        if not self.row_count or not has_rows:
            self._written.clear()
        return has_rows

    def _widen(self, titles: Sequence[str]) -> None:
        """Gives the columns that the DataTable has their widths and titles."""
        is_other = False
        for column, (_, width), title in zip(
            self.ordered_columns[self.HAS_SIGNS :], self.cells.shown, titles, strict=True
        ):
            if (column.width, column.label.plain) != (width, title):
                column.width, column.label, is_other = width, Text(title, no_wrap=True), True
        if is_other and self.row_count:
            first = self.ordered_columns[0].key
            self.update_cell("0", first, self.get_cell("0", first), update_width=True)

    def _title(self, at: int, width: int) -> str:
        order, title = self.model.order, self.model.columns[at].title
        if order is not None and order.at == at:
            title += _FALLS if order.descends else _RISES
        return self.cells.cell(at, width, title)

    def _fill(self, count: int, in_view: range) -> None:
        """Gives the DataTable ``count`` rows; those in view come with their cells, so that nothing is drawn twice."""
        if self.row_count > count:
            self.clear()
            self._written.clear()
        for at in range(self.row_count, count):
            self._written[at] = self._cells_of(at) if at in in_view else []
            self.add_row(*(self._text(cell) for cell in self._written[at]), key=str(at))
        self.virtual_size = Size(self.virtual_size.width, count + HEADER_HEIGHT * self.show_header)

    def _cells_of(self, at: int) -> list[Cell]:
        """The cells of a row of the window."""
        line = self.model.shown[self._first + at]
        sign = [self._sign(line)] if self.HAS_SIGNS else []
        return [*sign, *(self._cell(line, column, width) for column, width in self.cells.shown)]

    def _sign(self, line: Line) -> Cell:
        if line.key in self.model.marked:
            return _MARKED
        if line.errors or Mark.BAD in line.marks:
            return _BROKEN
        return _LOOK if Mark.WARN in line.marks else (" ", "")

    def _cell(self, line: Line, at: int, width: int) -> Cell:
        column, text, mark = self.model.columns[at], line.texts[at], line.marks[at]
        name = "line" if column.kind is Shape.TREND else ""
        if column.part in line.errors:
            text, name = ("" if column.kind is Shape.TREND else NOT_KNOWN), "bad"
        elif text is None:
            text, name = NOT_ASKED, "stale"
        elif mark is not None:
            name = mark.name.lower()
        if self.model.is_stale(line, column.part, column.every):
            name = "stale"
        return self.cells.cell(at, width, text), name

    def _write_view(self) -> None:
        """Writes the cells in view that look different now, and then those of the pages around, too: DataTable draws
        all of the view again when any cell is written, so the next keys had better write none."""
        if self._laid_out is None or not self._is_ready:
            return
        top, height = self.scroll_offset.y, self._height
        if self._write(range(top, top + height)):
            self._write(range(top - height, top))
            self._write(range(top + height, top + 2 * height))

    def _write(self, rows: range) -> bool:
        """Writes the cells of these rows of the window that look different now. Returns whether there are any."""
        keys, is_other = [column.key for column in self.ordered_columns], False
        for at in range(max(0, rows.start), min(self.row_count, rows.stop)):
            before, cells = self._written[at], self._cells_of(at)
            if cells != before:
                is_other = True
                for number, cell in enumerate(cells):
                    if number >= len(before) or cell != before[number]:
                        self.update_cell(str(at), keys[number], self._text(cell))
                self._written[at] = cells
        return is_other

    def _text(self, cell: Cell) -> Text:
        return Text(cell[0], self._style(cell[1]), no_wrap=True, end="")

    def _style(self, name: str) -> Style:
        """The style of a cell. ``name`` is one of ``_STYLES``, or empty."""
        if name not in self._styles:
            self._styles[name] = VisualStyle.parse(_STYLES.get(name, "")).rich_style
        return self._styles[name]

    def _restyle(self) -> None:
        """Writes all cells again, in the colours of another theme."""
        self._styles.clear()
        self._written = {at: [] for at in self._written}
        self._keep()

    def _view_moved(self) -> None:
        self._write_view()
        if self._first_for(self._top) != self._first:
            self.call_after_refresh(self._keep)  # after what this key has scrolled
        self.post_message(self.Moved(self))

    def on_data_table_row_highlighted(self) -> None:
        self._view_moved()

    def on_resize(self) -> None:
        self._place(self.cursor_at, self._top)
        self.post_message(self.Moved(self))

    # --- sorting -----------------------------------------------------------------------------------------------------

    def sort_by(self, at: int | None) -> None:
        """Sorts by a column: numbers falling, text rising, and the same column again the other way round. None restores
        the original order. Cursor and view go to the first row, which is why users sort. Sparklines are ignored."""
        if at is not None and self.model.columns[at].kind is Shape.TREND:
            return
        order = self.model.order
        if at is None:
            self.model.order = None
        elif order is not None and order.at == at:
            self.model.order = Order(at, not order.descends)
        else:
            self.model.order = Order(at, self.model.columns[at].is_number)
        self.model.arrange()
        self._place(0, 0)
        self.post_message(self.Moved(self))
        self.post_message(self.Sorted(self))

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        if event.column_key.value not in (_MARK_KEY, _EMPTY_KEY, None):
            self.sort_by(int(event.column_key.value))

    def action_sort(self, columns: int) -> None:
        """Sorts by the next column, or the previous one. Past either end, restores the original order."""
        if not self.model.columns:
            return
        sortable = [at for at, column in enumerate(self.model.columns) if column.kind is not Shape.TREND]
        orders = [None, *sortable]
        before = None if self.model.order is None else self.model.order.at
        self.sort_by(orders[(orders.index(before) + columns) % len(orders)])

    def action_reverse(self) -> None:
        if self.model.order is not None:
            self.sort_by(self.model.order.at)

    @property
    def saved_order(self) -> SavedOrder | None:
        """The order of the rows, in the form that is remembered."""
        order = self.model.order
        return None if order is None else SavedOrder(self.model.columns[order.at].name, order.descends)

    def restore_order(self, saved: SavedOrder) -> None:
        """Restores a remembered order if its column still exists. Posts no message."""
        at = next((at for at, column in enumerate(self.model.columns) if column.name == saved.column), None)
        if at is not None:
            self.model.order = Order(at, saved.descends)
            self._arrange()

    # --- contents ----------------------------------------------------------------------------------------------------

    def row_keys(self) -> list[str]:
        """The keys of all rows, including those that the filter hides."""
        return list(self.model.lines)

    @property
    def all_count(self) -> int:
        """How many rows there are, with those that the filter hides."""
        return len(self.model.lines)

    @property
    def shown_count(self) -> int:
        return len(self.model.shown)

    @property
    def cursor_at(self) -> int:
        """The position of the cursor among the shown rows, from 0."""
        return self._first + self.cursor_row

    @property
    def cursor_line(self) -> Line | None:
        return self.model.shown[self.cursor_at] if self.cursor_at < len(self.model.shown) else None

    @property
    def cursor_key(self) -> str | None:
        line = self.cursor_line
        return None if line is None else line.key

    def part(self, key: str, part: str = BASE) -> Any:
        """One part of a row, or None."""
        line = self.model.lines.get(key)
        return None if line is None else line.parts.get(part)

    @property
    def _top(self) -> int:
        """The position among the shown rows of the first one in view."""
        return self._first + self.scroll_offset.y

    @property
    def _height(self) -> int:
        """Rows that fit under the header."""
        return max(1, self.scrollable_content_region.height - HEADER_HEIGHT * self.show_header)

    def visible_keys(self) -> list[str]:
        """The keys of the rows in view, top to bottom."""
        return [line.key for line in self.model.shown[self._top : self._top + self._height]]

    def cut_cells(self) -> list[CutCell]:
        """The cells of the cursor's row that are left out or shortened, and errors in full."""
        line = self.cursor_line
        if line is None:
            return []
        errors = [CutCell("error", text) for text in line.errors.values()]
        return [*errors, *self.cells.cut(line.texts)]

    def view_text(self) -> str:
        """How the rows are filtered and sorted, for the status line. Empty if they are neither."""
        window = ""
        if self.shown_count > WINDOW:
            window = f"rows {self._first + 1:,} to {self._first + self.row_count:,}"
        filtered = f"filter {self.filter_text}" if self.filter_text else ""
        return ", ".join(filter(None, [window, filtered, self.model.order_text()]))

    def why_empty(self) -> str:
        if self.all_count:
            return NONE_MATCHES if self.filter_text else ALL_HIDDEN
        return self._when_empty

    # --- keys --------------------------------------------------------------------------------------------------------

    def _at_of(self, key: str | None) -> int | None:
        return next((at for at, line in enumerate(self.model.shown) if line.key == key), None)

    def move_to(self, key: str) -> None:
        """Puts the cursor on a row if that is shown."""
        if (at := self._at_of(key)) is not None:
            self._place(at, self._top)
            self.post_message(self.Moved(self))

    def action_first(self) -> None:
        self._place(0, 0)

    def action_last(self) -> None:
        self._place(self.shown_count - 1, self.shown_count)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "select_cursor" or self.opens

    def on_data_table_row_selected(self) -> None:
        key = self.cursor_key
        if key is not None and self.opens:
            self.post_message(self.Chosen(self, key))

    def action_copy(self) -> None:
        if (line := self.cursor_line) is not None:
            self.post_message(self.Copied(self.model.name_of(line), is_whole=False))

    def action_copy_row(self) -> None:
        if (line := self.cursor_line) is not None:
            self.post_message(self.Copied(self.model.told(line), is_whole=True))
