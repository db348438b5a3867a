"""Numbers over time as bars. Each has its name and latest value above, as many lines of bars as there is room for, and
below several of them the least and the largest value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from rmqadmin.core.tables.sparkline import bars
from rmqadmin.core.units import at_least, count, rate
from rmqadmin.tui.literal import literal
from rmqadmin.tui.memory.history import SAMPLES_MAX

if TYPE_CHECKING:
    from rmqadmin.tui.memory.pulse_memory import PulseMemory


_NAMES = {"in_tps": "in/s", "out_tps": "out/s", "lag_count": "lag of all groups"}
Form = Callable[[float | None], str]


def whole(value: float | None) -> str:
    return count(None if value is None else round(value))


_FORMS: dict[str, Form] = {"in_tps": rate, "out_tps": rate, "lag_count": whole}

Values = Sequence[float | None]


class Plot(Static):
    """Call ``show`` for a new value. It is only drawn if it looks different, and again when its size changes."""

    _draw: Callable[[], None] | None = None
    _shown = ""

    def show(self, title: str, values: Values, form: Form, *, latest: str | None = None, note: str = "") -> None:
        """``form`` formats a value; ``latest`` is the last one, if it is not just that. ``note`` stands beside it."""
        told = latest or form(values[-1] if values else None)
        head = Content.assemble((title, "$text-muted"), "  ", (told, "bold"), "  ", (note, "$text-muted"))
        self._draw = partial(self._draw_bars, head.rstrip(), values, form)
        self._draw()

    def _draw_bars(self, head: Content, values: Values, form: Form) -> None:
        height, values = max(0, self.size.height - 1), values[-max(1, self.size.width) :]
        known = [value for value in values if value is not None]
        foot = [literal(f"{form(min(known))} .. {form(max(known))}", "$text-muted")] if known and height > 3 else []
        drawn = bars(values, max(1, self.size.width), height - len(foot)) if height else []
        content = Content("\n").join([head, *(Content.styled(line, "$curve") for line in drawn), *foot])
        if content.plain != self._shown:
            self._shown = content.plain
            self.update(content, layout=False)

    def on_resize(self) -> None:
        if self._draw is not None:
            self._draw()


class Plots(Horizontal):
    """Plots of numbers of the whole cluster, side by side."""

    def compose(self) -> Iterable[Widget]:
        yield from (Plot(id=field) for field in _NAMES)

    def show(self, pulse: PulseMemory) -> None:
        for field, title in _NAMES.items():
            values, form = pulse.cluster_values(field, SAMPLES_MAX), _FORMS[field]
            latest = form(values[-1] if values else None)
            told = at_least(latest) if pulse.is_part(field) else latest
            self.query_one(f"#{field}", Plot).show(title, values, form, latest=told)
