"""Moving a group's offsets, with a preview queue by queue and an undo file."""

from __future__ import annotations

from collections.abc import Iterable

from textual.widget import Widget
from textual.widgets import Input, Static

from rmqadmin.core.offsets.reset_plan import Resets, act, parse_destination, plan_queues
from rmqadmin.core.results import Result
from rmqadmin.tui.dialogs.change import ChangeScreen, Occasion
from rmqadmin.tui.literal import literal
from rmqclient.admin import AdminClient


class ResetScreen(ChangeScreen):
    def __init__(self, group: str, topic: str):
        super().__init__(f"Reset the offsets of {group} in {topic}", group)
        self._group, self._topic = group, topic
        self._to = ""

    def form(self) -> Iterable[Widget]:
        yield Static(literal("to: begin, end, an offset, or a time (now, -10m, @epoch, ISO 8601)"), classes="label")
        yield Input(id="to", compact=True)

    def change(self, admin: AdminClient, occasion: Occasion) -> Result:
        where = parse_destination(self._to.strip(), occasion.now_ms)
        if where.notice is not None:
            occasion.notice(where.notice)
        queues = plan_queues(admin, admin.topic_route(self._topic), self._group, self._topic, where.goal)
        planned = Resets(self._group, self._topic, queues)
        if occasion.dry_run:
            return planned
        return act(admin, planned, where.goal, occasion.now_ms, occasion.notice)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input.id == "to" and event.value.strip():
            self._to = event.value
            self.preview()
