"""A one-line input without a border. Lines that are pasted into it become one."""

from __future__ import annotations

from typing import Any

from textual import events
from textual.widgets import Input


class CompactInput(Input):
    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, compact=True, **options)

    def on_paste(self, event: events.Paste) -> None:
        """Pastes several lines as one, and says so. Textual takes only the first."""
        lines = [line.strip() for line in event.text.splitlines() if line.strip()]
        if len(lines) <= 1:
            return
        event.prevent_default()
        event.stop()
        self.replace(" ".join(lines), *sorted(self.selection))
        self.app.notify(f"{len(lines)} pasted lines are one now", markup=False)
