"""Numbers over time as bars. Each has its name and latest value above, and as many lines of bars as there is room
for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from rmqadmin.core.tables.sparkline import bars
from rmqadmin.core.units import at_least, count, rate

if TYPE_CHECKING:
    from rmqadmin.tui.memory.pulse_memory import PulseMemory


_NAMES = {"in_tps": "in/s", "out_tps": "out/s", "lag_count": "lag of all groups"}
_FORMS: dict[str, Callable[[float | None], str]] = {
    "in_tps": rate,
    "out_tps": rate,
    "lag_count": lambda value: count(None if value is None else round(value)),
}

Values = Sequence[float | None]


class Plot(Static):
    """Call ``show`` for a new value or size. It is only drawn if it looks different."""

    _shown: tuple[str, list[str]] | None = None

    def show(self, title: str, values: Values, latest: str) -> None:
        """``latest`` is the last value, formatted."""
        lines = bars(values, max(1, self.size.width), max(0, self.size.height - 1))
        if (latest, lines) == self._shown:
            return
        self._shown = latest, lines
        head = Content.assemble((title, "$text-accent bold"), "  ", (latest, "bold"))
        self.update(Content("\n").join([head, *(Content.styled(line, "$line") for line in lines)]), layout=False)

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
            plot.show(_NAMES[field], values, at_least(latest) if pulse.is_part(field) else latest)
