"""Progress of a replay, on standard error: lines while it is prepared, and while it sends. The numbers come from the
permit service, which counts exactly."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from rmqadmin.cli.output import diagnostics

if TYPE_CHECKING:
    from rmqreplay.run.hooks import ReplayProgress


STAGE_INTERVAL_S = 5.0
"""How often a long stage is reported again."""

INTERVAL_S = 2.0
"""The shortest time between plain lines, which may end up in logs."""


class StageLines:
    """Reports the stage in progress: when it begins (or, unless ``at_once``, only if it takes a while), and again with
    its seconds, until the next stage begins or ``stop`` is called. A thread of its own does this, because the stage
    runs in the caller's. ``counted``: the word for what happens to messages meanwhile."""

    def __init__(self, *, counted: str = "read", at_once: bool = True) -> None:
        self._counted = counted
        self._at_once = at_once
        self._read_count = 0
        self._finished = threading.Event()
        self._thread: threading.Thread | None = None

    def __call__(self, stage: str) -> None:
        self.stop()
        if self._at_once:
            diagnostics.notice(stage)
        self._read_count, self._finished = 0, threading.Event()
        self._thread = threading.Thread(target=self._tell, args=(stage, self._finished), daemon=True, name="stage")
        self._thread.start()

    def read(self, count: int) -> None:
        """Counts further messages that the stage has read, sent or written."""
        self._read_count += count

    def stop(self) -> None:
        """Returns when no more lines will follow."""
        self._finished.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _tell(self, stage: str, finished: threading.Event) -> None:
        started = time.monotonic()
        while not finished.wait(STAGE_INTERVAL_S):
            done = f", {self._read_count:,} {self._counted}" if self._read_count else ""
            diagnostics.notice(f"{stage}: {time.monotonic() - started:.0f} s{done}")


class ProgressLines:
    """Waves and messages as lines, now and then, and only if something has changed. ``planned``: the messages of the
    plan, of which earlier runs may have sent some."""

    def __init__(self) -> None:
        self.planned = 0
        self._delivered_before: int | None = None
        self._shown: ReplayProgress | None = None
        self._shown_at = time.monotonic()

    def __call__(self, progress: ReplayProgress) -> None:
        expected = self._expected(progress)
        now, shown = time.monotonic(), self._shown
        is_last = progress.wave == progress.wave_count
        if progress == shown or (now - self._shown_at < INTERVAL_S and not is_last):
            return
        per_s = (progress.granted - (shown.granted if shown else 0)) / max(now - self._shown_at, 0.001)
        self._shown, self._shown_at = progress, now
        left_s = (expected - progress.granted) / per_s if per_s > 0 else None
        diagnostics.notice(
            f"{progress.wave} of {progress.wave_count} waves done, {progress.granted} of {expected} messages sent, "
            f"{per_s:.0f}/s" + (f", {left_s:.0f} s left" if left_s else "")
        )

    def _expected(self, progress: ReplayProgress) -> int:
        """The messages that this run is to send."""
        if self._delivered_before is None:
            self._delivered_before = progress.delivered
        return max(self.planned - self._delivered_before - progress.found, progress.granted)
