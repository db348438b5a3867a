"""Chooses the columns that fit into a table, their widths, and the text of each cell. Widths only grow, so that columns
do not move with every number."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rich.cells import cell_len, set_cell_size

from rmqadmin.core.results import Importance, Shape
from rmqadmin.core.tables.widths import fit, shortened, wish
from rmqadmin.core.units import UNKNOWN
from rmqadmin.tui.widgets.tables.columns import Column


class CutCell(msgspec.Struct, frozen=True):
    """A cell that a table shortens or leaves out."""

    title: str
    text: str


class Cells:
    """The layout of a row. ``shown`` has the columns that fit, by number, with their widths."""

    def __init__(self, columns: Sequence[Column]):
        self.columns = list(columns)
        self._wholes = [cell_len(column.title) for column in columns]
        self._is_there = [not column.is_sparse for column in columns]
        self._room = 0
        self._sorted_at: int | None = None
        self.shown: list[tuple[int, int]] = []
        self._fit()

    def see(self, at: int, text: str) -> bool:
        """Makes room for a cell's text. Returns whether columns may move."""
        width = min(cell_len(text), self.columns[at].width_max)
        if width <= self._wholes[at] and self._is_there[at]:
            return False
        self._wholes[at] = max(width, self._wholes[at])
        self._is_there[at] = True
        return True

    def fit(self, room: int, sorted_at: int | None) -> bool:
        """Fits the columns into ``room`` cells, always including the one that rows are sorted by. Returns whether the
        columns have moved."""
        self._room, self._sorted_at = room, sorted_at
        before = self.shown
        self._fit()
        return self.shown != before

    def _fit(self) -> None:
        there = [at for at, is_there in enumerate(self._is_there) if is_there]
        wishes = [
            wish(
                self.columns[at].kind,
                max(self._wholes[at], cell_len(self.columns[at].title) + 1)
                if at == self._sorted_at
                else self._wholes[at],
                Importance.VITAL if at == self._sorted_at else self.columns[at].importance,
                readable=self.columns[at].readable_width,
            )
            for at in there
        ]
        widths = fit(wishes, self._room) if self._room > 0 and wishes else [one.whole for one in wishes]
        self.shown = [(at, width) for at, width in zip(there, widths, strict=True) if width]

    @property
    def is_squeezed(self) -> bool:
        """Whether some column is left out, or narrower than its cells. Sparklines do not count: only their end
        matters."""
        shown = dict(self.shown)
        return any(
            self._is_there[at] and shown.get(at, 0) < whole and self.columns[at].kind is not Shape.TREND
            for at, whole in enumerate(self._wholes)
        )

    def cut(self, texts: Sequence[str | None]) -> list[CutCell]:
        """The cells of a row that are not fully visible: first shortened ones, then those left out."""
        widths = dict(self.shown)
        lines = [at for at, column in enumerate(self.columns) if column.kind is Shape.TREND]
        short = [at for at, width in self.shown if cell_len(texts[at] or "") > width and at not in lines]
        out = [at for at in range(len(self.columns)) if at not in widths and at not in lines]
        return [
            CutCell(self.columns[at].title, text) for at in [*short, *out] if (text := texts[at]) and text != UNKNOWN
        ]

    def cell(self, at: int, width: int, text: str) -> str:
        """A text at the width of its column: shortened, or padded on the left if it is a number, else on the right."""
        column = self.columns[at]
        length = len(text) if text.isascii() else cell_len(text)
        if length > width:
            text = shortened(column.kind, text, width)
            length = cell_len(text)
            if length > width:  # Rich and the shortening disagree about the width of a character
                return set_cell_size(text, width)
        blanks = " " * (width - length)
        return blanks + text if column.is_number else text + blanks
