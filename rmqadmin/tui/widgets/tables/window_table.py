"""Textual's DataTable over ``Rows``. It has a window of the rows, at most WINDOW, which moves when the cursor or the
view comes near one of its ends. Rows of the window are empty until they are in view, and only rows that look different
are written: filling it with ten thousand rows would take two seconds. Each row is one cell, its columns side by side in
it: the time of a DataTable goes into the number of its cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import time_ns

from rich.style import Style
from rich.text import Text
from textual import events
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

_LINE = "line"
"""The key of the only column."""

_SORTS = "sorts"
"""What the title of a column has in the ``meta`` of its style: the column's number."""

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
        self._written: list[list[Cell]] = []
        """The cells of each row of the window as they were written, at the widths of their columns."""
        self._styles: dict[str, Style] = {}
        self._is_ready = False

    def on_mount(self) -> None:
        self._is_ready = True
        self.app.theme_changed_signal.subscribe(self, lambda _: self._restyle())
        self._place(0, 0)
        self.watch(self, "scroll_y", self._view_moved, init=False)

    def on_unmount(self) -> None:
        self.app.theme_changed_signal.unsubscribe(self)  # or the app would keep this table and its screen

    @property
    def cells(self) -> Cells:
        return self.model.cells

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Replaces the columns, and removes all rows."""
        self.model = Rows(columns, self._now_ms, self.model.stale_after_s)
        self._place(0, 0)

    def why_empty(self) -> str:
        """What an empty table shows."""
        return ""

    def sort_by(self, at: int | None) -> None:
        """Called for a click on the title of a column."""

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
        self._lay_out()
        self._fill(max(1, min(WINDOW, count)), range(top - self._first, top - self._first + height))
        self.scroll_to(y=top - self._first, animate=False, immediate=True, force=True)
        self.move_cursor(row=max(0, min(at - self._first, self.row_count - 1)), scroll=False)
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

    def _lay_out(self) -> None:
        """Gives the columns that have room their widths, and shows their titles."""
        order, width = self.model.order, max(1, self.scrollable_content_region.width - GAP)
        self.cells.fit(width - (1 + GAP) * self.HAS_SIGNS, None if order is None else order.at)
        titles = self._line([(" ", "")] * self.HAS_SIGNS + [(self._title(*shown), "") for shown in self.cells.shown])
        begin = (1 + GAP) * self.HAS_SIGNS
        for at, title_width in self.cells.shown:
            titles.stylize(Style.from_meta({_SORTS: at}), max(0, begin - 1), begin + title_width + 1)
            begin += title_width + GAP
        if not self.columns:
            self.add_column(titles, width=width, key=_LINE)
            return
        (column,) = self.ordered_columns
        if (column.width, column.label) != (width, titles):
            column.width, column.label = width, titles
            if self.row_count:
                self.update_cell("0", _LINE, self.get_cell("0", _LINE), update_width=True)

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
            self._written.append(self._cells_of(at) if at in in_view else [])
            self.add_row(self._line(self._written[at]), key=str(at))
        self.virtual_size = Size(self.virtual_size.width, count + HEADER_HEIGHT * self.show_header)
        self.show_cursor = bool(self.model.shown)

    def _cells_of(self, at: int) -> list[Cell]:
        """The cells of a row of the window; of the only one of a table without rows, why it is empty."""
        if not self.model.shown:
            return [(shortened_at_end(self.why_empty(), self.ordered_columns[0].width), "dim")]
        line = self.model.shown[self._first + at]
        sign = [self.model.sign(line)] if self.HAS_SIGNS else []
        cells = ((column, width, *self.model.cell(line, column)) for column, width in self.cells.shown)
        return [*sign, *((self.cells.cell(column, width, text), name) for column, width, text, name in cells)]

    def _write_view(self) -> None:
        """Writes the rows in view that look different now, and then those of the pages around, too: DataTable draws all
        of the view again when any cell is written, so the next keys had better write none."""
        if not self._is_ready:
            return
        top, height = self.scroll_offset.y, self._height
        if self._write(range(top, top + height)):
            self._write(range(top - height, top))
            self._write(range(top + height, top + 2 * height))

    def _write(self, rows: range) -> bool:
        """Writes those of these rows of the window that look different now. Returns whether there are any."""
        is_other = False
        for at in range(max(0, rows.start), min(self.row_count, rows.stop)):
            cells = self._cells_of(at)
            if cells != self._written[at]:
                is_other = True
                self.update_cell(str(at), _LINE, self._line(cells))
                self._written[at] = cells
        return is_other

    def _line(self, cells: Sequence[Cell]) -> Text:
        line = Text(no_wrap=True, end="")
        for at, (text, name) in enumerate(cells):
            line.append(" " * GAP * (at > 0)).append(text, self._style(name) if name else None)
        return line

    def _style(self, name: str) -> Style:
        """The style of a cell. ``name`` is one of ``_STYLES``, or empty."""
        if name not in self._styles:
            self._styles[name] = VisualStyle.parse(_STYLES.get(name, "")).rich_style
        return self._styles[name]

    def _restyle(self) -> None:
        """Writes all cells again, in the colours of another theme."""
        self._styles.clear()
        self._written = [[] for _ in self._written]
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

    def on_click(self, event: events.Click) -> None:
        if (at := event.style.meta.get(_SORTS)) is not None:
            self.sort_by(at)
