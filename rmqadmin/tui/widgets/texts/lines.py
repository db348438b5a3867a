"""Scrolls through many lines of text: a body as text or hex, properties. Lines are made when they are drawn, so a body
of 4 MB opens as fast as one of 4 bytes."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import ClassVar

import msgspec
from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.strip import Strip

from rmqadmin.core.messages.body_text import HEX_BYTES_PER_LINE, hex_line, hex_line_count
from rmqadmin.tui.widgets.plain_view import PlainView

_HEX_LINE_WIDTH = 8 + 2 + 3 * HEX_BYTES_PER_LINE + 1 + 2 + HEX_BYTES_PER_LINE

_PIECE_LENGTH = 512
"""Long lines are measured in pieces of this many characters."""
_PIECES_DRAWN_MAX = 8
"""How many pieces are drawn at most. More are in view only if characters take no cells."""


class Lines(PlainView, can_focus=True):
    """Shows ``line(n)`` for each n below ``line_count``. Lines are at most ``width`` cells and hold no control
    characters. A border belongs around a container: this widget draws none."""

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
        style = self.style_over("", "")
        text, begin = self.part(at, left, width) if at < self.virtual_size.height else ("", left)
        return Strip([Segment(text, style)]).crop_extend(left - begin, left - begin + width, style)

    def part(self, at: int, left: int, width: int) -> tuple[str, int]:
        """A part of a line that covers ``width`` cells from ``left`` on, and the cell where it begins. A line may be
        megabytes long with little of it in view. This default returns the whole line unless it is ASCII, with one cell
        a character."""
        text = self._line(at)
        return (text[left : left + width], left) if text.isascii() else (text, 0)


class Text(msgspec.Struct, frozen=True):
    """Lines without control characters, and the width of the widest in cells. Make it in a thread: 4 MB take 100 ms."""

    lines: Sequence[str]
    width: int
    pieces: Mapping[int, Sequence[int]] = {}
    """For long lines that are not ASCII: the cell at which each piece of _PIECE_LENGTH characters ends."""

    @classmethod
    def of(cls, lines: Sequence[str]) -> Text:
        pieces = {at: _piece_ends(line) for at, line in enumerate(lines) if _is_long(line)}
        widths = (len(line) if line.isascii() else cell_len(line) for line in lines if not _is_long(line))
        return cls(lines, max([*(ends[-1] for ends in pieces.values()), max(widths, default=0)]), pieces)

    def wrapped(self, width: int) -> Text:
        """The same text in lines of at most ``width`` cells."""
        if self.width <= width:
            return self
        return Text([part for line in self.lines for part in _chopped(line, width)], width)


def _is_long(line: str) -> bool:
    """Whether a line must not be measured or drawn at one go."""
    return len(line) > _PIECE_LENGTH and not line.isascii()


def _piece_ends(line: str) -> list[int]:
    begins = range(0, len(line), _PIECE_LENGTH)
    return list(accumulate(cell_len(line[begin : begin + _PIECE_LENGTH]) for begin in begins))


def _chopped(line: str, width: int) -> list[str]:
    """A line in parts of at most ``width`` cells. A long line is cut piece by piece, because Rich looks at all of it in
    one call, in which no other thread runs."""
    if line.isascii():
        return [line[at : at + width] for at in range(0, len(line) or 1, width)]
    parts, rest = [], ""
    for begin in range(0, len(line), _PIECE_LENGTH):
        *full, rest = chop_cells(rest + line[begin : begin + _PIECE_LENGTH], width) or [""]
        parts += full
    return [*parts, rest]


class TextLines(Lines):
    """Lines that can be wrapped at the width of the widget."""

    def __init__(self, text: Text, *, id: str | None = None):
        self._text = self._drawn = text
        super().__init__(len(text.lines), text.width, lambda at: self._drawn.lines[at], id=id)

    def part(self, at: int, left: int, width: int) -> tuple[str, int]:
        ends = self._drawn.pieces.get(at)
        if ends is None:
            return super().part(at, left, width)
        first = bisect_right(ends, left)
        last = min(bisect_right(ends, left + width) + 1, first + _PIECES_DRAWN_MAX)
        return self._line(at)[first * _PIECE_LENGTH : last * _PIECE_LENGTH], ends[first - 1] if first else 0

    def show(self, text: Text, *, keeps_place: bool = False) -> None:
        """Shows another text, unwrapped, from its beginning unless ``keeps_place``."""
        self._text = self._drawn = text
        self.virtual_size = Size(text.width, len(text.lines))
        if not keeps_place:
            self.scroll_to(0, 0, animate=False, immediate=True)
        self.refresh()

    @property
    def is_wrapped(self) -> bool:
        return self._drawn is not self._text

    async def wrap(self, wrapped: bool) -> None:
        drawn = await asyncio.to_thread(self._text.wrapped, max(1, self.size.width)) if wrapped else self._text
        self._drawn = drawn
        self.virtual_size = Size(drawn.width, len(drawn.lines))
        self.refresh()


class WrappedLines(TextLines):
    """Lines that are always wrapped at the current width of the widget."""

    def __init__(self, *, id: str | None = None):
        self._whole = Text.of([])
        super().__init__(self._whole, id=id)

    def show_whole(self, text: Text) -> None:
        self._whole = text
        self._wrap_again()

    def on_resize(self) -> None:
        self._wrap_again()

    def _wrap_again(self) -> None:
        width = self.size.width - self.gutter.width
        if width > 0:
            self.show(self._whole.wrapped(width), keeps_place=True)


def hex_lines(data: bytes, *, id: str | None = None) -> Lines:
    """Bytes as ``hexdump -C`` shows them: offset, sixteen bytes, and their ASCII characters."""
    return Lines(hex_line_count(data), _HEX_LINE_WIDTH, partial(hex_line, data), id=id)
