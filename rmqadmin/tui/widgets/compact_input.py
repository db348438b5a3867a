"""A one-line input without a border."""

from __future__ import annotations

from typing import Any

from textual.widgets import Input


class CompactInput(Input):
    """As ``Input(compact=True)``, but finds its style once before it is shown. Textual finds it again, in 1 ms,
    because it is compact, and because a text that nothing checks is valid."""

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, classes="-valid", **options)
        self.set_reactive(Input.compact, True)
        self.add_class("-textual-compact", update=False)
