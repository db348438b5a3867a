"""The stacks of a member's threads, as the member reports them (`consumerStatus -s`). They are read only when the
screen opens and on ``r``, because the member stops all its threads for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import Static

from rmqadmin.core.terminal_text import printable
from rmqadmin.tui.literal import literal
from rmqadmin.tui.refresh import Feed
from rmqadmin.tui.screens.base import DashboardScreen
from rmqadmin.tui.sources import clients
from rmqadmin.tui.sources.groups import GroupFacts
from rmqadmin.tui.widgets.texts.lines import Lines
from rmqproto.wording import counted

_LISTENER = "ConsumeMessageThread"
"""How the Java client names the threads of listeners, the ones that matter among 700 lines."""

_STATE = "TID: "
"""Follows the name of the thread, which the Java client fills up to 40 characters."""

_NEVER = 1e9
"""The interval of automatic refreshes: never."""


class StackScreen(DashboardScreen):
    file_name = "stack"
    AUTO_FOCUS = "Lines"

    def __init__(self, facts: GroupFacts, client_id: str):
        super().__init__()
        self._facts, self._client_id = facts, client_id
        self._line_count: int | None = None

    def body(self) -> Iterable[Widget]:
        with Vertical(id="stack"):
            yield Static("asking …")

    def selected(self) -> dict[str, str]:
        return {"GROUP": self._facts.group, "CLIENT": self._client_id}

    def make_feeds(self) -> Sequence[Feed]:
        return [self.feed(self._refresh, every=_NEVER)]

    def interval_s(self) -> float | None:
        return None

    async def _refresh(self, feed: Feed) -> None:
        text = await feed.ask(clients.read_stack, self.dashboard.memory, self._facts, self._client_id)
        lines = [printable(line.expandtabs(4)) for line in stack_lines(text or "")]
        self._line_count = len(lines)
        stack = self.query_one("#stack")
        await stack.remove_children()
        if lines:
            shown = Lines(lines)
            await stack.mount(shown)
            shown.focus()
        else:
            await stack.mount(Static(literal("It reports no stacks. Clients other than Java's often cannot.")))
        self.show_frame()

    def rows_text(self) -> str:
        return "" if self._line_count is None else f"{counted(self._line_count, 'line')}, r asks again"


def stack_lines(text: str) -> list[str]:
    """The stacks of listeners first, each with its thread's name once. Java lists threads in no order, with a blank
    line between them, and repeats the name before each frame, so that half a line of 80 columns said nothing."""
    stacks = text.strip("\n").split("\n\n")
    lines: list[str] = []
    for stack in sorted(stacks, key=lambda stack: not stack.startswith(_LISTENER)):
        name = stack.partition(_STATE)[0]
        head, *frames = stack.splitlines() or [""]
        lines += [head, *(f"  {one.removeprefix(name)}" if one.startswith(name) else one for one in frames), ""]
    return lines[:-1] if any(lines) else []
