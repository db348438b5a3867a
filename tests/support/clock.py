"""A clock that the test moves, and a local time that it chooses."""

import time
from collections.abc import Iterator

import pytest


class Clock:
    """Stands still until the test moves it. Pass it wherever milliseconds since 1970 are needed."""

    def __init__(self, now_ms: int = 1_700_000_000_000):
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def in_zone(monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[None]:
    """For fixtures: sets local time to that of the zone."""
    monkeypatch.setenv("TZ", name)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
