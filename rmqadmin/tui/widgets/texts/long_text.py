"""Text that scrolls where it has more lines than room."""

from __future__ import annotations

from textual.containers import VerticalScroll


class LongText(VerticalScroll):
    """Can have the focus only while it scrolls: otherwise ``tab`` would stop where nothing can be done."""

    def allow_focus(self) -> bool:
        return self.max_scroll_y > 0
