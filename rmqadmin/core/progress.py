"""Progress of a long task, for the status line: nothing in the first second, then updates several times a second. And
the rate of a running redrive, with the keys that change it, in a terminal and in the dashboard."""

import time
from collections.abc import Callable

from rmqadmin.core import units

_SHOWN_AFTER_S, _SHOWN_EVERY_S = 1.0, 0.2


class _Progress:
    def __init__(self, show: Callable[[str | None], None]):
        self._show = show
        self._started_s = time.monotonic()
        self._next_s = self._started_s + _SHOWN_AFTER_S
        self._is_shown = False

    def is_due(self) -> bool:
        return time.monotonic() >= self._next_s

    def elapsed_s(self) -> float:
        return time.monotonic() - self._started_s

    def say(self, text: str) -> None:
        self._next_s = time.monotonic() + _SHOWN_EVERY_S
        self._is_shown = True
        self._show(text)

    def clear(self) -> None:
        if self._is_shown:
            self._show(None)


class BytesDone(_Progress):
    """Call it with what is being done, how many bytes are done, and the total."""

    def __call__(self, doing: str, done_bytes: int, total_bytes: int) -> None:
        if not self.is_due():
            return
        elapsed_s = self.elapsed_s()
        text = f"{doing}: {elapsed_s:.0f} s"
        if done_bytes:
            rate = units.size(round(done_bytes / elapsed_s))
            text += f", {units.size(done_bytes)} of at most {units.size(total_bytes)}, {rate}/s"
        self.say(text)


class CountDone(_Progress):
    """Call it with how many of ``what`` are done, and the total."""

    def __init__(self, show: Callable[[str | None], None], what: str):
        super().__init__(show)
        self._what = what
        self._since_s = self._started_s

    def __call__(self, done_count: int, total_count: int) -> None:
        if done_count == 1:
            self._since_s = time.monotonic()  # the next round begins
        if self.is_due():
            rate = units.count(round(done_count / max(time.monotonic() - self._since_s, 0.001)))
            self.say(f"{units.count(done_count)} of {units.count(total_count)} {self._what}, {rate}/s")


RATE_STEP = 1.25
RATE_MIN = 0.1

_MEASURED_S_MIN = 1.0


def limits_text(rate: float | None, byte_rate: float | None = None) -> str:
    """The limits that were given, for a command line that continues a job: its plan does not keep them."""
    given = {"--rate": rate, "--byte-rate": byte_rate}
    return "".join(f" {name} {value:.15g}" for name, value in given.items() if value is not None)


class SpeedGauge:
    """The recent speed in messages a second."""

    def __init__(self) -> None:
        self.per_s = 0.0
        self._moved = (time.monotonic(), 0)

    def measure(self, sent_count: int) -> None:
        """``sent_count``: the total so far."""
        now, (then, before_count) = time.monotonic(), self._moved
        if now - then >= _MEASURED_S_MIN:
            self.per_s = (sent_count - before_count) / (now - then)
            self._moved = (now, sent_count)


class RateDial:
    """The rate that keys change: messages a second for the whole job, None for no limit."""

    def __init__(self, rate: float | None):
        self.rate = rate
        self.is_paused = False

    @property
    def setting(self) -> float | None:
        """The value for ``PermitService.set_rate``: 0 is a pause."""
        return 0.0 if self.is_paused else self.rate

    def press(self, key: str, per_s: float) -> bool:
        """Handles a key; whether anything has changed. ``per_s`` is the present speed, from which a job without a limit
        is slowed down."""
        before = self.setting
        if key == "p":
            self.is_paused = not self.is_paused
        elif key == "+" and self.rate is not None:
            self.rate *= RATE_STEP
        elif key == "-" and (self.rate is not None or per_s > 0):
            self.rate = max(RATE_MIN, (per_s if self.rate is None else self.rate) / RATE_STEP)
        return self.setting != before

    def __str__(self) -> str:
        if self.is_paused:
            return "paused"
        return "no limit" if self.rate is None else f"at most {self.rate:.4g}/s"
