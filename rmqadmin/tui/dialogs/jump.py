"""Jump mode: everything that can have the focus gets a number, and typing the number focuses it."""

from __future__ import annotations

from typing import Any

from textual import events
from textual.app import ComposeResult
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from rmqadmin.tui.dialogs.dialog import Dialog

_TARGETS_MAX = 9


class JumpScreen(Dialog[None]):
    """Any other key closes it."""

    def __init__(self, below: Screen[Any]):
        super().__init__()
        self._below = below
        self._targets: list[Widget] = [widget for widget in below.focus_chain if widget.region.area][:_TARGETS_MAX]

    def compose(self) -> ComposeResult:
        for number, target in enumerate(self._targets, 1):
            label = Static(Content(f" {number} "))
            label.styles.position = "absolute"
            label.styles.offset = target.region.offset
            yield label

    def on_key(self, event: events.Key) -> None:
        event.stop()
        self.dismiss()
        if event.character and event.character.isdigit() and 0 < int(event.character) <= len(self._targets):
            self._below.set_focus(self._targets[int(event.character) - 1])
