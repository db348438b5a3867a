"""The detail of a row, beside its list: all that is wrong with it and what to do about that, what the list has no room
for, and its numbers over time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from rmqadmin.core.health.finding import Finding
from rmqadmin.core.tables.sparkline import sparkline
from rmqadmin.core.terminal_text import display_width, padded, printable
from rmqadmin.core.units import count, rate
from rmqadmin.tui.literal import literal
from rmqadmin.tui.widgets.frame import is_shown, mark_of

if TYPE_CHECKING:
    from rmqadmin.tui.memory.readings import Line

_LABEL = "$text-muted"

ROWS_MAX = 20
"""Of a small table: it is made again for each row that the cursor comes to."""


class LongText(VerticalScroll):
    """Scrolls where its text has more lines than room. Can have the focus only then: otherwise ``tab`` would stop where
    nothing can be done."""

    def allow_focus(self) -> bool:
        return self.max_scroll_y > 0


class LongLines(LongText):
    """Lines that are shown all at once."""

    def __init__(self, first: str = "", *, id: str):
        super().__init__(Static(first), id=id)

    def show(self, lines: Iterable[Content]) -> None:
        static, content = self.query_one(Static), Content("\n").join(lines)
        if not is_shown(static, content):
            static.update(content)


class Detail(LongLines):
    """Beside a list, or a part of one, on a terminal that is wide enough: ``is_open`` says whether it is."""

    @property
    def is_open(self) -> bool:
        return self.screen.has_class("-wide")

    @property
    def room(self) -> int:
        """How many cells a line has."""
        return max(1, self.scrollable_content_region.width)


def finding_lines(findings: Sequence[Finding], *, are_named: bool = False) -> list[Content]:
    """Each finding with its mark, and how to mend it. ``are_named``: also what it is about."""
    lines = []
    for one in findings:
        mark, style = mark_of(one)
        what = f"{one.subject.name}: {one.what}" if are_named else one.what
        lines.append(Content.assemble((f"{mark} ", style), literal(what, style)))
        if one.fix is not None:
            lines.append(literal(one.fix, _LABEL))
    return lines


def fact_lines(facts: Sequence[tuple[str, str]]) -> list[Content]:
    """Labels and values, the values in one column."""
    labels = [printable(label) for label, _ in facts]
    width = max(map(display_width, labels), default=0) + 2
    shown = zip(labels, (value for _, value in facts), strict=True)
    return [Content.assemble((padded(label, width), _LABEL), literal(value)) for label, value in shown]


def part_lines(title: str, rows: Sequence[Sequence[str]], headings: Sequence[str] = ()) -> list[Content]:
    """A small table, its first column to the left and the others to the right, below its title. Nothing without rows;
    of many, the first."""
    if not rows:
        return []
    shown = [[printable(cell) for cell in row] for row in rows[:ROWS_MAX]]
    widths = [max(display_width(row[at]) for row in [(title, *headings), *shown]) for at in range(len(headings) + 1)]
    head = [f"{title:{widths[0] + 2}}", *(f"{text:>{width}}" for text, width in zip(headings, widths[1:], strict=True))]
    lines = [Content(""), Content.styled("  ".join(head), _LABEL)]
    for first, *others in shown:
        cells = (f"{text:>{width}}" for text, width in zip(others, widths[1:], strict=True))
        lines.append(Content("  ".join([f"  {padded(first, widths[0])}", *cells])))
    if len(rows) > ROWS_MAX:
        lines.append(Content.styled(f"  and {len(rows) - ROWS_MAX:,} more", _LABEL))
    return lines


def curve_lines(curves: Mapping[str, Line], width: int) -> list[Content]:
    """A line of bars for each number, with its least and its largest value."""
    lines: list[Content] = []
    for title, values in curves.items():
        known = [value for value in values if value is not None]
        if any(known):
            least, most = (rate(one) if title.endswith("/s") else count(round(one)) for one in (min(known), max(known)))
            head = Content.assemble((title, _LABEL), f"  {least} .. {most}")
            lines += [Content(""), head, Content.styled(sparkline(values, min(len(values), width)), "$curve")]
    return lines
