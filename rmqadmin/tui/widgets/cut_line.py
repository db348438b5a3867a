"""Two lines under a table that has no room for all its columns: what of the cursor's row is shortened or left out. So
nothing is lost on a small terminal, neither an error at its end nor a number."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from rmqadmin.core.terminal_text import shortened_at_end
from rmqadmin.tui.literal import literal
from rmqadmin.tui.widgets.row_table import RowTable

_HEIGHT = 2
_GAP = "   "


class CutLine(Static):
    """Hidden while everything fits. ``show`` it anew when the cursor or its row has moved."""

    def show(self, table: RowTable | None) -> None:
        """``table`` None: there is none to tell about."""
        is_squeezed = table is not None and table.cells.is_squeezed and table.shown_count > 0
        if self.display != is_squeezed:
            self.display = is_squeezed
        if table is not None and is_squeezed:
            self.update(self._content(table), layout=False)

    def _content(self, table: RowTable) -> Content:
        """As many cells as two lines hold; the last one in part."""
        width = max(1, self.size.width or self.app.size.width) - 2
        room = width * _HEIGHT - width // 4  # lines break between words
        parts: list[Content] = []
        for cell in table.cut_cells():
            if room <= len(cell.title) + 1:
                parts.append(Content("…"))
                break
            text = shortened_at_end(cell.text, room - len(cell.title) - 1)
            title = Content.styled(cell.title, "$text-accent")
            if cell.letter_at is not None:
                title = title.stylize("underline", cell.letter_at, cell.letter_at + 1)
            parts.append(Content.assemble(title, " ", literal(text)))
            room -= len(cell.title) + 1 + len(text) + len(_GAP)
        return Content(_GAP).join(parts)
