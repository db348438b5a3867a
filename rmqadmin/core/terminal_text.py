"""Text for a terminal: nothing in it controls the terminal, and its width is counted in cells."""

import re
import textwrap
import unicodedata
from collections.abc import Iterator

ELLIPSIS = "…"
_WRAPPED_WIDTH_MIN = 20
_CLAUSE = re.compile("[:;,] ")


def printable(text: str) -> str:
    """The text with control characters and halves of surrogate pairs escaped: no key controls a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def display_width(text: str) -> int:
    """The width in cells: wide East Asian characters take two, combining marks none. Rich's table is slow to load."""
    return len(text) if text.isascii() else sum(map(_cell_width, text))


def _cell_width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def padded(text: str, width: int) -> str:
    """At least ``width`` cells, blanks at the end."""
    return text + " " * (width - display_width(text))


def shortened_at_end(text: str, width: int) -> str:
    """At most ``width`` cells (1 or more): the beginning, and an ellipsis for the rest."""
    return text if display_width(text) <= width else _beginning(text, width - 1) + ELLIPSIS


def shortened_by_clause(text: str, width: int) -> str:
    """As many of its clauses as fit into ``width`` cells (1 or more), so that it ends where a reader would pause; if
    that is little, as ``shortened_at_end``."""
    if display_width(text) <= width:
        return text
    ends = [found.start() for found in _CLAUSE.finditer(text) if display_width(text[: found.start()]) <= width]
    return text[: ends[-1]] if ends and ends[-1] > width // 3 else shortened_at_end(text, width)


def shortened_in_middle(text: str, width: int) -> str:
    """At most ``width`` cells (1 or more): the beginning and the end, by which people tell ids and names apart."""
    if display_width(text) <= width:
        return text
    tail_width = (width - 1) // 2
    tail = _beginning(text[::-1], tail_width)[::-1]
    return _beginning(text, width - 1 - tail_width) + ELLIPSIS + tail


def _beginning(text: str, width: int) -> str:
    if text.isascii():
        return text[:width]
    taken = 0
    for at, character in enumerate(text):
        taken += _cell_width(character)
        if taken > width:
            return text[:at]
    return text


def wrapped_lines(line: str, width: int | None, indent: int) -> Iterator[str]:
    """Whole lines; all but the first are indented. Words are not split, so that names and options can be copied."""
    text = printable(line)
    if width is None:
        yield text + "\n"
        return
    lines = textwrap.wrap(
        text,
        max(width, indent + _WRAPPED_WIDTH_MIN),
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    yield from (one + "\n" for one in lines)
