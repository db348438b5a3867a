"""What kind of text a cell is decides how it is shortened, and how far before a column is left out."""

from __future__ import annotations

from collections.abc import Callable

from rmqadmin.core.results import Importance, Shape
from rmqadmin.core.tables.widths import Wish
from rmqadmin.core.terminal_text import shortened_at_end, shortened_in_middle

_FLOORS = {Shape.NAME: (20, 5), Shape.ID: (13, 9), Shape.PROSE: (20, 6), Shape.TREND: (6, 4)}
"""To what cells may be shortened before other columns are left out, and to what they may be shortened at all."""

_TREND_YIELDS_TO = 10
"""A sparkline takes its room from what is blank otherwise: names and words are not shortened for more of the past."""

_SHORTENED: dict[Shape, Callable[[str, int], str]] = {
    Shape.NUMBER: shortened_at_end,
    Shape.NAME: shortened_in_middle,
    Shape.ID: shortened_in_middle,
    Shape.PROSE: shortened_at_end,
    Shape.TREND: lambda text, width: text[-width:],
}


def wish(shape: Shape, whole: int, importance: Importance, *, readable: int | None = None) -> Wish:
    """What a column whose longest cell takes ``whole`` cells of the terminal would like. ``readable``: to what it may
    be shortened before others are left out, if not as usual for its shape."""
    usual, least = _FLOORS.get(shape, (whole, whole))
    yields_to = _TREND_YIELDS_TO if shape is Shape.TREND else None
    return Wish(whole, usual if readable is None else readable, least, importance, yields_to)


def shortened(shape: Shape, text: str, width: int) -> str:
    """At most ``width`` cells (1 or more) of the terminal."""
    return _SHORTENED[shape](text, width)
