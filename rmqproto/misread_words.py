"""Words of a command line that a person reads as an option and a program does not: web pages and word processors put
other dashes in place of the minus, and blanks that separate nothing."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

MINUS_SIGN = "\u2212"
"""That of mathematics, which is no dash in Unicode."""


def misread_character(word: str, *, is_text: bool = False) -> str | None:
    """The character at the start of a word that a person takes for the minus of an option, and the program does not:
    another dash, or something invisible before a dash. ``is_text``: the word may be a body, and one with blanks is no
    option."""
    if (
        word.isascii()
        or word.startswith("-")
        or (is_text and any(blank in word.partition("=")[0] for blank in " \t\n"))
    ):
        return None
    seen = word.lstrip("".join(filter(is_invisible, word)))
    return word[0] if seen and _is_dash(seen[0]) else None


def pasted_character(text: str) -> str | None:
    """The first dash that is no minus, or the first blank that is none for a shell."""
    if text.isascii():
        return None
    return next((one for one in text if not one.isascii() and (_is_dash(one) or is_invisible(one))), None)


def misread_word(words: Iterable[str], *, is_text: bool = False) -> str | None:
    """What is to be said of the first word that is read as an option and is none."""
    for word in words:
        character = misread_character(word, is_text=is_text)
        if character is not None:
            return f"{word} begins with {character_name(character)}, not with an ASCII minus"
        inside = pasted_character(word.partition("=")[0]) if word.startswith("-") else None
        if inside is not None:
            return f"{word} has {character_name(inside)} where - or a blank was meant"
    return None


def character_name(character: str) -> str:
    """``en dash (U+2013)``"""
    return f"{unicodedata.name(character, 'a character').lower()} (U+{ord(character):04X})"


def _is_dash(character: str) -> bool:
    return character == MINUS_SIGN or unicodedata.category(character) == "Pd"


def is_invisible(character: str) -> bool:
    return not character.isascii() and unicodedata.category(character) in ("Cf", "Zs")
