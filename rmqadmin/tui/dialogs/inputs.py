"""What is typed into in a dialog: while it has the keys, the line of keys says what Enter does."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from rmqadmin.tui.widgets.compact_input import CompactInput


class FieldInput(CompactInput):
    """What a change is to be."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Show what would change"),
        Binding("tab", "app.focus_next", "Next field"),
    ]


class NameInput(CompactInput):
    """Under a preview: the name of what is changed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "submit", "Do it")]


class FileInput(CompactInput):
    """A new file."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "submit", "Write it")]
