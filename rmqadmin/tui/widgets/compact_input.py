"""A one-line input without a border. Lines that are pasted into it become one."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from textual import events
from textual.binding import Binding
from textual.dom import DOMNode
from textual.widgets import Input

_HANDLED_WITHIN_S = 0.5


def enter(word: str) -> Binding:
    """Enter has priority: a key behind it is not text of this line, but goes to what it has opened."""
    return Binding("enter", "submit", word, priority=True)


class CompactInput(Input):
    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, compact=True, **options)

    async def action_submit(self) -> None:
        """Takes the text that was typed before, and returns when what follows from it has been done."""
        await _has_handled(self)
        await super().action_submit()
        for node in self.ancestors_with_self:
            if node is not self.app:
                await _has_handled(node)

    def on_paste(self, event: events.Paste) -> None:
        """Pastes several lines as one, and says so. Textual takes only the first."""
        lines = [line.strip() for line in event.text.splitlines() if line.strip()]
        if len(lines) <= 1:
            return
        event.prevent_default()
        event.stop()
        self.replace(" ".join(lines), *sorted(self.selection))
        self.app.notify(f"{len(lines)} pasted lines are one now", markup=False)


async def _has_handled(node: DOMNode) -> None:
    """Waits until a node has handled what was posted to it before, unless it is closing or takes long."""
    done = asyncio.Event()
    if node.call_later(done.set):
        with suppress(TimeoutError):
            async with asyncio.timeout(_HANDLED_WITHIN_S):
                await done.wait()
