"""What stands above a screen, which is seen below it, dimmed. It is opened by one key, and drawn again with each."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.color import Color
from textual.geometry import Size
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import ModalScreen, ScreenResultType


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

    def render(self) -> RenderableType:
        below = super().render()
        return DimmedScreen(below.screen, below.color) if isinstance(below, BackgroundScreen) else below


class DimmedScreen(BackgroundScreen):
    """Textual mixes the colours of each piece of text anew, of which there are hundreds in few styles."""

    @classmethod
    def process_segments(cls, segments: Iterable[Segment], color: Color) -> Iterable[Segment]:
        dimmed: dict[Style | None, Style | None] = {}
        for segment in segments:
            text, style, control = segment
            if not control and style not in dimmed:
                (one,) = super().process_segments([segment], color)
                dimmed[style] = one.style
            yield segment if control else Segment(text, dimmed[style])
