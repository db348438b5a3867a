"""Moves from message to message without going back to the list. The list's cursor moves too."""

from __future__ import annotations

from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.tui.widgets.tables.row_table import RowTable


class ListWalk:
    """A walk through the rows of a list of messages, as filtered and sorted there."""

    def __init__(self, table: RowTable):
        self._table = table

    def step(self, rows: int) -> FoundMessage | None:
        """Moves ``rows`` down, or up if negative, and returns the message there. None past either end."""
        at = self._table.cursor_at + rows
        if not 0 <= at < self._table.shown_count:
            return None
        key = self._table.model.shown[at].key
        self._table.move_to(key)
        message: FoundMessage = self._table.part(key)
        return message

    def place(self) -> str:
        """Where the cursor is: ``3 of 200``."""
        return f"{self._table.cursor_at + 1:,} of {self._table.shown_count:,}"
