"""The styles that kinds of widgets bring along. Textual reads those of a kind when the first widget of it is shown: a
part of what the key takes that opens it. So they are read while nobody waits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from textual import containers, widgets
from textual.screen import ModalScreen

if TYPE_CHECKING:
    from textual.css.stylesheet import Stylesheet
    from textual.widget import Widget

_KINDS: tuple[type[Widget], ...] = (
    widgets.Input, widgets.Tree, widgets.TabbedContent, widgets.Tabs, widgets.TabPane, widgets.Tab,
    ModalScreen, containers.Horizontal, containers.Vertical, containers.VerticalScroll,
)  # fmt: skip
"""What screens and dialogs are made of, beyond the first frame. Not all that are loaded: each rule more is looked at
for each widget that is shown."""


async def read_widget_styles(sheet: Stylesheet) -> None:
    """One kind a turn of the loop, two milliseconds each."""
    for kind in _KINDS:
        widget = kind.__new__(kind)  # as a widget that has been made, it would need an app and a place
        for read_from, css, tie_breaker, scope in widget._get_default_css():
            sheet.add_source(css, read_from, is_default_css=True, tie_breaker=tie_breaker, scope=scope)
        assert sheet.rules_map is not None  # it is made now
        await asyncio.sleep(0)
