"""From message to message without going back to the list: the list's cursor goes along."""

from __future__ import annotations

from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.tui.widgets.row_table import RowTable


class ListWalk:
    """Through the rows of a list of messages, as they are filtered and sorted there."""

    def __init__(self, table: RowTable):
        self._table = table

    def step(self, rows: int) -> FoundMessage | None:
        """The message so many rows below, or above; None past either end."""
        if not 0 <= self._table.cursor_at + rows < self._table.shown_count:
            return None
        self._table.action_move(rows)
        key = self._table.cursor_key
        message: FoundMessage | None = None if key is None else self._table.part(key)
        return message

    def place(self) -> str:
        """``3 of 200``."""
        return f"{self._table.cursor_at + 1:,} of {self._table.shown_count:,}"
