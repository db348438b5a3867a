"""Columns of what samples say about a row: sparklines, and the trend of a lag."""

from __future__ import annotations

from rmqadmin.core.results import Shape
from rmqadmin.core.tables.sparkline import sparkline
from rmqadmin.tui.widgets.tables.columns import MINOR, Column

OVER_TIME = "over time"
"""The part with the ``OverTime`` of a row."""

LINE_WIDTH = 60


def line_column(field: str, *, top: float | None = None) -> Column:
    """A sparkline of a number's last values, beside the number and without a title. It is empty if all are 0: there is
    nothing to see, and a growing line would be redrawn each time."""
    return Column(
        name=f"{field}_line",
        words=" ",
        part=OVER_TIME,
        value=lambda over: over.lines.get(field, []),
        form=lambda values: sparkline(values, LINE_WIDTH, top=top) if any(values) else "",
        shape=Shape.TREND,
        importance=MINOR,
    )


def trend_column() -> Column:
    return Column(name="trend", part=OVER_TIME, shape=Shape.PROSE, readable_width=22, importance=MINOR)
