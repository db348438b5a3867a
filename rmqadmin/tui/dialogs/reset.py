"""Resets a group's offsets, with a preview of each queue and an undo file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from textual.widget import Widget
from textual.widgets import Input, Static

from rmqadmin.core.offsets.reset import Goal
from rmqadmin.core.offsets.reset_plan import Resets, act, only_queue, parse_destination, plan_queues, remarks
from rmqadmin.core.results import Result
from rmqadmin.tui.dialogs.change import ChangeScreen, Occasion
from rmqadmin.tui.dialogs.inputs import FieldInput
from rmqadmin.tui.literal import literal
from rmqproto.bodies.base import MessageQueue

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


class ResetScreen(ChangeScreen):
    def __init__(self, group: str, topic: str, queue: MessageQueue | None = None):
        """``queue`` is the only queue to reset; None for all of the topic."""
        what = "the offsets" if queue is None else f"the offset in queue {queue.queue_id} of {queue.broker_name}"
        super().__init__(f"Reset {what} of {group} in {topic}", group)
        self._group, self._topic, self._queue = group, topic, queue
        self._to = ""

    def form(self) -> Iterable[Widget]:
        yield Static(
            literal("to: begin, end, an offset, +N or -N messages, a time (now, -10m, ISO 8601)"), classes="label"
        )
        yield FieldInput(id="to")

    def change(self, admin: AdminClient, occasion: Occasion) -> Result:
        where = parse_destination(self._to.strip(), occasion.now_ms)
        if where.notice is not None:
            occasion.notice(where.notice)
        route = admin.topic_route(self._topic)
        lost = self.dashboard.memory.lost_of(self._topic, {broker.broker_name for broker in route.broker_datas})
        for name, why in lost.items():
            occasion.notice(f"the queues of {name} are left out: {why}")
        queues = plan_queues(admin, route, self._group, self._topic, where.goal)
        goal: Goal | None = where.goal
        if self._queue is not None:
            queues = only_queue(queues, self._queue.broker_name, self._queue.queue_id)
            goal = None  # a broker that can only reset all queues at once must not be asked to
        for remark in remarks(queues, where.goal):
            occasion.notice(remark)
        planned = Resets(self._group, self._topic, queues)
        if occasion.dry_run:
            return planned
        return act(admin, planned, goal, occasion.now_ms, occasion.notice)

    def totals(self, result: Result) -> str:
        assert isinstance(result, Resets)
        return result.lag_text()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input.id == "to" and event.value.strip():
            self._to = event.value
            self.preview()
