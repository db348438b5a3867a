"""The painted text and its colours, as the terminal gets them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.ansi import AnsiDecoder
from rich.cells import cell_len
from rich.console import Console
from textual.color import Color
from textual.geometry import Offset, Region

from rmqadmin.core.results import Shape
from rmqadmin.tui.themes import CONTRAST_MIN, CURVE_CONTRAST_MIN, contrast
from rmqadmin.tui.widgets.tables.row_table import RowTable
from tests.rmqadmin.tui.opened import Driver, screen_picture

_BORDER = re.compile("[\u2500-\u257f ]+")
_CURVE = re.compile("[\u2581-\u2588 ]+")

Painted = tuple[str, Color, Color]
"""A text, its colour, and its background."""


def painted(driver: Driver) -> Iterator[Painted]:
    """The painted texts. With a dialog open only its own, because what is behind it is dimmed on purpose. Scroll bars
    are no text."""
    app = driver.app
    bars = [one.vertical_scrollbar.region for one in app.screen.query("*") if one.show_vertical_scrollbar]
    boxes = [box.region for box in app.screen.query(".dialog--box")]
    console = Console()
    for y, line in enumerate(AnsiDecoder().decode(screen_picture(app, styles=True))):
        x = 0
        for text, style, _ in line.render(console):
            place, x = Offset(x, y), x + max(1, cell_len(text))
            if (
                text.strip()
                and style
                and style.color
                and style.bgcolor
                and _is_in(boxes, place)
                and not (bars and _is_in(bars, place))
            ):
                front, ground = Color.from_rich_color(style.color), Color.from_rich_color(style.bgcolor)
                yield (text.strip(), ground, front) if style.reverse else (text.strip(), front, ground)


def _is_in(boxes: list[Region], place: Offset) -> bool:
    return not boxes or any(box.contains_point(place) for box in boxes)


def unreadable(driver: Driver) -> list[str]:
    """Texts and sparklines with too little contrast. Borders may be faint."""
    found = {
        f"{text}: {front.hex} on {ground.hex}, {ratio:.2f}"
        for text, front, ground in painted(driver)
        if (ratio := contrast(front, ground)) < (CURVE_CONTRAST_MIN if _CURVE.fullmatch(text) else CONTRAST_MIN)
        and not _BORDER.fullmatch(text)
    }
    return sorted(found)


def said_by_color_alone(driver: Driver) -> list[str]:
    """Cells of one column that have the same text but different marks."""
    found = []
    for table in driver.app.screen.query(RowTable):
        for at, column in enumerate(table.model.columns):
            marks: dict[str | None, set[object]] = {}
            for line in table.model.lines.values():
                marks.setdefault(line.texts[at], set()).add(line.marks[at])
            found += [f"{column.title}: {text}" for text, kinds in marks.items() if len(kinds) > 1]
    return found


def cut_clauses(driver: Driver) -> list[str]:
    """Cells that say what is wrong and have not even room for their first clause."""
    found = []
    for table in driver.app.screen.query(RowTable):
        widths = dict(table.cells.shown)
        for at, column in enumerate(table.model.columns):
            if column.shape is Shape.CLAUSES and at in widths:
                texts = (table.model.lines[key].texts[at] or "" for key in table.visible_keys())
                found += [cell for text in texts if (cell := table.cells.cell(at, widths[at], text)).endswith("…")]
    return found
