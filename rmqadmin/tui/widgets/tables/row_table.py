"""The table of most screens: how it is filled, filtered, sorted and copied from, and what it tells its screen.

A part is what one question read (names and configuration; numbers of the visible rows), with the time of the question.
Cells older than a few refreshes are dim, and an old number has a sign.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from textual.binding import BindingType
from textual.message import Message

from rmqadmin.core.results import Shape
from rmqadmin.tui.key_map import bound
from rmqadmin.tui.remembered import SavedOrder
from rmqadmin.tui.widgets.tables.columns import BASE, Column, CutCell
from rmqadmin.tui.widgets.tables.rows import Order
from rmqadmin.tui.widgets.tables.window_table import WINDOW, WindowTable

NONE_MATCHES = "no row matches the filter"
ALL_HIDDEN = "only RocketMQ's own: z shows them"

_PREPARED_AT_ONCE = 200
"""Rows prepared in one turn of the loop: 5 ms."""


class RowTable(WindowTable):
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

    @dataclass
    class Chosen(Message):
        """The user chose a row. ``row`` is its base part: a refresh may remove it before the screen hears of this."""

        table: RowTable
        key: str
        row: Any

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

    def __init__(self, columns: Sequence[Column], *, opens: bool = True, **options: Any):
        """``opens``: whether Enter opens a row. ``options``: those of ``WindowTable``."""
        super().__init__(columns, **options)
        self.opens = opens
        self.filter_text = ""
        self._when_empty = ""

    def moved(self) -> None:
        self.post_message(self.Moved(self))

    def say_when_empty(self, text: str) -> None:
        """Sets the text that an empty table shows."""
        if text != self._when_empty:
            self._when_empty = text
            if not self.model.shown:
                self._keep()

    # --- filling -----------------------------------------------------------------------------------------------------

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
        if self.model.make_room(self._lines_in_view()):
            self._keep()
        else:
            self._write_view()

    def set_filter(self, passes: Callable[[str], bool] | None, text: str = "") -> None:
        """Shows only rows whose base cells' text passes. ``text`` is how the filter was written."""
        self.model.passes, self.filter_text = passes, text if passes else ""
        self._arrange()

    def set_hidden(self, is_hidden: Callable[[Any], bool] | None) -> None:
        """As ``Rows.hide``."""
        self.model.hide(is_hidden)
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
        self.moved()

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
        self.moved()
        self.post_message(self.Sorted(self))

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

    def part(self, key: str, part: str = BASE) -> Any:
        """One part of a row, or None."""
        line = self.model.lines.get(key)
        return None if line is None else line.parts.get(part)

    @property
    def chosen(self) -> Any:
        """The base part of the row under the cursor; None if there is no row."""
        line = self.cursor_line
        return None if line is None else line.parts[BASE]

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
            self.moved()

    def step(self, rows: int) -> Any:
        """Moves the cursor ``rows`` down, or up if negative, and returns the base part there. None past either end."""
        at = self.cursor_at + rows
        if not 0 <= at < self.shown_count:
            return None
        self.move_to(self.model.shown[at].key)
        return self.chosen

    def action_first(self) -> None:
        self._place(0, 0)

    def action_last(self) -> None:
        self._place(self.shown_count - 1, self.shown_count)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "select_cursor" or self.opens

    def on_data_table_row_selected(self) -> None:
        if (line := self.cursor_line) is not None and self.opens:
            self.post_message(self.Chosen(self, line.key, line.parts[BASE]))

    def action_copy(self) -> None:
        if (line := self.cursor_line) is not None:
            self.post_message(self.Copied(self.model.name_of(line), is_whole=False))

    def action_copy_row(self) -> None:
        if (line := self.cursor_line) is not None:
            self.post_message(self.Copied(self.model.told(line), is_whole=True))
