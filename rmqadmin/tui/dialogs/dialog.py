"""A dialog over a dimmed screen. One key opens it, and each key draws it again, so both are made cheap here."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.color import Color
from textual.geometry import Region
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import ModalScreen, Screen, ScreenResultType
from textual.strip import Strip

from rmqadmin.tui.thrifty_screen import ThriftyScreen


class Dialog(ThriftyScreen[ScreenResultType], ModalScreen[ScreenResultType]):
    """Dims the screen below line by line, and redoes a line only when it has changed."""

    BLANK = False

    def __init__(self, **named: Any):
        super().__init__(**named)
        self._dimmed = DimmedLines()
        self._lines: list[Strip] = []
        self._is_dimmed = False
        """Whether the lines were dimmed before the first drawing, which has not come yet."""

    async def on_screen_resume(self, event: events.ScreenResume) -> None:
        await self.resume(event)

    def on_mount(self) -> None:
        """Dims the screen below before the dialog is laid out and drawn, so that two short waits do not become a long
        one."""
        for below in self.app._background_screens[-1:]:
            color, style = self.styles.background, self.visual_style.rich_style
            self._lines = self._dimmed.of(below, color, style, self.app.size.width)
            self._is_dimmed = True

    def render_lines(self, crop: Region) -> list[Strip]:
        """Returns the dimmed lines directly. Rich's console would make them anew, and Textual would look for links,
        selections and borders, of which there are none."""
        if self._is_dimmed and self.size == self.app.size:
            self._dirty_regions.clear()
        elif self._dirty_regions or not self._lines:
            below = self.render()
            if not isinstance(below, BackgroundScreen):
                return super().render_lines(crop)
            changed = {y for region in self._dirty_regions for y in region.line_range} if self._lines else None
            self._dirty_regions.clear()
            style, width = self.visual_style.rich_style, self.size.width
            self._lines = self._dimmed.of(below.screen, below.color, style, width, changed)
        self._is_dimmed = False
        return self._lines[crop.y : crop.bottom]


class DimmedLines:
    """A cache of the dimmed lines. A dialog is drawn at each of its keys, and hardly anything below it changes."""

    def __init__(self) -> None:
        self._made_with: object = None
        self._made: dict[int, tuple[tuple[Strip, ...], Strip]] = {}
        self._styles: dict[Style | None, Style] = {}

    def of(
        self, screen: Screen[Any], color: Color, base: Style, width: int, changed: Collection[int] | None = None
    ) -> list[Strip]:
        """The lines of ``screen``, dimmed. ``base`` is the style of the dialog itself. ``changed``: the lines that may
        look different now; None for all."""
        whole = screen._compositor.size.region  # after a resize, for a moment not the screen's
        if self._made_with != (screen, base, color, width) or len(self._made) != whole.height:
            self._made_with = screen, base, color, width
            self._made, self._styles = {}, {}
            changed = None
        wanted = [y for y in whole.line_range if changed is None or y in changed]
        lines = screen._compositor._render_chops(whole, frozenset(wanted).__contains__)
        for y in wanted:
            line = lines[y]
            pieces = tuple(line.values())
            if y not in self._made or self._made[y][0] != pieces:
                made = Strip(self._dim(pieces, base, color), sum(piece.cell_length for piece in pieces))
                self._made[y] = pieces, made.adjust_cell_length(width)
        return [line for _, line in self._made.values()]

    def _dim(self, pieces: Iterable[Strip], base: Style, color: Color) -> Iterable[Segment]:
        for piece in pieces:
            for text, style, _ in piece:
                if style not in self._styles:
                    self._styles[style] = base + dimmed_style(style, color)
                yield Segment(text, self._styles[style])


def dimmed_style(style: Style | None, color: Color) -> Style:
    (one,) = BackgroundScreen.process_segments([Segment("", style)], color)
    return one.style or Style.null()
