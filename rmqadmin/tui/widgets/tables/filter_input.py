"""The line that ``/`` opens. It filters a table while the user types. Enter keeps the filter, Escape restores the
earlier one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

from rmqadmin.tui.filters import parse_filter
from rmqadmin.tui.widgets.compact_input import CompactInput, enter
from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqproto.errors import UsageError


class FilterInput(CompactInput):
    """Visible from ``open`` until it is closed. Posts ``Filtered`` with the condition for the table's rows. Takes and
    returns the focus at once, not by ``focus``, which waits for a message: the next key already belongs to the
    filter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        enter("Keep"),
        Binding("escape", "discard", "No filter"),
    ]

    @dataclass
    class Filtered(Message):
        table: RowTable
        passes: Callable[[str], bool] | None
        text: str

    @dataclass
    class Closed(Message):
        """The filter was accepted with this text. The last ``Filtered`` may still be on its way."""

        table: RowTable
        text: str

    def __init__(self) -> None:
        super().__init__(placeholder="text, /regular expression/, ! in front for the opposite", id="filter")
        self._before: Widget | None = None
        self._table: RowTable | None = None

    def open(self, table: RowTable) -> None:
        """Opens with the current filter of the table."""
        self._table = table
        self.value = table.filter_text
        self._before = self.screen.focused
        self.display = True
        self.screen.set_focus(self)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self._table is None or event.value != self.value:
            return
        try:
            passes = parse_filter(event.value)
        except UsageError:  # an incomplete regular expression: the filter stays as it is
            self.add_class("-bad")
            return
        self.remove_class("-bad")
        self.post_message(self.Filtered(self._table, passes, event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._close()

    def action_discard(self) -> None:
        self.value = ""
        self._close()

    def _close(self) -> None:
        if self._table is not None:
            self.post_message(self.Closed(self._table, self.value))
        self.screen.set_focus(self._before)
        self.display = False
