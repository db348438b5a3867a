"""The numbers of one row over the last minutes, as large as the terminal allows. The row is read on while this is
shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from textual.containers import Vertical
from textual.widget import Widget

from rmqadmin.core.health.finding import Subject, SubjectKind
from rmqadmin.core.units import duration, percent, rate
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.memory.history import Series
from rmqadmin.tui.memory.readings import RowReading
from rmqadmin.tui.refresh import Feed
from rmqadmin.tui.screens.base import DashboardScreen
from rmqadmin.tui.screens.row_parts import of_subject
from rmqadmin.tui.until_closed import while_mounted
from rmqadmin.tui.widgets.plot import TimePlot, whole

WINDOW_MIN_MS = 60_000
"""The shortest time that a plot shows, even if less is known."""

ReadRow = Callable[["DashboardClient"], RowReading]
"""Reads the numbers of the row. Called in a thread."""


_PLOTS: dict[SubjectKind, dict[str, tuple[str, Callable[[float | None], str]]]] = {
    SubjectKind.BROKER: {
        "in_tps": ("in/s", rate), "out_tps": ("out/s", rate), "put_ms": ("put p99", duration),
        "disk_ratio": ("disk", percent),
    },
    SubjectKind.TOPIC: {"in_tps": ("in/s", rate), "out_tps": ("out/s", rate)},
    SubjectKind.GROUP: {
        "lag_count": ("lag", whole), "lag_ms": ("lag time", duration), "consume_tps": ("consumed/s", rate),
    },
    SubjectKind.QUEUE: {"lag_count": ("lag", whole), "lag_ms": ("lag time", duration)},
    SubjectKind.DEAD_LETTERS: {"depth_count": ("dead letters", whole)},
}  # fmt: skip
"""By field: the title, and how to format a value."""


class OverTimeScreen(DashboardScreen):
    file_name = "over-time"
    AUTO_FOCUS = ""

    def __init__(self, subject: Subject, read: ReadRow | None):
        """``read`` is None if the pulse reads all numbers of the row."""
        super().__init__()
        self.step = f"{subject.name} over time"
        self._subject = subject
        self._read = read
        self._window_ms = (0, 0)

    def body(self) -> Iterable[Widget]:
        with Vertical(id="plots"):
            yield from (TimePlot(id=field) for field in _PLOTS[self._subject.kind])

    def on_mount(self) -> None:
        self.call_after_refresh(self.show_plots)

    def subject(self) -> Subject:
        return self._subject

    def selected(self) -> dict[str, str]:
        return of_subject(self._subject, self.dashboard.memory.seen)

    def make_feeds(self) -> Sequence[Feed]:
        return [] if self._read is None else super().make_feeds()

    def shown_feeds(self) -> list[Feed]:
        sampler = self.dashboard.sampler
        return self.feeds or ([] if sampler is None else sampler.shown_feeds)

    async def _refresh(self, feed: Feed) -> None:
        if self._read is not None:
            reading = await feed.ask(self._read)
            feed.problems = [f"without {name}" for name in reading.lacking]
            self.dashboard.pulse.take_rows(self._subject.kind, {self._subject.name: reading})
        self.show_plots()

    def _pause_feeds(self) -> None:
        """Pauses the feeds. If this screen has none, tells the sampler whether the pulse is shown."""
        super()._pause_feeds()
        sampler = self.dashboard.sampler
        if sampler is not None and self._read is None:
            sampler.show(not self._suspended)

    def sampled(self) -> None:
        self.show_plots()

    @while_mounted
    def show_plots(self) -> None:
        sampler = self.dashboard.sampler
        if sampler is None or self._suspended:
            return
        history, kind, name = sampler.pulse.history, self._subject.kind, self._subject.name
        found = {field: history.samples(Series(kind, name, field)) for field in _PLOTS[kind]}
        now_ms = self.now_ms()
        first_ms = min((samples[0].at_ms for samples in found.values() if samples), default=now_ms)
        self._window_ms = min(first_ms, now_ms - WINDOW_MIN_MS), now_ms
        for field, (title, form) in _PLOTS[kind].items():
            self.query_one(f"#{field}", TimePlot).show(title, found[field], self._window_ms, form)
        self.show_frame()

    def rows_text(self) -> str:
        trend = self.dashboard.pulse.over_time(self._subject, ()).trend
        words = f"the last {duration(self._window_ms[1] - self._window_ms[0])}"
        return f"{words}, lag {trend}" if trend else words
