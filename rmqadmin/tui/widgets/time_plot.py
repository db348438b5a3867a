"""One number over time, as bars between two axes: value and time. Textual has a sparkline but no axes, and the plot
library textual-plotext takes another 45 ms to load. Two labels and a line of times are enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from textual.content import Content
from textual.widgets import Static

from rmqadmin.core.tables.sparkline import bars
from rmqadmin.core.units import clock
from rmqadmin.tui.memory.history import NumberAt, per_column

LABEL_WIDTH = 10
_LINES_AROUND = 2
"""The title above the bars, and the times below them."""


class TimePlot(Static):
    """Draws itself again when its size changes."""

    def __init__(self, *, id: str):
        super().__init__(id=id)
        self._draw: Callable[[], None] | None = None
        self._shown: list[str] | None = None

    def show(
        self, title: str, samples: Sequence[NumberAt], between_ms: tuple[int, int], form: Callable[[float | None], str]
    ) -> None:
        """``form`` formats a value."""
        self._draw = partial(self._draw_bars, title, samples, between_ms, form)
        self._draw()

    def on_resize(self) -> None:
        if self._draw is not None:
            self._draw()

    def _draw_bars(
        self, title: str, samples: Sequence[NumberAt], between_ms: tuple[int, int], form: Callable[[float | None], str]
    ) -> None:
        width, height = max(1, self.size.width - LABEL_WIDTH - 1), max(1, self.size.height - _LINES_AROUND)
        columns = per_column(samples, *between_ms, width)
        known = [value for value in columns if value is not None]
        top, bottom = max(known, default=None), min(known, default=None)
        drawn = bars(columns, width, height)
        labels = [form(top), *[""] * (height - 2), *([form(bottom)] if height > 1 else [])]
        axis = [f"{label:>{LABEL_WIDTH}}▕{line}" for label, line in zip(labels, drawn, strict=True)]
        begin, end = map(clock, between_ms)
        times = f"{'':{LABEL_WIDTH + 1}}{begin}{end:>{max(0, width - len(begin))}}"
        latest = form(samples[-1].value if samples else None)
        least = f"least {form(bottom)}, most {form(top)}" if known else "nothing was read yet"
        shown = [title, latest, least, *axis, times]
        if shown == self._shown:
            return
        self._shown = shown
        head = Content.assemble((title, "$text-accent bold"), "  ", (latest, "bold"), "  ", (least, "$text-muted"))
        lines = [Content.styled(line, "$line") for line in axis]
        self.update(Content("\n").join([head, *lines, Content.styled(times, "$text-muted")]), layout=False)
