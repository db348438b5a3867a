"""A table above or below others. The cursor moves from one to the next."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from rmqadmin.tui.widgets.tables.row_table import RowTable


class StackedTable(RowTable):
    """Posts ``LeftBehind`` when the cursor goes past its first or last row."""

    @dataclass
    class LeftBehind(Message):
        """The cursor left the table. ``step``: -1 upwards, 1 downwards."""

        table: StackedTable
        step: int

    def _keeps_row(self) -> bool:
        """Without the focus, a table at its top keeps showing its first rows: of a log, the newest."""
        return self.has_focus or self.scroll_offset.y > 0

    def action_move(self, rows: int) -> None:
        at_edge = self.cursor_at == 0 if rows < 0 else self.cursor_at >= self.shown_count - 1
        if at_edge and abs(rows) == 1:
            self.post_message(self.LeftBehind(self, rows))
        else:
            super().action_move(rows)

    def enter(self, step: int) -> None:
        """Takes the focus, with the cursor on the first row if the step is downwards, otherwise on the last."""
        self.screen.set_focus(self)
        super().action_move(-self.row_count if step > 0 else self.row_count)
