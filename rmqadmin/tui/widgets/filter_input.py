"""The line that ``/`` opens: filters the table while it is typed. Enter keeps the filter, Escape takes it back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

from rmqadmin.tui.filters import parse_filter
from rmqproto.errors import UsageError


class FilterInput(Input):
    """Hidden until ``open``. Posts ``Filtered`` with what rows have to pass. Gets and gives back the keys at once, not
    by ``focus``, which waits for a message: the next key that is typed is already the filter's.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "discard", "No filter")]

    @dataclass
    class Filtered(Message):
        passes: Callable[[str], bool] | None

    def __init__(self) -> None:
        super().__init__(
            placeholder="text, /regular expression/, ! in front for the opposite", id="filter", compact=True
        )
        self.display = False
        self._before: Widget | None = None

    def open(self) -> None:
        self._before = self.screen.focused
        self.display = True
        self.screen.set_focus(self)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        try:
            passes = parse_filter(event.value)
        except UsageError:  # half a regular expression: the filter before it stays
            self.add_class("-bad")
            return
        self.remove_class("-bad")
        self.post_message(self.Filtered(passes))

    async def action_submit(self) -> None:
        self._close()

    def action_discard(self) -> None:
        self.value = ""
        self._close()

    def _close(self) -> None:
        self.screen.set_focus(self._before)
        self.display = False
