"""Progress of a long task, for the status line: nothing in the first second, then updates several times a second."""

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
