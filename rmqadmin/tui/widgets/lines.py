"""Many lines of text to scroll through: a body as text, as hex, properties. Drawn line by line, made when drawn, so
that a body of four megabytes opens as fast as one of four bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

HEX_BYTES_PER_LINE = 16
_HEX_LINE_WIDTH = 8 + 2 + 3 * HEX_BYTES_PER_LINE + 1 + 2 + HEX_BYTES_PER_LINE


class Lines(ScrollView, can_focus=True):
    """``line(n)`` for each n below ``line_count``, ``width`` cells at most. Lines hold no control characters."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_up", "Up", show=False),
        Binding("down,j", "scroll_down", "Down", show=False),
    ]

    def __init__(self, line_count: int, width: int, line: Callable[[int], str], *, id: str | None = None):
        super().__init__(id=id)
        self._line = line
        self.virtual_size = Size(width, line_count)

    def on_mount(self) -> None:
        self.show_horizontal_scrollbar = False

    def render_line(self, y: int) -> Strip:
        at, left, width = self.scroll_offset.y + y, self.scroll_offset.x, self.size.width
        style = self.rich_style
        text = self._line(at) if at < self.virtual_size.height else ""
        return Strip([Segment(text, style)]).crop_extend(left, left + width, style)


class TextLines(Lines):
    """Lines that can be wrapped at the width of the widget."""

    def __init__(self, lines: Sequence[str], *, id: str | None = None):
        self._unwrapped = list(lines)
        self._drawn: Sequence[str] = self._unwrapped
        self.is_wrapped = False
        super().__init__(len(lines), self._width(), lambda at: self._drawn[at], id=id)

    def _width(self) -> int:
        return max(map(cell_len, self._drawn), default=0)

    def wrap(self, wrapped: bool) -> None:
        self.is_wrapped = wrapped
        if wrapped:
            width = max(1, self.size.width)
            self._drawn = [part for line in self._unwrapped for part in (chop_cells(line, width) or [""])]
        else:
            self._drawn = self._unwrapped
        self.virtual_size = Size(self._width(), len(self._drawn))
        self.refresh()


def hex_lines(data: bytes, *, id: str | None = None) -> Lines:
    """As ``hexdump -C``: offset, sixteen bytes, and those that are ASCII."""

    def line(at: int) -> str:
        row = data[at * HEX_BYTES_PER_LINE : (at + 1) * HEX_BYTES_PER_LINE]
        half = HEX_BYTES_PER_LINE // 2
        left, right = row[:half].hex(" "), row[half:].hex(" ")
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        return f"{at * HEX_BYTES_PER_LINE:08x}  {left:{half * 3}} {right:{half * 3}} |{text}|"

    return Lines(-(-len(data) // HEX_BYTES_PER_LINE), _HEX_LINE_WIDTH, line, id=id)
