"""The base of widgets that draw their own lines: tables and trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.filter import ANSIToTruecolor, LineFilter
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.style import Style as VisualStyle

from rmqadmin.tui.widgets.plain_lines import PlainLines


class PlainView(ScrollView):
    """Finds each style once, and is drawn without Textual's search for borders, effects and colours in each line. A
    subclass draws whole lines, including the blanks of its padding (``padded``)."""

    STYLES: ClassVar[Mapping[str, str]] = {}
    """Styles by name, in Textual's words. As component classes they cost 2 ms whenever the style of a widget is found:
    Textual matches all rules for each, and most are never drawn."""

    def __init__(self, *, id: str | None = None):
        super().__init__(id=id)
        self._styles_cache = PlainLines()
        self._styles: dict[tuple[str, str], Style] = {}

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._styles.clear()

    def described_style(self, name: str) -> str:
        """A named style in Textual's words."""
        return self.STYLES[name]

    def style_over(self, below: str, name: str) -> Style:
        """A named style over another one; an empty name stands for the widget's own."""
        style = self._styles.get((below, name))
        if style is None:
            style = self.rich_style
            for one in filter(None, (below, name)):
                style += VisualStyle.parse(self.described_style(one)).rich_style
            _, background = self.background_colors
            for colors in super().get_line_filters():
                if isinstance(colors, ANSIToTruecolor):
                    style = colors.truecolor_style(style, background.rich_color)
            self._styles[below, name] = style
        return style

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Without the filter of colours, which has been applied to each style. Textual applies it to each cell."""
        return [one for one in super().get_line_filters() if not isinstance(one, ANSIToTruecolor)]

    def padded(self, line: Strip) -> Strip:
        """A line of the contents with the padding at its sides."""
        padding, style = self.styles.padding, self.style_over("", "")
        sides = [Segment(" " * padding.left, style), *line, Segment(" " * padding.right, style)]
        return Strip(sides, line.cell_length + padding.width)
