"""The base of widgets that draw their own lines: tables and trees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from rich.style import Style
from textual.scroll_view import ScrollView
from textual.style import Style as VisualStyle


class PlainView(ScrollView):
    """Finds each style once."""

    STYLES: ClassVar[Mapping[str, str]] = {}
    """Styles by name, in Textual's words. As component classes they cost 2 ms whenever the style of a widget is found:
    Textual matches all rules for each, and most are never drawn."""

    def __init__(self, *, id: str | None = None):
        super().__init__(id=id)
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
            self._styles[below, name] = style
        return style
