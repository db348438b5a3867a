"""Lines of a widget that are shown as the widget draws them."""

from __future__ import annotations

from typing import Any

from textual._styles_cache import RenderLineCallback, StylesCache
from textual.color import Color
from textual.css.styles import StylesBase
from textual.geometry import Size, Spacing
from textual.strip import Strip


class PlainLines(StylesCache):
    """For widgets without border and effects that draw whole lines. Textual looks for each of these in every line: a
    third of what it takes to draw a table."""

    def render_line(
        self,
        styles: StylesBase,
        y: int,
        size: Size,
        content_size: Size,
        padding: Spacing,
        base_background: Color,
        background: Color,
        render_content_line: RenderLineCallback,
        *effects: Any,
    ) -> Strip:
        return render_content_line(y)
