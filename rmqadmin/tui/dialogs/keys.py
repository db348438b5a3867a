"""Shows every key that works now, in as many columns as fit, scrolled if that is not enough.

Textual's own panel of keys is 30 columns wide at 80 x 24, and no key scrolls it, so half of them were hidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, partial
from typing import ClassVar

import msgspec
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.dom import DOMNode
from textual.geometry import Size
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer, Static

from rmqadmin.core.terminal_text import display_width
from rmqadmin.tui.dialogs.dialog import PICTURE_KEY, Dialog

_GAP = 2
_NEVER_USED = ("scroll_left", "scroll_right", "page_left", "page_right")
"""Textual binds these for all scrolling widgets, but no table here is wider than the terminal."""


_OUR_WORDS = {
    "Focus Next": "Next part",
    "Focus Previous": "Part before",
    "Copy selected text": "Copy selected text",
    "palette": "Palette",
}
"""Textual's actions in this project's words. They are listed last."""

_PLACES = ("on this screen", "where the cursor is", "everywhere")


class KeyOf(msgspec.Struct, frozen=True):
    """``keys`` are all keys of an action; ``where`` says which part of the screen handles them."""

    where: str
    keys: str
    does: str


class KeysScreen(Dialog[None]):
    """The list of keys. ``?``, ``q`` and Escape close it."""

    DEFAULT_CLASSES = "dialog"
    AUTO_FOCUS = "#keys"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-low"), (34, "-high")]
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,q", "dismiss", "Close"), PICTURE_KEY]

    def __init__(self, below: Screen[object]):
        super().__init__()
        self._keys = keys_of(below)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog--box"):
            yield Static("Keys", classes="dialog--title")
            with VerticalScroll(id="keys"):
                yield Sheet(self._keys)
        yield Footer(compact=True, show_command_palette=False)


class Sheet(Widget):
    """The text of the list. Its height follows from its width at once, so the dialog is laid out once."""

    def __init__(self, keys: Sequence[KeyOf]):
        super().__init__(id="sheet")
        self._at_width = cache(partial(sheet, keys))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self._at_width(width).plain.count("\n") + 1

    def render(self) -> Content:
        return self._at_width(self.size.width)


def keys_of(screen: Screen[object]) -> list[KeyOf]:
    """The keys that work on a screen now, by part of the screen."""
    found: dict[tuple[str, str], list[str]] = {}
    for where, active, _enabled, _tooltip in screen.active_bindings.values():
        if active.system or not active.description or active.action in _NEVER_USED:
            continue
        does = _OUR_WORDS.get(active.description, active.description)
        keys = found.setdefault((_place(where), does), [])
        if (key := screen.app.get_key_display(active)) not in keys:
            keys.append(key)
    keys_of_place = [KeyOf(where, " ".join(keys), does) for (where, does), keys in found.items()]
    ours_first = sorted(keys_of_place, key=lambda one: one.does in _OUR_WORDS.values())
    return sorted(ours_first, key=lambda one: _PLACES.index(one.where))


def _place(node: DOMNode) -> str:
    if isinstance(node, App):
        return _PLACES[2]
    return _PLACES[0] if isinstance(node, Screen) else _PLACES[1]


def sheet(keys: Sequence[KeyOf], width: int) -> Content:
    """The text: a heading for each part, with its keys in columns from top to bottom."""
    if not keys:
        return Content("")
    key_width = max(display_width(one.keys) for one in keys)
    cell_width = key_width + 1 + max(display_width(one.does) for one in keys)
    column_count = max(1, (width + _GAP) // (cell_width + _GAP))
    lines: list[Content] = []
    for where in dict.fromkeys(one.where for one in keys):
        part = [one for one in keys if one.where == where]
        height = -(-len(part) // column_count)
        lines += [Content("")] if lines else []
        lines.append(Content.styled(where, "$text-muted"))
        lines += [_line(part[at::height], key_width, cell_width) for at in range(height)]
    return Content("\n").join(lines)


def _line(entries: Iterable[KeyOf], key_width: int, cell_width: int) -> Content:
    cells = []
    for one in entries:
        keys = " " * (key_width - display_width(one.keys)) + one.keys
        padding = " " * (cell_width - key_width - 1 - display_width(one.does) + _GAP)
        cells.append(Content.assemble((keys, "bold $text-accent"), f" {one.does}{padding}"))
    return Content("").join(cells).rstrip()
