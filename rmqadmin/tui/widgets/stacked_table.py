"""A table above or below others: the cursor walks from one to the next. Without rows it says what that means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.segment import Segment
from textual.message import Message
from textual.strip import Strip

from rmqadmin.tui.widgets.columns import Column
from rmqadmin.tui.widgets.row_table import HEADER_HEIGHT, RowTable


class StackedTable(RowTable):
    """Posts ``LeftBehind`` when the cursor goes past its first or last row. Without rows it
    shows the text of ``say_when_empty``."""

    @dataclass
    class LeftBehind(Message):
        """``step``: -1 upwards, 1 downwards."""

        table: StackedTable
        step: int

    def __init__(self, columns: Sequence[Column], **more: Any):
        super().__init__(columns, **more)
        self._when_empty = ""

    def say_when_empty(self, text: str) -> None:
        if text != self._when_empty:
            self._when_empty = text
            self.refresh()

    def action_move(self, rows: int) -> None:
        at_edge = self.cursor_at == 0 if rows < 0 else self.cursor_at >= self.shown_count - 1
        if at_edge and abs(rows) == 1:
            self.post_message(self.LeftBehind(self, rows))
        else:
            super().action_move(rows)

    def enter(self, step: int) -> None:
        """Takes the keys, with the cursor on the first row that a step in this direction reaches."""
        self.screen.set_focus(self)
        super().action_move(-self.row_count if step > 0 else self.row_count)

    def render_line(self, y: int) -> Strip:
        if y != HEADER_HEIGHT or self.shown_count or self.row_count:
            return super().render_line(y)
        style = self._style("") + self._style("dim")
        return Strip([Segment(f" {self._when_empty}", style)]).adjust_cell_length(self.size.width, style)
