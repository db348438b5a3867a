"""A one-line input without a border. Lines that are pasted into it become one."""

from __future__ import annotations

from typing import Any

from textual import events
from textual.widgets import Input


class CompactInput(Input):
    """As ``Input(compact=True)``, but finds its style once before it is shown. Textual finds it again, in 1 ms,
    because it is compact, and because a text that nothing checks is valid."""

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, classes="-valid", **options)
        self.set_reactive(Input.compact, True)
        self.add_class("-textual-compact", update=False)

    def on_paste(self, event: events.Paste) -> None:
        """Pastes several lines as one, and says so. Textual takes only the first."""
        lines = [line.strip() for line in event.text.splitlines() if line.strip()]
        if len(lines) <= 1:
            return
        event.prevent_default()
        event.stop()
        self.replace(" ".join(lines), *sorted(self.selection))
        self.app.notify(f"{len(lines)} pasted lines are one now", markup=False)
