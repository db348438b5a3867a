"""A clock that the test moves."""

from __future__ import annotations


class Clock:
    """Stands still until the test moves it. Pass it wherever milliseconds since 1970 are needed."""

    def __init__(self, now_ms: int = 1_700_000_000_000):
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms
