"""Numbers over time as bars. Each has its name and latest value above, as many lines of bars as there is room for, and
its least and largest value; one that is plotted alone has them as labels of an axis, and the times below.

Textual has a sparkline but no axes and no gaps, and the plot library textual-plotext would slow down the start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from textual.content import Content
from textual.widgets import Static

from rmqadmin.core.tables.sparkline import bars
from rmqadmin.core.units import clock, count
from rmqadmin.tui.literal import literal
from rmqadmin.tui.memory.history import NumberAt, per_column
from rmqadmin.tui.widgets.frame import is_shown

LABEL_WIDTH = 10
_LINES_AROUND = 2
"""The title above the bars, and the times below them."""

Form = Callable[[float | None], str]
"""Formats a value."""


def whole(value: float | None) -> str:
    return count(None if value is None else round(value))


Values = Sequence[float | None]


class DrawnLines(Static):
    """Draws itself again when its size changes."""

    _draw: Callable[[], Content] | None = None

    def draw(self, draw: Callable[[], Content]) -> None:
        self._draw = draw
        self.on_resize()

    def on_resize(self) -> None:
        if self._draw is not None and not is_shown(self, drawn := self._draw()):
            self.update(drawn, layout=False)


class Plot(DrawnLines):
    """Call ``show`` for a new value."""

    def show(self, title: str, values: Values, form: Form, *, latest: str | None = None, note: str = "") -> None:
        """``latest`` is the last value, if it is not just that. ``note`` stands beside it."""
        told = latest or form(values[-1] if values else None)
        head = Content.assemble((title, "$text-muted"), "  ", (told, "bold"), "  ", (note, "$text-muted"))
        self.draw(partial(self._bars, head.rstrip(), values, form))

    def _bars(self, head: Content, values: Values, form: Form) -> Content:
        height, values = max(0, self.size.height - 1), values[-max(1, self.size.width) :]
        known = [value for value in values if value is not None]
        foot = [literal(f"{form(min(known))} .. {form(max(known))}", "$text-muted")] if known and height > 3 else []
        drawn = bars(values, max(1, self.size.width), height - len(foot)) if height else []
        return Content("\n").join([head, *(Content.styled(line, "$curve") for line in drawn), *foot])


class TimePlot(DrawnLines):
    """One number between two axes: value and time."""

    def show(self, title: str, samples: Sequence[NumberAt], between_ms: tuple[int, int], form: Form) -> None:
        self.draw(partial(self._bars, title, samples, between_ms, form))

    def _bars(self, title: str, samples: Sequence[NumberAt], between_ms: tuple[int, int], form: Form) -> Content:
        width, height = max(1, self.size.width - LABEL_WIDTH - 1), max(1, self.size.height - _LINES_AROUND)
        columns = per_column(samples, *between_ms, width)
        known = [value for value in columns if value is not None]
        top, bottom = max(known, default=None), min(known, default=None)
        labels = [form(top), *[""] * (height - 2), *([form(bottom)] if height > 1 else [])]
        axis = [
            f"{label:>{LABEL_WIDTH}}▕{line}" for label, line in zip(labels, bars(columns, width, height), strict=True)
        ]
        begin, end = map(clock, between_ms)
        times = f"{'':{LABEL_WIDTH + 1}}{begin}{end:>{max(0, width - len(begin))}}"
        latest = form(samples[-1].value if samples else None)
        least = f"least {form(bottom)}, most {form(top)}" if known else "nothing was read yet"
        head = Content.assemble((title, "$text-accent bold"), "  ", (latest, "bold"), "  ", (least, "$text-muted"))
        lines = [Content.styled(line, "$line") for line in axis]
        return Content("\n").join([head, *lines, Content.styled(times, "$text-muted")])
