"""Preloads the default styles of widget classes. Textual reads them when the first widget of a class is shown, which
delays the key that opens it. Here they are read while nobody waits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from textual import containers, widgets
from textual.screen import ModalScreen

if TYPE_CHECKING:
    from textual.css.stylesheet import Stylesheet
    from textual.widget import Widget

_KINDS: tuple[type[Widget], ...] = (
    widgets.Input, ModalScreen, containers.Horizontal, containers.Vertical, containers.VerticalScroll,
)  # fmt: skip
"""The widget classes of screens and dialogs that the first frame does not use. Not all loaded classes: every extra rule
is checked for each widget shown."""


async def read_widget_styles(sheet: Stylesheet) -> None:
    """Reads one class per turn of the loop, 2 ms each."""
    for kind in _KINDS:
        widget = kind.__new__(kind)  # without __init__, which would need an app
        for read_from, css, tie_breaker, scope in widget._get_default_css():
            sheet.add_source(css, read_from, is_default_css=True, tie_breaker=tie_breaker, scope=scope)
        assert sheet.rules_map is not None  # reading it builds the map
        await asyncio.sleep(0)
