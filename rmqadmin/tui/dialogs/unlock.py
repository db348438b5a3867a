"""Permits changes in a read-only or protected context once its name has been typed."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Footer, Input, Static

from rmqadmin.tui.dialogs.dialog import PICTURE_KEY, Dialog
from rmqadmin.tui.dialogs.inputs import NameInput
from rmqadmin.tui.literal import literal

if TYPE_CHECKING:
    from rmqadmin.tui.dashboard import Dashboard


class UnlockScreen(Dialog[None]):
    DEFAULT_CLASSES = "dialog"
    AUTO_FOCUS = "#context"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Close"), PICTURE_KEY]

    def __init__(self, locked_by: str):
        super().__init__()
        self._locked_by = locked_by

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog--box"):
            yield Static(literal(f"Permit changes in {self._locked_by}"), classes="dialog--title")
            yield Static(literal(f"Type {self._locked_by} to go on. :lock forbids them again."), classes="label")
            yield NameInput(id="context")
            yield Static("", id="said")
        yield Footer(compact=True, show_command_palette=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.value.strip() != self._locked_by:
            self.query_one("#said", Static).update(literal("it stays locked: that is not its name", "$text-error"))
            return
        self.dismiss()
        cast("Dashboard", self.app).set_read_only(False)
