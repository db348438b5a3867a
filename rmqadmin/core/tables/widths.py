"""The width of each column of a table on a terminal, so that every row is one line. Columns are first shortened where
possible, then left out, the least important first."""

from collections.abc import Callable, Sequence

import msgspec

from rmqadmin.core.results import Importance, Shape
from rmqadmin.core.terminal_text import shortened_at_end, shortened_by_clause, shortened_in_middle

GAP = 2
"""Blanks between two columns."""


class Wish(msgspec.Struct, frozen=True):
    """What one column wants, in cells. ``whole``: the width of its longest cell. ``readable``: how far it may be
    shortened before other columns are left out. ``least``: the smallest width at which it is shown. ``yields_to``: how
    far it is shortened before any other column is; None for a column that does not yield."""

    whole: int
    readable: int
    least: int
    importance: Importance
    yields_to: int | None = None


def fit(wishes: Sequence[Wish], room: int, *, keeps_all: bool = False) -> list[int]:
    """The width of each column; 0 for one that is left out. The first of the most important columns always stays.
    ``keeps_all``: all stay, each at its smallest width if there is no room for more."""
    if keeps_all:
        vital = [msgspec.structs.replace(wish, importance=Importance.VITAL) for wish in wishes]
        return _shortened(vital, room) or [min(wish.whole, wish.least) for wish in wishes]
    kept = list(range(len(wishes)))
    while True:
        widths = _shortened([wishes[at] for at in kept], room)
        if widths is not None:
            found = dict(zip(kept, widths, strict=True))
            return [found.get(at, 0) for at in range(len(wishes))]
        if len(kept) == 1:
            return [max(1, room) if at == kept[0] else 0 for at in range(len(wishes))]
        kept.remove(max(kept, key=lambda at: _goes(wishes[at].importance, at)))


def _goes(importance: Importance, at: int) -> tuple[int, int]:
    """The greatest is left out first: from the right, but of what is repeated from the left, where names stand."""
    return importance, -at if importance is Importance.REPEATED else at


def _shortened(wishes: Sequence[Wish], room: int) -> list[int] | None:
    """Widths that fit. None if a column has to be left out first."""
    space = room - GAP * (len(wishes) - 1)
    only_vital = all(wish.importance is Importance.VITAL for wish in wishes)
    floors = [min(wish.whole, wish.least if only_vital else wish.readable) for wish in wishes]
    if sum(floors) > space:
        return None
    widths = [max(floor, min(wish.whole, room)) for wish, floor in zip(wishes, floors, strict=True)]
    firsts = [wish.whole if wish.yields_to is None else wish.yields_to for wish in wishes]
    while sum(widths) > space:
        over = [at for at in range(len(widths)) if widths[at] > max(firsts[at], floors[at])]
        over = over or [at for at in range(len(widths)) if widths[at] > floors[at]]
        widths[max(over, key=lambda at: widths[at])] -= 1
    return widths


_FLOORS = {Shape.NAME: (20, 5), Shape.ID: (13, 9), Shape.PROSE: (20, 6), Shape.CLAUSES: (20, 6), Shape.TREND: (6, 4)}
"""The width that cells may be shortened to before other columns are left out, and the smallest width."""

_TREND_YIELDS_TO = 10
"""A sparkline only takes room that is otherwise blank: names and words are not shortened to show more of the past."""

_SHORTENED: dict[Shape, Callable[[str, int], str]] = {
    Shape.NUMBER: shortened_at_end,
    Shape.NAME: shortened_in_middle,
    Shape.ID: shortened_in_middle,
    Shape.PROSE: shortened_at_end,
    Shape.CLAUSES: shortened_by_clause,
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
