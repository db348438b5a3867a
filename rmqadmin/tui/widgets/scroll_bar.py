"""Draws scrollbars without Rich's console, which takes 3 ms of every key that scrolls."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.css.styles import RulesMap
from textual.scrollbar import ScrollBarRender
from textual.strip import Strip
from textual.style import Style as VisualStyle
from textual.visual import RenderOptions, Visual


class DirectBar(ScrollBarRender, Visual):
    """Textual's bar with its cells turned directly into strips. Most cells are equal and share one strip."""

    def render_strips(self, width: int, height: int | None, style: VisualStyle, options: RenderOptions) -> list[Strip]:
        assert isinstance(self.style, Style)
        assert self.style.color is not None
        assert self.style.bgcolor is not None
        bar = self.render_bar(
            size=(height or 1) if self.vertical else width,
            virtual_size=self.virtual_size,
            window_size=self.window_size,
            position=self.position,
            thickness=width if self.vertical else height or 1,
            vertical=self.vertical,
            back_color=self.style.bgcolor,
            bar_color=self.style.color,
        )
        look = style.rich_style
        if not self.vertical:
            return [Strip(Segment.apply_style(bar.segments[:width], look), width)] * (height or 1)
        strips = {segment: Strip(Segment.apply_style([segment], look), width) for segment in bar.segments}
        return [strips[segment] for segment in bar.segments]

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        return container_width

    def get_height(self, rules: RulesMap, width: int) -> int:
        return 1
