"""What stands above a screen, which is seen below it, dimmed. It is opened by one key, and drawn again with each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import RenderableType
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.color import Color
from textual.css.styles import RulesMap
from textual.geometry import Size
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import ModalScreen, Screen, ScreenResultType
from textual.strip import Strip
from textual.style import Style as VisualStyle
from textual.visual import RenderOptions, Visual


class Dialog(ModalScreen[ScreenResultType]):
    """What Textual does twice for each key is done once, as ``DashboardScreen`` does it."""

    _was_on_top = False

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """At first, each widget has got its style when it was mounted."""
        event.refresh_styles = self._was_on_top
        self._was_on_top = True

    def _screen_resized(self, size: Size) -> None:
        """A screen that has been laid out is told its size, and would be laid out and drawn again."""
        if size != self.outer_size:
            super()._screen_resized(size)

    def render(self) -> RenderableType | Visual:  # type: ignore[override]  # as any other widget may
        below = super().render()
        return DimmedScreen(below.screen, below.color) if isinstance(below, BackgroundScreen) else below


class DimmedScreen(Visual):
    """Textual takes the screen to pieces, puts those through Rich's console, which makes lines of them, and mixes
    the colours of each piece anew: there are hundreds, in few styles."""

    def __init__(self, screen: Screen[Any], color: Color):
        self._screen, self._color = screen, color

    def render_strips(self, width: int, height: int | None, style: VisualStyle, options: RenderOptions) -> list[Strip]:
        below, base = self._screen._compositor.render_strips()[:height], style.rich_style
        dimmed: dict[Style | None, Style] = {}

        def dim(segments: Iterable[Segment]) -> Iterable[Segment]:
            for text, piece_style, _ in segments:
                if piece_style not in dimmed:
                    dimmed[piece_style] = base + dimmed_style(piece_style, self._color)
                yield Segment(text, dimmed[piece_style])

        return [Strip(list(dim(strip)), strip.cell_length).adjust_cell_length(width) for strip in below]

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        return container_width

    def get_height(self, rules: RulesMap, width: int) -> int:
        return self._screen.size.height


def dimmed_style(style: Style | None, color: Color) -> Style:
    (one,) = BackgroundScreen.process_segments([Segment("", style)], color)
    return one.style or Style.null()
