"""The line that ``/`` opens: filters the table while it is typed. Enter keeps the filter, Escape takes it back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input

from rmqadmin.tui.filters import parse_filter
from rmqproto.errors import UsageError


class FilterInput(Input):
    """Hidden until ``open``. Posts ``Changed`` with what rows have to pass, and ``Closed`` when it is left."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "discard", "No filter")]

    @dataclass
    class Filtered(Message):
        passes: Callable[[str], bool] | None

    class Closed(Message):
        """The table has the keys again."""

    def __init__(self) -> None:
        super().__init__(
            placeholder="text, /regular expression/, ! in front for the opposite", id="filter", compact=True
        )
        self.display = False

    def open(self) -> None:
        self.display = True
        self.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        try:
            passes = parse_filter(event.value)
        except UsageError:  # half a regular expression: the filter before it stays
            self.add_class("-bad")
            return
        self.remove_class("-bad")
        self.post_message(self.Filtered(passes))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._close()

    def action_discard(self) -> None:
        self.value = ""
        self._close()

    def _close(self) -> None:
        self.display = False
        self.post_message(self.Closed())
