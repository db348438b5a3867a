"""Keys as Chinese and Japanese input methods send them, in full width: ``：？／`` are the keys ``:?/``."""

from __future__ import annotations

import unicodedata

from textual.events import Key
from textual.keys import KEY_NAME_REPLACEMENTS

_FIRST, _LAST, _APART = 0xFF01, 0xFF5E, 0xFEE0
"""The full-width forms, in the order of ASCII, and how far they are from it."""

_OTHERS = {"。": ".", "、": "/", "　": " "}
"""What else these keys give."""


def as_narrow(event: Key) -> Key:
    """The key that was meant. Not for a line of text, where it is what the user typed."""
    wide = event.character
    if wide is None or len(wide) != 1 or not (_FIRST <= ord(wide) <= _LAST or wide in _OTHERS):
        return event
    narrow = _OTHERS.get(wide) or chr(ord(wide) - _APART)
    if narrow.isalnum():
        return Key(narrow, narrow)
    name = unicodedata.name(narrow).lower().replace("-", "_").replace(" ", "_")
    return Key(KEY_NAME_REPLACEMENTS.get(name, name), narrow)
