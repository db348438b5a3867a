"""Many lines of text that scroll: a body as text or hex, properties, stacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import ClassVar

from rich.cells import chop_cells
from textual.binding import BindingType
from textual.widgets import Log

from rmqadmin.tui.key_map import bound

LINES_MAX = 20_000
"""The most lines that are shown: each is looked at once when they are."""

_LENGTH_MAX = 2_000
"""Longer lines go on in the next, because the whole of a line is drawn whatever part of it is in view."""


class Lines(Log):
    """The lines hold no control characters. ``is_wrapped``: whether they are broken at the width of the widget."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bound("up", "scroll_up"),
        bound("down", "scroll_down"),
    ]

    def __init__(self, lines: Sequence[str] = (), *, is_wrapped: bool = False, id: str | None = None):
        super().__init__(auto_scroll=False, id=id)
        self._whole, self.is_wrapped = lines, is_wrapped
        self._shown: list[str] = []

    def on_mount(self) -> None:
        self._fill()

    def on_resize(self) -> None:
        if self.is_wrapped:
            self._fill()

    def show(self, lines: Sequence[str]) -> None:
        """Shows other lines."""
        self._whole = lines
        self._fill()

    def wrap(self, is_wrapped: bool) -> None:
        self.is_wrapped = is_wrapped
        self._fill()

    def _fill(self) -> None:
        width = self.scrollable_content_region.width if self.is_wrapped else None
        if width == 0 or not self.is_attached:
            return
        shown = list(islice(_broken(self._whole, width), LINES_MAX + 1))
        if len(shown) > LINES_MAX:
            shown[LINES_MAX] = f"… only {LINES_MAX:,} lines are shown"
        if shown != self._shown:
            self._shown = shown
            self.clear()
            self.write_lines(line or " " for line in shown)  # a line without a character would be left out


def _broken(lines: Iterable[str], width: int | None) -> Iterator[str]:
    """The lines in parts of at most ``width`` cells."""
    for line in lines:
        for begin in range(0, len(line) or 1, _LENGTH_MAX):
            part = line[begin : begin + _LENGTH_MAX]
            if width is None:
                yield part
            elif part.isascii():
                yield from (part[at : at + width] for at in range(0, len(part) or 1, width))
            else:
                yield from chop_cells(part, width)
