"""Reads styles a part at a time, so that no key waits for all of them: the style sheets that the first frame does not
need, the default styles of widget classes, which Textual reads when the first widget of a class is shown, and all of
them for another theme. Also finds the styles of many widgets, a few at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from textual import containers, widgets
from textual.cache import LRUCache
from textual.css.stylesheet import Stylesheet
from textual.screen import ModalScreen

if TYPE_CHECKING:
    from textual.dom import DOMNode
    from textual.widget import Widget

_LATER_SHEETS = tuple(Path(__file__).absolute().with_name(name) for name in ("screens.tcss", "dialogs.tcss"))

STYLED_AT_ONCE = 8
"""How many widgets get other styles in one turn of the loop: 5 ms."""

_KINDS: tuple[type[Widget], ...] = (
    widgets.Input, ModalScreen, containers.Horizontal, containers.Vertical, containers.VerticalScroll,
)  # fmt: skip
"""The widget classes of screens and dialogs that the first frame does not use. Not all loaded classes: every extra rule
is checked for each widget shown."""


def read_later_sheet(sheet: Stylesheet) -> bool:
    """Reads the next style sheet that the first frame did not need. False if there is none left."""
    left = [path for path in _LATER_SHEETS if not sheet.has_source(str(path))]
    if not left:
        return False
    sheet.read(left[0])
    return True


async def read_later_styles(sheet: Stylesheet) -> None:
    """Reads one style sheet (5 ms) or class (2 ms) per turn of the loop."""
    while read_later_sheet(sheet):
        assert sheet.rules_map is not None  # reading it builds the map
        await asyncio.sleep(0)
    for kind in _KINDS:
        widget = kind.__new__(kind)  # without __init__, which would need an app
        for read_from, css, tie_breaker, scope in widget._get_default_css():
            sheet.add_source(css, read_from, is_default_css=True, tie_breaker=tie_breaker, scope=scope)
        assert sheet.rules_map is not None
        await asyncio.sleep(0)


async def read_again(sheet: Stylesheet, variables: dict[str, str]) -> Stylesheet:
    """The same style sheet with other values of its variables, read one source per turn of the loop. Textual reads all
    in one turn, which takes 25 ms."""
    read = Stylesheet(variables=variables)
    read._parse_cache = LRUCache(len(sheet.source) + 1)
    for place, (css, is_default, tie_breaker, scope) in list(sheet.source.items()):
        read.add_source(css, place, is_default, tie_breaker, scope)
        read._parse_rules(css, place, is_default, tie_breaker, scope)
        await asyncio.sleep(0)
    assert read.rules is not None  # puts together what has been read
    return read


async def find_styles(nodes: Sequence[DOMNode]) -> None:
    """Finds the styles of some nodes again, a few in each turn of the loop."""
    for at in range(0, len(nodes), STYLED_AT_ONCE):
        portion = nodes[at : at + STYLED_AT_ONCE]
        portion[0].app.stylesheet.update_nodes(portion)
        await asyncio.sleep(0)
