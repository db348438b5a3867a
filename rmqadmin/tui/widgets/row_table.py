"""The table that most screens are: rows by key, filled part by part, drawn line by line.

Textual's DataTable lays out every row when it is filled: 0.25 s for a thousand rows, in which no key is answered. This
one keeps rows as data and draws only lines in view whose text has changed, so a refresh costs only what it brings. A
part is what was asked for together (names and configuration; numbers of the visible rows). Each part has the time when
it was asked for. Cells older than a few refreshes are dimmed, with their age in the last column.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from rmqadmin.core.terminal_text import printable
from rmqadmin.core.units import duration
from rmqadmin.tui.widgets.rows import BASE, Column, Line, Order, sort

NOT_ASKED = "·"
"""Stands in a cell whose part has not been asked for yet."""

_INDENT, _GAP = " ", "  "
_RISES, _FALLS = "▲ ", "▼ "
"""Stands in the gap behind the title of the column that rows are sorted by."""

_HEADER_HEIGHT = 1
_WHOLE_LINES = ("header", "cursor")
_AGE_WIDTH = 8
_AGE_TITLE = "age"


class RowTable(ScrollView, can_focus=True):
    """Rows of ``columns``. Fill it with ``set_rows`` and ``put``; both keep the cursor on its row and the row on its
    line. Rows come in the order of ``set_rows`` unless the user sorts them. Posts ``Chosen`` for Enter and a click on
    the cursor's row, ``Moved`` when other rows come into view, ``Sorted``."""

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
        Binding("greater_than_sign", "sort(1)", "Sort", key_display="<>", id="table.sort_next"),
        Binding("less_than_sign", "sort(-1)", "Sort by the column before", show=False, id="table.sort_previous"),
        Binding("o", "reverse", "Other order", show=False, id="table.reverse"),
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
    ):
        """``stale_after_s``: age at which cells are dimmed; None for rows that do not age. ``opens``: whether there is
        something behind a row, so that Enter is offered."""
        super().__init__(id=id)
        self.opens = opens
        self.columns = list(columns)
        self.stale_after_s = stale_after_s
        self._lines: dict[str, Line] = {}
        self._shown: list[Line] = []
        self._passes: Callable[[str], bool] | None = None
        self.filter_text = ""
        self.order: Order | None = None
        self._cursor = 0
        self._widths = [cell_len(column.title) for column in self.columns]
        self._styles: dict[str, Style] = {}

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Other columns, and no rows."""
        self.columns = list(columns)
        self.order = None
        self._widths = [cell_len(column.title) for column in self.columns]
        self.set_rows(())

    # --- filling -----------------------------------------------------------------------------------------------------

    def set_rows(self, rows: Iterable[tuple[str, Any]], *, keeps_others: bool = False) -> None:
        """All rows, in order, with their base part. Its text is made again only if the part has changed. Rows that were
        there before keep their other parts. With ``keeps_others``, rows that are not named stay behind the others, and
        age."""
        lines: dict[str, Line] = {}
        changed = False
        for key, base in rows:
            line = self._lines.get(key)
            if line is None:
                line = Line(key, [None] * len(self.columns), [None] * len(self.columns))
            if line.parts.get(BASE) != base:
                self._fill(line, BASE, base)
                line.searched = self._searched(line)
                changed = True
            changed = changed or self._is_stale(line, BASE)
            line.asked_s[BASE] = time.monotonic()
            lines[key] = line
        if keeps_others:
            lines |= {key: line for key, line in self._lines.items() if key not in lines}
        changed = changed or list(lines) != list(self._lines)
        self._lines = lines
        if changed:
            self._show_passing()

    def put(self, part: str, found: Mapping[str, Any]) -> None:
        """One part of some rows, whose text is made again. Rows that are gone meanwhile are ignored."""
        widths = list(self._widths)
        changed = set()
        for key, value in found.items():
            line = self._lines.get(key)
            if line is not None:
                if self._is_stale(line, part):
                    changed.add(key)
                if self._fill(line, part, value):
                    changed.add(key)
                line.asked_s[part] = time.monotonic()
        if changed and self.sorted_part == part:
            self._show_passing()
        elif self._widths != widths:
            self._resize()
            self.refresh()
        else:
            self._redraw(lambda line: line.key in changed)

    def _fill(self, line: Line, part: str, value: Any) -> bool:
        """Makes the cells of one part. Returns whether one of them has changed. Columns only grow, so that they do not
        move with every number."""
        line.parts[part] = value
        changed = False
        for at, column in enumerate(self.columns):
            if column.part == part:
                text, mark = printable(column.text(value)), column.mark(value) if column.mark else None
                changed = changed or (line.texts[at], line.marks[at]) != (text, mark)
                line.texts[at], line.marks[at] = text, mark
                self._widths[at] = max(self._widths[at], min(cell_len(text), column.width_max))
        return changed

    def _searched(self, line: Line) -> str:
        return "  ".join(line.texts[at] or "" for at, column in enumerate(self.columns) if column.part == BASE)

    def _is_stale(self, line: Line, part: str, every: float = 1) -> bool:
        asked_s = line.asked_s.get(part)
        if asked_s is None or self.stale_after_s is None:
            return False
        return time.monotonic() - asked_s > self.stale_after_s * every

    def show_ages(self, stale_after_s: float) -> None:
        """Draws what is stale, as often as its age changes."""
        self.stale_after_s = stale_after_s
        self._redraw(lambda line: any(self._is_stale(line, part) for part in line.parts))

    def _redraw(self, wanted: Callable[[Line], bool]) -> None:
        """Draws lines in view again. Everything else is still as it was."""
        top, width = self.scroll_offset.y, self.size.width
        lines = self._shown[top : top + self._height]
        regions = [Region(0, y, width, 1) for y, line in enumerate(lines, _HEADER_HEIGHT) if wanted(line)]
        if regions:
            self.refresh(*regions)

    def set_filter(self, passes: Callable[[str], bool] | None, text: str = "") -> None:
        """Shows only rows whose base cells' text passes. ``text`` is how the filter was written."""
        self._passes, self.filter_text = passes, text if passes else ""
        self._show_passing()

    def _show_passing(self) -> None:
        """Keeps the cursor on its row, and that row on its line of the screen. But at the top of sorted rows, the
        cursor stays there, so that the user sees what comes."""
        key, before = self.cursor_key, self._cursor
        passes = self._passes
        self._shown = [line for line in self._lines.values() if passes is None or passes(line.searched)]
        if self.order is not None:
            self._shown = sort(self._shown, self.columns, self.order)
        at = next((at for at, line in enumerate(self._shown) if line.key == key), None)
        self._cursor = max(0, min(before, len(self._shown) - 1)) if at is None else at
        self._resize()
        looks_at_top = self.order is not None and self.scroll_offset.y == 0
        if self._cursor != before and not looks_at_top:
            self.scroll_to(y=self.scroll_offset.y + self._cursor - before, animate=False)
        self._keep_cursor_visible()
        self.refresh()
        self.post_message(self.Moved(self))

    # --- sorting -----------------------------------------------------------------------------------------------------

    @property
    def sorted_part(self) -> str | None:
        """The part that rows are sorted by."""
        return None if self.order is None else self.columns[self.order.at].part

    def order_text(self) -> str:
        """What rows are sorted by, and for how many rows that is known. Empty if they are not sorted."""
        if self.order is None:
            return ""
        column = self.columns[self.order.at]
        known_count = self.known_count(column.part)
        known = f" ({known_count:,} known so far)" if known_count < len(self._shown) else ""
        return f"by {column.title}, {'falling' if self.order.descends else 'rising'}{known}"

    def sort_by(self, at: int | None) -> None:
        """Sorts by a column: numbers falling, text rising. The same column again: the other way round. None: in the
        order they came in. The cursor goes to the first row, which is why users sort."""
        if at is None:
            self.order = None
        elif self.order is not None and self.order.at == at:
            self.order = Order(at, not self.order.descends)
        else:
            self.order = Order(at, self.columns[at].is_number)
        self._show_passing()
        self._set_cursor(0)
        self.post_message(self.Sorted(self))

    def asked_longest_ago(self, part: str, count: int) -> list[str]:
        """Rows that pass the filter, those with the oldest part first, and before them those that were never asked
        for."""
        oldest = sorted(self._shown, key=lambda line: line.asked_s.get(part, 0.0))
        return [line.key for line in oldest[:count]]

    def known_count(self, part: str) -> int:
        """How many of the rows that pass the filter have a part."""
        return sum(part in line.parts for line in self._shown)

    def action_sort(self, columns: int) -> None:
        """The next column, or the one before. Past either end: the order in which rows came."""
        if not self.columns:
            return
        at = -1 if self.order is None else self.order.at
        at = (at + 1 + columns) % (len(self.columns) + 1) - 1
        self.sort_by(None if at < 0 else at)

    def action_reverse(self) -> None:
        if self.order is not None:
            self.sort_by(self.order.at)

    def _resize(self) -> None:
        width = len(_INDENT) + sum(self._widths) + len(_GAP) * len(self._widths)
        size = Size(width + (_AGE_WIDTH if self.stale_after_s else 0), len(self._shown) + _HEADER_HEIGHT)
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

    @property
    def _height(self) -> int:
        """Rows that fit between the header and the horizontal scrollbar, if there is one."""
        return max(1, self.scrollable_content_region.height - _HEADER_HEIGHT)

    def visible_keys(self) -> list[str]:
        """The rows in view, top to bottom: those worth asking for."""
        top = self.scroll_offset.y
        return [line.key for line in self._shown[top : top + self._height]]

    def view_text(self) -> str:
        """How the rows are filtered and sorted, for the status line. Empty if they are neither."""
        return ", ".join(filter(None, [f"filter {self.filter_text}" if self.filter_text else "", self.order_text()]))

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
        top, height = self.scroll_offset.y, self._height
        if self._cursor < top:
            self.scroll_to(y=self._cursor, animate=False)
        elif self._cursor >= top + height:
            self.scroll_to(y=self._cursor - height + 1, animate=False)

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

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.post_message(self.Moved(self))

    def watch_show_horizontal_scrollbar(self) -> None:
        """The scrollbar takes the last line, on which the cursor may be."""
        self.call_after_refresh(self._keep_cursor_visible)

    def on_resize(self) -> None:
        self._keep_cursor_visible()
        self.post_message(self.Moved(self))

    async def on_click(self, event: events.Click) -> None:
        if event.y < _HEADER_HEIGHT:
            column = self._column_at(event.x)
            if column is not None:
                self.sort_by(column)
            return
        at = self.scroll_offset.y + event.y - _HEADER_HEIGHT
        if at >= len(self._shown):
            return
        if at == self._cursor and self.opens:
            self.action_choose()
        else:
            self._set_cursor(at)

    def _column_at(self, x: int) -> int | None:
        """The column under a place on the header."""
        end = len(_INDENT) - self.scroll_offset.x
        for at, width in enumerate(self._widths):
            end += width + len(_GAP)
            if x < end:
                return at
        return None

    # --- drawing -----------------------------------------------------------------------------------------------------

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._styles.clear()

    def _style(self, name: str) -> Style:
        """The style of the table itself (an empty name), of a component, or what a mark adds to either. Looking one up
        costs 0.3 ms, and a screen has hundreds."""
        style = self._styles.get(name)
        if style is None:
            if not name:
                style = self.rich_style
            elif name in _WHOLE_LINES:
                style = self.rich_style + self.get_component_rich_style(f"row-table--{name}")
            else:
                style = self.get_component_rich_style(f"row-table--{name}", partial=True)
            self._styles[name] = style
        return style

    def render_line(self, y: int) -> Strip:
        left, width = self.scroll_offset.x, self.size.width
        at = self.scroll_offset.y + y - _HEADER_HEIGHT
        if y < _HEADER_HEIGHT:
            style = self._style("header")
            segments = self._header(style)
        elif at < len(self._shown):
            style = self._style("cursor" if at == self._cursor and self.has_focus else "")
            segments = self._row(self._shown[at], style)
        else:
            return Strip.blank(width, self._style(""))
        return Strip(segments).crop_extend(left, left + width, style)

    def _header(self, style: Style) -> list[Segment]:
        segments = [Segment(_INDENT, style)]
        for at, column in enumerate(self.columns):
            cell = self._cell(at, column.title, style)
            if self.order is not None and self.order.at == at:
                cell = Segment(cell.text[: -len(_GAP)] + (_FALLS if self.order.descends else _RISES), style)
            segments.append(cell)
        if self.stale_after_s is not None:
            segments.append(Segment(f"{_AGE_TITLE:>{_AGE_WIDTH}}", style))
        return segments

    def _row(self, line: Line, style: Style) -> list[Segment]:
        stale = style + self._style("stale")
        segments, oldest_s, now_s = [Segment(_INDENT, style)], 0.0, time.monotonic()
        for at, column in enumerate(self.columns):
            text, mark = line.texts[at], line.marks[at]
            if text is None:
                segments.append(self._cell(at, NOT_ASKED, stale))
            elif self._is_stale(line, column.part, column.every):
                oldest_s = max(oldest_s, now_s - line.asked_s[column.part])
                segments.append(self._cell(at, text, stale))
            else:
                segments.append(self._cell(at, text, style + self._style(mark) if mark else style))
        if self.stale_after_s is not None:
            age = duration(int(oldest_s) * 1000) if oldest_s else ""
            segments.append(Segment(f"{age:>{_AGE_WIDTH}}", stale))
        return segments

    def _cell(self, at: int, text: str, style: Style) -> Segment:
        width = self._widths[at]
        missing = width - cell_len(text)
        if missing < 0:
            text, missing = set_cell_size(text, width - 1) + "…", 0
        padded = " " * missing + text if self.columns[at].is_number else text + " " * missing
        return Segment(padded + _GAP, style)
