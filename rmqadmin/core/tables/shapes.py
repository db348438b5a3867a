"""How a cell is shortened, and how far before its column is left out. Both depend on the kind of text it holds."""

from __future__ import annotations

from collections.abc import Callable

from rmqadmin.core.results import Importance, Shape
from rmqadmin.core.tables.widths import Wish
from rmqadmin.core.terminal_text import shortened_at_end, shortened_in_middle

_FLOORS = {Shape.NAME: (20, 5), Shape.ID: (13, 9), Shape.PROSE: (20, 6), Shape.TREND: (6, 4)}
"""The width that cells may be shortened to before other columns are left out, and the smallest width."""

_TREND_YIELDS_TO = 10
"""A sparkline only takes room that is otherwise blank: names and words are not shortened to show more of the past."""

_SHORTENED: dict[Shape, Callable[[str, int], str]] = {
    Shape.NUMBER: shortened_at_end,
    Shape.NAME: shortened_in_middle,
    Shape.ID: shortened_in_middle,
    Shape.PROSE: shortened_at_end,
    Shape.TREND: lambda text, width: text[-width:],
}


def wish(shape: Shape, whole: int, importance: Importance, *, readable: int | None = None) -> Wish:
    """The wish of a column whose longest cell takes ``whole`` cells. ``readable`` replaces the usual limit of its shape
    for shortening before others are left out."""
    usual, least = _FLOORS.get(shape, (whole, whole))
    yields_to = _TREND_YIELDS_TO if shape is Shape.TREND else None
    return Wish(whole, usual if readable is None else readable, least, importance, yields_to)


def shortened(shape: Shape, text: str, width: int) -> str:
    """The text in at most ``width`` cells (1 or more) of the terminal."""
    return _SHORTENED[shape](text, width)
