"""Progress of a replay, on standard error: lines while it is prepared, then a bar and keys at a terminal, or plain
lines elsewhere. The numbers come from the permit service, which counts exactly; keys are passed to it."""

from __future__ import annotations

import os
import select
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rmqadmin.cli.output import diagnostics
from rmqadmin.cli.output.terminal_guard import guard_terminal
from rmqadmin.core.progress import RateDial, SpeedGauge

if TYPE_CHECKING:
    from rmqreplay.run.job import ReplayProgress
    from rmqreplay.sending.permit_service import PermitService


STAGE_INTERVAL_S = 5.0
"""How often a long stage is reported again."""

INTERVAL_S = 2.0
"""The shortest time between plain lines, which may end up in logs."""

KEYS_HELP = "keys: + faster, - slower, p pause"


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


class Counts:
    """Messages that this run is to send: those of the plan, without those that earlier runs have sent."""

    def __init__(self) -> None:
        self.planned = 0
        self._delivered_before: int | None = None

    def begin(self) -> None:
        """Counts another job of a series."""
        self._delivered_before = None

    def expected(self, progress: ReplayProgress) -> int:
        if self._delivered_before is None:
            self._delivered_before = progress.delivered
        return max(self.planned - self._delivered_before - progress.found, progress.granted)


class ProgressLines:
    """Waves and messages as plain lines, now and then, and only if something has changed."""

    def __init__(self) -> None:
        self.counts = Counts()
        self._shown: ReplayProgress | None = None
        self._shown_at = time.monotonic()

    def __call__(self, progress: ReplayProgress) -> None:
        expected = self.counts.expected(progress)
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

    def attach(self, service: PermitService) -> None:
        """A job begins, perhaps another of a series."""
        self.counts.begin()
        self._shown, self._shown_at = None, time.monotonic()

    def stop(self) -> None:
        """Does nothing: nothing was taken."""


def is_foreground(fd: int) -> bool:
    """Whether this process may read from the terminal and set it up: not after ``&``, nor after Ctrl-Z and ``bg``."""
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return False


class KeyReader:
    """Calls ``on_key`` from its own thread for every key, until ``close``, which restores the terminal. Ctrl-C remains
    a signal."""

    def __init__(self, fd: int, on_key: Callable[[str], None]):
        self._fd = fd
        self._on_key = on_key
        self._was = termios.tcgetattr(fd)
        self._wake_read, self._wake_write = os.pipe()
        tty.setcbreak(fd)
        self._thread = threading.Thread(target=self._read, daemon=True, name="keys")
        self._thread.start()

    def _read(self) -> None:
        while True:
            ready, _, _ = select.select([self._fd, self._wake_read], [], [])
            if self._wake_read in ready:
                return
            if not is_foreground(self._fd):  # reading would stop the process
                select.select([self._wake_read], [], [], 0.5)
                continue
            try:
                keys = os.read(self._fd, 64)
            except OSError:  # the terminal was closed
                return
            if not keys:
                return
            for key in keys.decode("ascii", "replace"):
                self._on_key(key)

    def close(self) -> None:
        os.write(self._wake_write, b"x")
        self._thread.join()
        os.close(self._wake_read)
        os.close(self._wake_write)
        if is_foreground(self._fd):  # otherwise the shell owns it, and has set it up itself
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._was)


class ProgressBar:
    """A Rich bar on the terminal, and the keys. Call ``stop`` before a question and at the end; the next progress shows
    the bar again."""

    def __init__(self, rate: float | None):
        self.counts = Counts()
        self._dial = RateDial(rate)
        self._lock = threading.RLock()
        self._service: PermitService | None = None
        self._keys: KeyReader | None = None
        self._bar: Any = None
        self._task: Any = None
        self._speed = SpeedGauge()

    def attach(self, service: PermitService) -> None:
        """Lets keys change this service's rate from now on. It begins with the one that they chose in an earlier job of
        a series."""
        with self._lock:
            self._service, self._speed = service, SpeedGauge()
            self.counts.begin()
            service.set_rate(self._dial.setting)

    def __call__(self, progress: ReplayProgress) -> None:
        with self._lock:
            if self._bar is None:
                self._start(progress)
            self._speed.measure(progress.granted)
            self._bar.update(
                self._task,
                completed=progress.granted,
                total=self.counts.expected(progress),
                description=f"wave {min(progress.wave + 1, progress.wave_count)} of {progress.wave_count}",
                dial=str(self._dial),
            )

    def press(self, key: str) -> None:
        with self._lock:
            if self._service is not None and self._dial.press(key, self._speed.per_s):
                self._service.set_rate(self._dial.setting)
                if self._bar is not None:
                    self._bar.update(self._task, dial=str(self._dial))

    def stop(self) -> None:
        """Restores the terminal."""
        keys, self._keys = self._keys, None
        if keys is not None:
            keys.close()  # without the lock: a key may be waiting for it
        with self._lock:
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def _start(self, progress: ReplayProgress) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        if self._task is None:
            diagnostics.notice(KEYS_HELP)  # the bar's own line has no room for it in 80 columns
        self._bar = Bar(
            TextColumn("{task.description}"), BarColumn(bar_width=None), MofNCompleteColumn(), TextColumn("messages"),
            TimeRemainingColumn(), TextColumn("{task.fields[dial]}", markup=False),
            console=diagnostics.terminal(), expand=True,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=self.counts.expected(progress), dial=str(self._dial))
        self._bar.start()
        self._keys = KeyReader(sys.stdin.fileno(), self.press)


def progress_for_here(rate: float | None) -> ProgressBar | ProgressLines:
    """A bar if somebody can see it and press keys, else lines."""
    is_seen = sys.stdin.isatty() and sys.stderr.isatty() and is_foreground(sys.stdin.fileno())
    if not is_seen:
        return ProgressLines()
    guard_terminal()  # it hides the cursor, and reads single keys
    return ProgressBar(rate)
