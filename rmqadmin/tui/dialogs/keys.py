"""Shows every key that works now, in as many columns as fit, scrolled if that is not enough.

Textual's own panel of keys is 30 columns wide at 80 x 24, and no key scrolls it, so half of them were hidden.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import ItemGrid, Vertical, VerticalScroll
from textual.content import Content
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widgets import Footer, Static

from rmqadmin.core.terminal_text import display_width
from rmqadmin.tui.dialogs.dialog import PICTURE_KEY, Dialog

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
        key_width = max((display_width(one.keys) for one in self._keys), default=0)
        width = key_width + 1 + max((display_width(one.does) for one in self._keys), default=0)
        with Vertical(classes="dialog--box"):
            yield Static("Keys", classes="dialog--title")
            with VerticalScroll(id="keys"):
                for where in dict.fromkeys(one.where for one in self._keys):
                    yield Static(where, classes="label")
                    with ItemGrid(min_column_width=width):
                        yield from (_line(one, key_width) for one in self._keys if one.where == where)
        yield Footer(compact=True, show_command_palette=False)


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


def _line(one: KeyOf, key_width: int) -> Static:
    keys = " " * (key_width - display_width(one.keys)) + one.keys
    return Static(Content.assemble((keys, "bold $text-accent"), f" {one.does}"))
