"""The table that most screens are: rows by key, filled part by part, drawn line by line.

Textual's DataTable lays out every row when it is filled: 0.25 s for a thousand of them, in which no key is answered.
This one keeps rows as data and draws only the lines in view, so what a refresh costs is what it brings. Parts are what
was asked for together (names and configuration; numbers of the visible rows): each has the time it was asked at, and
cells older than a few refreshes are dimmed, with their age in the last column.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec
from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from rmqadmin.output import printable
from rmqadmin.tui.units import duration

BASE = "base"
"""The part that all rows have: what they are."""

NOT_ASKED = "·"
"""In a cell whose part has not been asked for yet."""

CELL_WIDTH_MAX = 64
_GAP = 2
_AGE_WIDTH = 8
_AGE_TITLE = "age"


class Column(msgspec.Struct, frozen=True):
    """``text`` of a row's part is the cell. ``mark`` of it is a component class, as ``row-table--bad``, or None. A part
    asked for only ``every`` so many refreshes may be that much older before it is stale."""

    title: str
    text: Callable[[Any], str]
    part: str = BASE
    is_number: bool = False
    mark: Callable[[Any], str | None] | None = None
    width_max: int = CELL_WIDTH_MAX
    every: float = 1


@dataclass(slots=True)
class _Line:
    """One row: its parts, and when each was asked for."""

    key: str
    parts: dict[str, Any] = field(default_factory=dict)
    asked_s: dict[str, float] = field(default_factory=dict)
    searched: str = ""


class RowTable(ScrollView, can_focus=True):
    """Rows of ``columns``. Fill it with ``set_rows`` and ``put``; both keep the cursor on its row and the row on its
    line. Posts ``Chosen`` for Enter and a click on the cursor's row, ``Moved`` when other rows come into view."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "row-table--header",
        "row-table--cursor",
        "row-table--stale",
        "row-table--good",
        "row-table--warn",
        "row-table--bad",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False),
        Binding("home", "move(-1000000000)", "First", show=False),
        Binding("end,G", "move(1000000000)", "Last", show=False),
        Binding("left", "scroll_left", "Left", show=False),
        Binding("right", "scroll_right", "Right", show=False),
        Binding("enter", "choose", "Open", id="table.open"),
    ]

    @dataclass
    class Chosen(Message):
        """``key`` of the row, and its table."""

        table: RowTable
        key: str

    @dataclass
    class Moved(Message):
        """Other rows may be visible now, or the cursor is on another."""

        table: RowTable

    def __init__(self, columns: Sequence[Column], *, id: str | None = None, stale_after_s: float | None = None):
        """``stale_after_s``: age at which cells are dimmed; None for rows that do not age."""
        super().__init__(id=id)
        self.columns = list(columns)
        self.stale_after_s = stale_after_s
        self._lines: dict[str, _Line] = {}
        self._shown: list[_Line] = []
        self._passes: Callable[[str], bool] | None = None
        self._cursor = 0
        self._widths = [cell_len(column.title) for column in self.columns]

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Other columns, and no rows."""
        self.columns = list(columns)
        self._widths = [cell_len(column.title) for column in self.columns]
        self.set_rows(())

    # --- filling -----------------------------------------------------------------------------------------------------

    def set_rows(self, rows: Iterable[tuple[str, Any]]) -> None:
        """All rows there are, in order, with their base part. Rows that were there keep their other parts."""
        now_s = time.monotonic()
        lines = {}
        for key, base in rows:
            line = self._lines.get(key) or _Line(key)
            if line.parts.get(BASE) != base:
                line.parts[BASE] = base
                self._widen(line, BASE)
                line.searched = self._searched(line)
            line.asked_s[BASE] = now_s
            lines[key] = line
        self._lines = lines
        self._show_passing()

    def put(self, part: str, found: Mapping[str, Any]) -> None:
        """One part of some rows. Rows that are gone meanwhile are passed over."""
        now_s = time.monotonic()
        for key, value in found.items():
            line = self._lines.get(key)
            if line is not None:
                line.parts[part] = value
                line.asked_s[part] = now_s
                self._widen(line, part)
        self._resize()
        self.refresh()

    def _widen(self, line: _Line, part: str) -> None:
        """Columns only grow: they do not dance with the numbers in them."""
        for at, column in enumerate(self.columns):
            if column.part == part:
                width = min(cell_len(printable(column.text(line.parts[part]))), column.width_max)
                self._widths[at] = max(self._widths[at], width)

    def _searched(self, line: _Line) -> str:
        return "  ".join(column.text(line.parts[BASE]) for column in self.columns if column.part == BASE)

    def set_filter(self, passes: Callable[[str], bool] | None) -> None:
        """Shows only rows whose base cells' text passes."""
        self._passes = passes
        self._show_passing()

    def _show_passing(self) -> None:
        """Keeps the cursor on its row, and that row on its line of the screen."""
        key, before = self.cursor_key, self._cursor
        passes = self._passes
        self._shown = [line for line in self._lines.values() if passes is None or passes(line.searched)]
        at = next((at for at, line in enumerate(self._shown) if line.key == key), None)
        self._cursor = max(0, min(before, len(self._shown) - 1)) if at is None else at
        self._resize()
        if self._cursor != before:
            self.scroll_to(y=self.scroll_offset.y + self._cursor - before, animate=False)
        self._keep_cursor_visible()
        self.refresh()
        self.post_message(self.Moved(self))

    def _resize(self) -> None:
        width = sum(self._widths) + _GAP * len(self._widths) + (_AGE_WIDTH if self.stale_after_s else 0)
        size = Size(width, len(self._shown) + 1)  # the header takes a line
        if size != self.virtual_size:
            self.virtual_size = size

    # --- what is there -----------------------------------------------------------------------------------------------

    def row_keys(self) -> list[str]:
        """Every row, also those that the filter hides."""
        return list(self._lines)

    @property
    def row_count(self) -> int:
        return len(self._lines)

    @property
    def shown_count(self) -> int:
        return len(self._shown)

    @property
    def cursor_key(self) -> str | None:
        return self._shown[self._cursor].key if self._cursor < len(self._shown) else None

    def part(self, key: str, part: str = BASE) -> Any:
        """One part of a row, or None."""
        line = self._lines.get(key)
        return None if line is None else line.parts.get(part)

    def visible_keys(self) -> list[str]:
        """The rows in view, top to bottom: what is worth asking for."""
        top = self.scroll_offset.y
        return [line.key for line in self._shown[top : top + max(1, self.size.height - 1)]]

    # --- moving ------------------------------------------------------------------------------------------------------

    def move_to(self, key: str) -> None:
        """Puts the cursor on a row, if it is shown."""
        for at, line in enumerate(self._shown):
            if line.key == key:
                self._set_cursor(at)

    def _set_cursor(self, at: int) -> None:
        self._cursor = max(0, min(at, len(self._shown) - 1))
        self._keep_cursor_visible()
        self.refresh()
        self.post_message(self.Moved(self))

    def _keep_cursor_visible(self) -> None:
        top, height = self.scroll_offset.y, max(1, self.size.height - 1)
        if self._cursor < top:
            self.scroll_to(y=self._cursor, animate=False)
        elif self._cursor >= top + height:
            self.scroll_to(y=self._cursor - height + 1, animate=False)

    def action_move(self, rows: int) -> None:
        self._set_cursor(self._cursor + rows)

    def action_page(self, pages: int) -> None:
        self._set_cursor(self._cursor + pages * max(1, self.size.height - 2))

    def action_choose(self) -> None:
        key = self.cursor_key
        if key is not None:
            self.post_message(self.Chosen(self, key))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.post_message(self.Moved(self))

    def on_resize(self) -> None:
        self._keep_cursor_visible()
        self.post_message(self.Moved(self))

    async def on_click(self, event: events.Click) -> None:
        at = self.scroll_offset.y + event.y - 1
        if event.y < 1 or at >= len(self._shown):
            return
        if at == self._cursor:
            self.action_choose()
        else:
            self._set_cursor(at)

    # --- drawing -----------------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        left = self.scroll_offset.x
        width = self.size.width
        base = self.rich_style
        if y == 0:
            strip = self._header(base + self.get_component_rich_style("row-table--header"))
        else:
            at = self.scroll_offset.y + y - 1
            if at >= len(self._shown):
                return Strip.blank(width, base)
            is_cursor = at == self._cursor and self.has_focus
            style = base + self.get_component_rich_style("row-table--cursor") if is_cursor else base
            strip = self._row(self._shown[at], style)
        return strip.crop_extend(left, left + width, strip._segments[-1].style if strip._segments else base)

    def _header(self, style: Style) -> Strip:
        texts = [column.title for column in self.columns]
        segments = [self._cell(at, text, style) for at, text in enumerate(texts)]
        if self.stale_after_s is not None:
            segments.append(Segment(f"{_AGE_TITLE:>{_AGE_WIDTH}}", style))
        return Strip(segments)

    def _row(self, line: _Line, style: Style) -> Strip:
        now_s = time.monotonic()
        stale_style = style + self.get_component_rich_style("row-table--stale", partial=True)
        segments, oldest_s = [], 0.0
        for at, column in enumerate(self.columns):
            part = line.parts.get(column.part)
            if part is None:
                segments.append(self._cell(at, NOT_ASKED, stale_style))
                continue
            age_s = now_s - line.asked_s[column.part]
            if self.stale_after_s is not None and age_s > self.stale_after_s * column.every:
                oldest_s = max(oldest_s, age_s)
                cell_style = stale_style
            else:
                mark = column.mark(part) if column.mark else None
                cell_style = style + self.get_component_rich_style(mark, partial=True) if mark else style
            segments.append(self._cell(at, printable(column.text(part)), cell_style))
        if self.stale_after_s is not None:
            age = duration(int(oldest_s) * 1000) if oldest_s else ""
            segments.append(Segment(f"{age:>{_AGE_WIDTH}}", stale_style))
        return Strip(segments)

    def _cell(self, at: int, text: str, style: Style) -> Segment:
        width = self._widths[at]
        missing = width - cell_len(text)
        if missing < 0:
            text, missing = set_cell_size(text, width - 1) + "…", 0
        gap = " " * _GAP
        padded = " " * missing + text if self.columns[at].is_number else text + " " * missing
        return Segment(padded + gap, style)
