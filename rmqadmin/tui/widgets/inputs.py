"""One-line inputs without a border: lines that are pasted into one become one. And the line that ``/`` opens, which
filters a table while the user types."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

from rmqadmin.tui.filters import parse_filter
from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqproto.errors import UsageError

_HANDLED_WITHIN_S = 0.5


def enter(word: str) -> Binding:
    """Enter has priority: a key behind it is not text of this line, but goes to what it has opened."""
    return Binding("enter", "submit", word, priority=True)


class CompactInput(Input):
    """An input without a border. Lines that are pasted into it become one."""

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, compact=True, **options)

    async def action_submit(self) -> None:
        """Takes the text that was typed before, and returns when what follows from it has been done."""
        await _has_handled(self)
        await super().action_submit()
        for node in self.ancestors_with_self:
            if node is not self.app:
                await _has_handled(node)

    def on_paste(self, event: events.Paste) -> None:
        """Pastes several lines as one, and says so. Textual takes only the first."""
        lines = [line.strip() for line in event.text.splitlines() if line.strip()]
        if len(lines) <= 1:
            return
        event.prevent_default()
        event.stop()
        self.replace(" ".join(lines), *sorted(self.selection))
        self.app.notify(f"{len(lines)} pasted lines are one now", markup=False)


async def _has_handled(node: DOMNode) -> None:
    """Waits until a node has handled what was posted to it before, unless it is closing or takes long."""
    done = asyncio.Event()
    if node.call_later(done.set):
        with suppress(TimeoutError):
            async with asyncio.timeout(_HANDLED_WITHIN_S):
                await done.wait()


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
