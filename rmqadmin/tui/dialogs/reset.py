"""Moving a group's offsets: `resetOffset`, with its preview queue by queue and its undo file."""

from __future__ import annotations

from collections.abc import Iterable

from textual.widget import Widget
from textual.widgets import Input, Static

from rmqadmin.call import Call
from rmqadmin.commands.offset import reset_offset
from rmqadmin.results import Result
from rmqadmin.tui.dialogs.change import ChangeScreen
from rmqadmin.tui.literal import literal


class ResetScreen(ChangeScreen):
    command = "resetOffset"

    def __init__(self, group: str, topic: str):
        super().__init__(f"Reset the offsets of {group} in {topic}", group)
        self._group, self._topic = group, topic
        self._to = ""

    def form(self) -> Iterable[Widget]:
        yield Static(literal("to: begin, end, an offset, or a time (now, -10m, @epoch, ISO 8601)"), classes="label")
        yield Input(id="to", compact=True)

    def change(self, call: Call) -> Result:
        return reset_offset(call, group=self._group, topic=self._topic, to=self._to)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input.id == "to" and event.value.strip():
            self._to = event.value
            self.preview()
