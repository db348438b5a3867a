"""Two lines under a table that has no room for all its columns: what of the cursor's row is shortened or left out. So
nothing is lost on a small terminal, neither an error at its end nor a number."""

from __future__ import annotations

from textual.content import Content

from rmqadmin.core.terminal_text import display_width, shortened_at_end
from rmqadmin.tui.literal import literal
from rmqadmin.tui.widgets.row_table import RowTable
from rmqadmin.tui.widgets.told_line import ToldLine

_HEIGHT = 2
_GAP = "   "


class CutLine(ToldLine):
    """Hidden while everything fits. ``show`` it anew when the cursor or its row has moved."""

    def show(self, table: RowTable | None) -> None:
        """``table`` None: there is none to tell about."""
        is_squeezed = table is not None and table.cells.is_squeezed and table.shown_count > 0
        if self.display != is_squeezed:
            self.display = is_squeezed
        if table is not None and is_squeezed:
            self.tell(self._content(table))

    def _content(self, table: RowTable) -> Content:
        """As many cells as two lines hold; the last one in part. What is longer than a line, as a body is, comes after
        all that can be told whole."""
        width = max(1, self.size.width or self.app.size.width - 2)
        room = width * _HEIGHT - _gap_max(width)
        parts: list[Content] = []
        for cell in sorted(table.cut_cells(), key=lambda cell: display_width(cell.text) > width):
            if room <= len(cell.title) + 1:
                parts.append(Content("…"))
                break
            text = shortened_at_end(cell.text, room - len(cell.title) - 1)
            title = Content.styled(cell.title, "$text-accent")
            if cell.letter_at is not None:
                title = title.stylize("underline", cell.letter_at, cell.letter_at + 1)
            parts.append(Content.assemble(title, " ", literal(text)))
            room -= len(cell.title) + 1 + len(text) + len(_GAP)
        return in_lines(Content(_GAP).join(parts), width)


def in_lines(content: Content, width: int) -> Content:
    """Lines of ``width`` cells at most. They break between words, but not before a long one: its name would stand alone
    on a line, and its own end would be cut off."""
    lines = []
    while display_width(content.plain) > width:
        text = content.plain
        end = next(end for end in range(min(width, len(text)), 0, -1) if display_width(text[:end]) <= width)
        blank = text.rfind(" ", 0, end + 1)
        if blank > 0 and display_width(text[blank:end]) <= _gap_max(width):
            lines.append(content[:blank].rstrip())
            content = content[len(text) - len(text[blank:].lstrip(" ")) :]
        else:
            lines.append(content[:end])
            content = content[end:]
    return Content("\n").join([*lines, content])


def _gap_max(width: int) -> int:
    """So many cells of a line may go to the next one, with the blank before them."""
    return width // 4
