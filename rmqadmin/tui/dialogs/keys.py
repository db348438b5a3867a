"""Shows every key that works now, in as many columns as fit, scrolled if that is not enough.

Textual's own panel of keys is 30 columns wide at 80 x 24, and no key scrolls it, so half of them were hidden.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.containers import ItemGrid, VerticalScroll
from textual.content import Content
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from rmqadmin.core.terminal_text import display_width
from rmqadmin.tui.dialogs.dialog import Dialog

_NEVER_USED = ("scroll_left", "scroll_right", "page_left", "page_right", "cursor_left", "cursor_right")
"""Textual binds these for all that scrolls, but no table here is wider than the terminal, and its cursor is a row."""

_OUR_WORDS = {"Focus Next": "Next part", "Focus Previous": "Part before", "palette": "Palette"}
_OUR_WORDS |= {"Copy selected text": "Copy selected text"}
"""Textual's actions in this project's words. They are listed last."""

_PLACES = ("on this screen", "where the cursor is", "everywhere")


class KeysScreen(Dialog):
    """The list of keys. ``?``, ``q`` and Escape close it."""

    AUTO_FOCUS = "#keys"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("question_mark,q", "close", "Close", show=False)]

    def __init__(self, below: Screen[object]):
        super().__init__("Keys")
        self._keys = keys_of(below)

    def parts(self) -> Iterable[Widget]:
        shown = [(keys, does) for found in self._keys.values() for does, keys in found.items()]
        key_width = max((display_width(" ".join(keys)) for keys, _ in shown), default=0)
        width = key_width + 1 + max((display_width(does) for _, does in shown), default=0)
        with VerticalScroll(id="keys"):
            for place in _PLACES:
                yield Static(place, classes="label")
                with ItemGrid(min_column_width=width):
                    for does, keys in self._keys[place].items():
                        aligned = " ".join(keys).rjust(key_width)
                        yield Static(Content.assemble((aligned, "bold $text-accent"), f" {does}"))


def keys_of(screen: Screen[object]) -> dict[str, dict[str, list[str]]]:
    """The keys that work on a screen now, by the part that handles them and by what they do."""
    found: dict[str, dict[str, list[str]]] = {place: {} for place in _PLACES}
    active_bindings = [each for each in screen.active_bindings.values() if not each.binding.system]
    for where, active, *_ in sorted(active_bindings, key=lambda each: each.binding.description in _OUR_WORDS):
        if active.description and active.action not in _NEVER_USED:
            keys = found[_place(where)].setdefault(_OUR_WORDS.get(active.description, active.description), [])
            if (key := screen.app.get_key_display(active)) not in keys:
                keys.append(key)
    return found


def _place(node: DOMNode) -> str:
    if isinstance(node, App):
        return _PLACES[2]
    return _PLACES[0] if isinstance(node, Screen) else _PLACES[1]
