"""The inputs of dialogs. While one has the focus, the line of keys says what Enter does."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType

from rmqadmin.tui.widgets.compact_input import CompactInput


class FieldInput(CompactInput):
    """A field of a form."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Show what would change"),
        Binding("tab", "app.focus_next", "Next field"),
    ]

    def on_paste(self, event: events.Paste) -> None:
        """Refuses several lines. Textual's input takes the first and says nothing of the others."""
        if len(event.text.splitlines()) > 1:
            event.prevent_default()
            event.stop()
            self.notify("nothing was pasted: a field holds one line", severity="error", markup=False)


class NameInput(CompactInput):
    """The name to type under a preview."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "submit", "Do it")]


class FileInput(CompactInput):
    """The name of a new file."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "submit", "Write it")]
