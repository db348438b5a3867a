"""What is typed into in a dialog: while it has the keys, the line of keys says what Enter does."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Input


class FieldInput(Input):
    """What a change is to be."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Show what would change"),
        Binding("tab", "app.focus_next", "Next field"),
    ]


class NameInput(Input):
    """Under a preview: the name of what is changed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "submit", "Do it")]


class FileInput(Input):
    """A new file."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "submit", "Write it")]
