"""What is wrong and what to do about it, in lines above a table."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from rmqadmin.tui.widgets.texts.long_text import LongText


class Advice(LongText):
    """Scrolls, so that no remedy is cut off on a small terminal."""

    def compose(self) -> ComposeResult:
        yield Static("asking …")

    def show(self, lines: Sequence[Content]) -> None:
        self.query_one(Static).update(Content("\n").join(lines))
