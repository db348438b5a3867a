"""Textual's DataTable over ``Rows``. It has a window of the rows, at most WINDOW, which moves when the cursor or the
view comes near one of its ends. Rows of the window are empty until they are in view, and only cells whose text has
changed are written: filling it with ten thousand rows would take two seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import time_ns

from rich.style import Style
from rich.text import Text
from textual.geometry import Size
from textual.style import Style as VisualStyle
from textual.widgets import DataTable

from rmqadmin.core.tables.layout import GAP
from rmqadmin.core.terminal_text import shortened_at_end
from rmqadmin.tui.widgets.tables.columns import Cells, Column
from rmqadmin.tui.widgets.tables.rows import Cell, Line, Rows

HEADER_HEIGHT = 1

WINDOW = 400
"""The most rows that the DataTable has."""

_NEAR = 60
"""How near to an end of the window the cursor or the view may come before the window moves: more than a page, so that
no key meets the end."""

MARK_KEY, EMPTY_KEY = "mark", "empty"
"""The keys of the column of signs, and of the only one that a table without rows has."""

_RISES, _FALLS = "▲", "▼"

_STYLES = {
    "stale": "italic $text-disabled",
    "good": "$text-success",
    "warn": "$text-warning",
    "bad": "bold $text-error",
    "dim": "$text-muted",
    "line": "$curve",
    "new": "bold $text-accent",
}
"""How the cells of each mark look."""


def _wall_ms() -> int:
    return time_ns() // 1_000_000


class WindowTable(DataTable[Text]):
    """Draws the rows of ``model``. Subclasses say ``moved`` to whoever wants to know."""

    HAS_SIGNS = True
    """Whether a column before the others has the sign of each row."""

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        id: str | None = None,
        stale_after_s: float | None = None,
        now_ms: Callable[[], int] = _wall_ms,
        has_titles: bool = True,
    ):
        """``has_titles``: whether the titles of the columns are shown. ``stale_after_s``: age from which cells are dim;
        None for rows that do not age. ``now_ms``: the clock of ages in cells."""
        super().__init__(
            id=id,
            show_header=has_titles,
            cursor_type="row",
            show_row_labels=False,
            cursor_foreground_priority="renderable",
            show_cursor=False,
        )
        self.model = Rows(columns, now_ms, stale_after_s)
        self._now_ms = now_ms
        self._first = 0
        """The position among the shown rows of the first row of the window."""
        self._laid_out: list[int] | None = None
        """The columns that the DataTable has, by number; none while it shows why it is empty."""
        self._written: dict[int, list[Cell]] = {}
        """The cells that were written, by row of the window, at the widths of their columns."""
        self._styles: dict[str, Style] = {}
        self._is_ready = False

    def on_mount(self) -> None:
        self._is_ready = True
        self.app.theme_changed_signal.subscribe(self, lambda _: self._restyle())
        self._place(0, 0)
        self.watch(self, "scroll_y", self._view_moved, init=False)

    @property
    def cells(self) -> Cells:
        return self.model.cells

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Replaces the columns, and removes all rows."""
        self.model = Rows(columns, self._now_ms, self.model.stale_after_s)
        self._laid_out = None
        self._place(0, 0)

    def why_empty(self) -> str:
        """What an empty table shows."""
        return ""

    def moved(self) -> None:
        """Called when other rows may be visible, or the cursor is on another."""

    # --- where cursor and view are -----------------------------------------------------------------------------------

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

    def visible_keys(self) -> list[str]:
        """The keys of the rows in view, top to bottom."""
        return [line.key for line in self._lines_in_view()]

    def _lines_in_view(self) -> list[Line]:
        return self.model.shown[self._top : self._top + self._height]

    @property
    def _top(self) -> int:
        """The position among the shown rows of the first one in view."""
        return self._first + self.scroll_offset.y

    @property
    def _height(self) -> int:
        """Rows that fit under the header."""
        return max(1, self.scrollable_content_region.height - HEADER_HEIGHT * self.show_header)

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
            self.add_column(Text(sign + (" " * GAP).join(titles), no_wrap=True), width=room, key=EMPTY_KEY)
            self.add_row(Text(shortened_at_end(self.why_empty(), max(1, room)), self._style("dim"), no_wrap=True))
            self._laid_out = None
        elif shown != self._laid_out:
            self.clear(columns=True)
            if self.HAS_SIGNS:
                self.add_column(Text(""), width=1, key=MARK_KEY)
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
        sign = [self.model.sign(line)] if self.HAS_SIGNS else []
        cells = ((column, width, *self.model.cell(line, column)) for column, width in self.cells.shown)
        return [*sign, *((self.cells.cell(column, width, text), name) for column, width, text, name in cells)]

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
        self.moved()

    def on_data_table_row_highlighted(self) -> None:
        self._view_moved()

    def on_resize(self) -> None:
        self._place(self.cursor_at, self._top)
        self.moved()
