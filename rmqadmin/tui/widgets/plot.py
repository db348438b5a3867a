"""Numbers over time as bars. Each has its name and latest value above, as many lines of bars as there is room for, and
below several of them the least and the largest value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from rmqadmin.core.tables.sparkline import bars
from rmqadmin.core.units import at_least, count, rate
from rmqadmin.tui.literal import literal

if TYPE_CHECKING:
    from rmqadmin.tui.memory.pulse_memory import PulseMemory


_NAMES = {"in_tps": "in/s", "out_tps": "out/s", "lag_count": "lag of all groups"}
Form = Callable[[float | None], str]


def whole(value: float | None) -> str:
    return count(None if value is None else round(value))


_FORMS: dict[str, Form] = {"in_tps": rate, "out_tps": rate, "lag_count": whole}

Values = Sequence[float | None]


class Plot(Static):
    """Call ``show`` for a new value or size. It is only drawn if it looks different."""

    _shown: Content | None = None

    def show(self, title: str, values: Values, form: Form, *, latest: str | None = None, note: str = "") -> None:
        """``form`` formats a value; ``latest`` is the last one, if it is not just that. ``note`` stands beside it."""
        height, values = max(0, self.size.height - 1), values[-max(1, self.size.width) :]
        known = [value for value in values if value is not None]
        foot = [literal(f"{form(min(known))} .. {form(max(known))}", "$text-muted")] if known and height > 3 else []
        drawn = bars(values, max(1, self.size.width), height - len(foot)) if height else []
        told = latest or form(values[-1] if values else None)
        head = Content.assemble((title, "$text-accent bold"), "  ", (told, "bold"), "  ", (note, "$text-muted"))
        content = Content("\n").join([head.rstrip(), *(Content.styled(line, "$line") for line in drawn), *foot])
        if self._shown is None or content.plain != self._shown.plain:
            self._shown = content
            self.update(content, layout=False)

    def on_resize(self) -> None:
        if isinstance(self.parent, Plots):
            self.parent.draw()


class Plots(Horizontal):
    """Plots of numbers of the whole cluster, side by side."""

    _pulse: PulseMemory | None = None

    def compose(self) -> Iterable[Widget]:
        yield from (Plot(id=field) for field in _NAMES)

    def show(self, pulse: PulseMemory) -> None:
        self._pulse = pulse
        self.draw()

    def draw(self) -> None:
        """Draws all plots. Called as soon as a plot gets its size, because the next numbers may be seconds away."""
        pulse = self._pulse
        if pulse is None:
            return
        for plot in self.query(Plot):
            field = plot.id or ""
            values = pulse.cluster_values(field, max(1, plot.size.width))
            latest = _FORMS[field](values[-1] if values else None)
            told = at_least(latest) if pulse.is_part(field) else latest
            plot.show(_NAMES[field], values, _FORMS[field], latest=told)
