"""Rows as data: their parts, which of them pass a filter, their order, and the age of each part. Independent of
screens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from time import monotonic
from typing import Any

import msgspec

from rmqadmin.core.results import Shape
from rmqadmin.core.tables.marks import Mark
from rmqadmin.core.terminal_text import printable
from rmqadmin.core.units import UNKNOWN
from rmqadmin.tui.widgets.tables.columns import BASE, JUDGED, NOT_KNOWN, NUMBERS, Cells, Column

NOT_ASKED, OLD = "·", "~"
"""The cell of a part that has not been read yet, and what stands before a number that is old."""

_MARKED, _BROKEN, _LOOK = ("●", "new"), ("✖", "bad"), ("▲", "warn")
"""Nothing is told by a colour alone."""

Cell = tuple[str, str]
"""A text, and the name of its style."""

_BETWEEN = "  "
"""The gap between cells in the text that filters read."""


class Line(msgspec.Struct, gc=False):
    """A row: its parts, when each was asked for, and the text and mark of each cell, None while its part is missing.
    ``errors`` says why the part NUMBERS is unknown and takes the place of its cells. Not tracked by the garbage
    collector: rows form no cycles, and there may be ten thousand."""

    key: str
    texts: tuple[str | None, ...]
    marks: tuple[Mark | None, ...]
    parts: dict[str, Any] = {}
    asked_s: dict[str, float] = {}
    errors: dict[str, str] = {}
    searched: str = ""


_UNJUDGED_RANK = 2
"""That of a row of which nothing is wrong."""


class Order(msgspec.Struct, frozen=True):
    """An order by the values of one column, unknown values last. Equal rows keep their original order."""

    at: int
    descends: bool


def sort(lines: Sequence[Line], columns: Sequence[Column], order: Order) -> list[Line]:
    """The lines in this order, numbers before text. Case does not matter."""
    column = columns[order.at]
    values = [(column.of(line.parts[column.part]) if column.part in line.parts else None, line) for line in lines]
    known = [
        (value.casefold() if isinstance(value, str) else value, line) for value, line in values if value is not None
    ]
    known.sort(key=lambda pair: (isinstance(pair[0], str), pair[0]), reverse=order.descends)
    return [line for _, line in known] + [line for value, line in values if value is None]


class Rows:
    """All rows of a table. ``shown``: the lines that pass, in order. ``stale_after_s``: the age at which a part is
    stale; None for rows that do not age. ``now_ms``: the clock of ages in cells."""

    def __init__(
        self,
        columns: Sequence[Column],
        now_ms: Callable[[], int],
        stale_after_s: float | None,
    ):
        self.columns = list(columns)
        self.cells = Cells(columns)
        self.stale_after_s = stale_after_s
        self.order: Order | None = None
        self.passes: Callable[[str], bool] | None = None
        """The filter: whether the text of a row's base cells passes."""
        self.is_hidden: Callable[[Any], bool] | None = None
        self.lines: dict[str, Line] = {}
        self._prepared: dict[str, Line] = {}
        self.shown: list[Line] = []
        self._known_counts: dict[str, int] = {}
        """A cache of ``known_count`` since the last change: the status line asks every second."""
        self.hidden_count = 0
        """The number of rows hidden by ``is_hidden``."""
        self.every: dict[str, float] = {}
        """At every how many intervals a part is asked for, where that is not what its columns say."""
        self.marked: dict[str, Any] = {}
        """The base parts of marked rows, by key. They stay marked when they are gone."""
        self._base_columns = [at for at, column in enumerate(columns) if column.part == BASE]
        """Those that filters read, by number."""
        self._is_judged = any(column.part == JUDGED for column in columns)
        self._now_ms = now_ms
        self._ageing = {column.part for column in columns if column.changes_by_itself}
        """Parts whose text changes even if they do not."""

    # --- filling -----------------------------------------------------------------------------------------------------

    def set_base(self, rows: Iterable[tuple[str, Any]], *, keeps_others: bool = False) -> bool:
        """Sets all rows, in order, with their base parts. Text is only made again if a part has changed or shows an
        age. Existing rows keep their other parts. With ``keeps_others``, existing rows that are not named stay after
        the others, and age. Returns whether anything looks different now."""
        lines: dict[str, Line] = {}
        changed, now_s = False, monotonic()
        stale_before_s = 0.0 if self.stale_after_s is None else now_s - self.stale_after_s
        for key, base in rows:
            line = self.lines.get(key) or self._prepared.get(key) or self._blank(key)
            known = line.parts.get(BASE)
            if BASE in self._ageing or (known is not base and known != base):
                changed = self._fill_base(line, base) or changed
            changed = changed or line.asked_s.get(BASE, now_s) < stale_before_s
            line.asked_s[BASE] = now_s
            lines[key] = line
        if keeps_others:
            lines |= {key: line for key, line in self.lines.items() if key not in lines}
        changed = changed or list(lines) != list(self.lines)
        self.lines, self._prepared = lines, {}
        return changed

    def prepare(self, rows: Iterable[tuple[str, Any]]) -> None:
        """Makes the text of rows for the next ``set_base``. They are not shown before that."""
        for key, base in rows:
            line = self._prepared[key] = self._blank(key)
            self._fill_base(line, base)

    def _blank(self, key: str) -> Line:
        return Line(key, (None,) * len(self.columns), (None,) * len(self.columns))

    def _fill_base(self, line: Line, base: Any) -> bool:
        changed = self._fill(line, BASE, base)
        line.searched = _BETWEEN.join(line.texts[at] or "" for at in self._base_columns)
        return changed

    def put(self, part: str, found: Mapping[str, Any], *, asked_s: float | None = None) -> set[str]:
        """Sets one part of some rows; text is made again as in ``set_base``. Ignores rows that have gone meanwhile.
        ``asked_s``: when the part was asked for, by ``monotonic``; None for now. Returns the keys of the rows that look
        different now, or may have another rank."""
        changed = set()
        for key, value in found.items():
            line = self.lines.get(key)
            if line is not None:
                was_stale = self.is_stale(line, part)
                is_other = part in self._ageing or part not in line.parts or line.parts[part] != value
                looks_other = is_other and self._fill(line, part, value)
                if looks_other or was_stale or (is_other and part == JUDGED):
                    changed.add(key)
                line.asked_s[part] = monotonic() if asked_s is None else asked_s
        return changed

    def _fill(self, line: Line, part: str, value: Any) -> bool:
        """Makes the cells of one part. Returns whether any of them has changed."""
        is_same = part in line.parts and line.parts[part] == value
        if part not in line.parts:
            self._known_counts.clear()
        line.parts[part] = value
        error = getattr(value, "error", None) if part == NUMBERS else None
        before = line.errors.pop(part, None)
        if error is not None:
            line.errors[part] = printable(error)
        texts, marks = list(line.texts), list(line.marks)
        for at, column in enumerate(self.columns):
            if column.part == part and (column.changes_by_itself or not is_same):
                text = self._text(column, value)
                texts[at], marks[at] = text, column.marked(value)
        cells_before = line.texts, line.marks
        line.texts, line.marks = tuple(texts), tuple(marks)
        has_changed = (line.texts, line.marks) != cells_before
        if has_changed and not self._hides(line):
            self._see(line)
        return line.errors.get(part) != before or has_changed

    def _hides(self, line: Line) -> bool:
        return self.is_hidden is not None and self.is_hidden(line.parts[BASE])

    def _see(self, line: Line) -> None:
        """Makes room for the cells of a row."""
        for at, (column, text) in enumerate(zip(self.columns, line.texts, strict=True)):
            if text is not None and not (column.is_sparse and column.of(line.parts[column.part]) is None):
                self.cells.see(at, text)

    def hide(self, is_hidden: Callable[[Any], bool] | None) -> None:
        """Hides rows by their base part; None hides none. A hidden row takes no room from the others' columns."""
        if is_hidden is not self.is_hidden:
            self.is_hidden = is_hidden
            for line in self.lines.values():
                if not self._hides(line):
                    self._see(line)

    def _text(self, column: Column, value: Any) -> str:
        return printable(column.text(value, self._now_ms()))

    def would_pass(self, base: Any) -> bool:
        """Whether a row with this base part would pass. Any thread may ask."""
        passes = self.passes
        return passes is None or passes(_BETWEEN.join(self._text(self.columns[at], base) for at in self._base_columns))

    # --- text of a row for copying -----------------------------------------------------------------------------------

    def name_of(self, line: Line) -> str:
        """The name of a row, unshortened."""
        at = next((at for at, column in enumerate(self.columns) if column.is_name), 0)
        part = line.parts.get(self.columns[at].part)
        value = None if part is None else self.columns[at].of(part)
        return value if isinstance(value, str) else line.texts[at] or ""

    def told(self, line: Line) -> str:
        """All cells of a row in full, including those left out or shortened: a line for each column, with title and
        text."""
        cells = zip(self.columns, line.texts, strict=True)
        known = [f"{column.title}: {text}" for column, text in cells if column.kind is not Shape.TREND and text]
        return "\n".join([*known, *(f"error: {text}" for text in line.errors.values())])

    # --- filter and order --------------------------------------------------------------------------------------------

    def arrange(self) -> None:
        """Updates ``shown``."""
        self._known_counts.clear()
        passes, is_hidden = self.passes, self.is_hidden
        visible = [line for line in self.lines.values() if is_hidden is None or not is_hidden(line.parts[BASE])]
        self.hidden_count = len(self.lines) - len(visible)
        self.shown = visible if passes is None else [line for line in visible if passes(line.searched)]
        if self.order is not None:
            self.shown = sort(self.shown, self.columns, self.order)
        elif self._is_judged:
            self.shown = sorted(self.shown, key=lambda line: getattr(line.parts.get(JUDGED), "rank", _UNJUDGED_RANK))

    @property
    def sorted_part(self) -> str | None:
        """The part that rows are sorted by."""
        if self.order is None:
            return JUDGED if self._is_judged else None
        return self.columns[self.order.at].part

    def order_text(self) -> str:
        """The column and direction of the order, and how many rows have a value if not all. Empty if rows are not
        sorted."""
        if self.order is None:
            return "worst first" if self._is_judged else ""
        column = self.columns[self.order.at]
        known_count = self.known_count(column.part)
        known = f" ({known_count:,} known so far)" if known_count < len(self.shown) else ""
        return f"by {column.title}, {'falling' if self.order.descends else 'rising'}{known}"

    def known_count(self, part: str) -> int:
        """How many of the shown rows have a part."""
        if part not in self._known_counts:
            self._known_counts[part] = sum([part in line.parts for line in self.shown])
        return self._known_counts[part]

    def asked_longest_ago(self, part: str, count: int) -> list[str]:
        """The keys of ``count`` shown rows: first those never asked for, then those with the oldest part."""
        oldest = sorted(self.shown, key=lambda line: line.asked_s.get(part, 0.0))
        return [line.key for line in oldest[:count]]

    # --- how it looks ------------------------------------------------------------------------------------------------

    def sign(self, line: Line) -> Cell:
        """What stands before a row: that the user has marked it, or the worst of its cells."""
        if line.key in self.marked:
            return _MARKED
        if line.errors or Mark.BAD in line.marks:
            return _BROKEN
        return _LOOK if Mark.WARN in line.marks else (" ", "")

    def cell(self, line: Line, at: int) -> Cell:
        """The cell of a row in a column, by number."""
        column, text, mark = self.columns[at], line.texts[at], line.marks[at]
        is_trend = column.kind is Shape.TREND
        name = "line" if is_trend else "" if mark is None else mark.name.lower()
        if column.part in line.errors:
            return ("" if is_trend else NOT_KNOWN), "bad"
        if text is None:
            return NOT_ASKED, "stale"
        if self.is_stale(line, column.part, column.every):
            is_told = column.is_measured and text not in (UNKNOWN, NOT_KNOWN, "")
            return f"{OLD}{text}" if is_told else text, "stale"
        return text, name

    def make_room(self, lines: Iterable[Line]) -> bool:
        """Makes room for what stands before old numbers. Returns whether columns may move."""
        old = [(at, self.cell(line, at)[0]) for line in lines for at in range(len(self.columns))]
        return any([self.cells.see(at, text) for at, text in old if text.startswith(OLD)])

    # --- ages --------------------------------------------------------------------------------------------------------

    def is_stale(self, line: Line, part: str, every: float = 1) -> bool:
        asked_s = line.asked_s.get(BASE if part == JUDGED else part)  # a judgement that stays is not put again
        if asked_s is None or self.stale_after_s is None:
            return False
        return monotonic() - asked_s > self.stale_after_s * max(every, self.every.get(part, 1))
