"""Two lines under a table that is too narrow for its columns. They show the cells of the cursor's row that are
shortened or left out, so that no number and no end of an error is lost on a small terminal."""

from __future__ import annotations

from textual.content import Content

from rmqadmin.core.terminal_text import display_width, shortened_at_end
from rmqadmin.tui.literal import literal
from rmqadmin.tui.widgets.frame import FrameLine, in_lines
from rmqadmin.tui.widgets.tables.row_table import RowTable

_HEIGHT = 2
_GAP = "   "


class CutLine(FrameLine):
    """Hidden while everything fits. Call ``show`` when the cursor or its row has moved."""

    def show(self, table: RowTable | None) -> None:
        """Shows the cut cells of the cursor's row in ``table``; nothing if that is None."""
        line = None if table is None else table.cursor_line
        is_squeezed = table is not None and line is not None and (table.cells.is_squeezed or bool(line.errors))
        if self.display != is_squeezed:
            self.display = is_squeezed
        if table is not None and is_squeezed:
            self.tell(self._content(table))

    def _content(self, table: RowTable) -> Content:
        """The cut cells, as many as two lines hold. Texts longer than a line, such as bodies, come last and are
        shortened."""
        width = max(1, self.size.width or self.app.size.width - 2)
        room = width * _HEIGHT - width // 4
        parts: list[Content] = []
        for cell in sorted(table.cut_cells(), key=lambda cell: display_width(cell.text) > width):
            if room <= len(cell.title) + 1:
                parts.append(Content("…"))
                break
            text = shortened_at_end(cell.text, room - len(cell.title) - 1)
            title = Content.styled(cell.title, "$text-muted")
            parts.append(Content.assemble(title, " ", literal(text)))
            room -= len(cell.title) + 1 + len(text) + len(_GAP)
        return in_lines(Content(_GAP).join(parts), width)
