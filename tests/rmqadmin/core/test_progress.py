"""Progress of long operations: shown after a second, a few times a second, and erased at the end."""

from __future__ import annotations

import time

import pytest

from rmqadmin.core.progress import BytesDone, CountDone


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_what_is_over_in_a_second_says_nothing(clock: list[float]) -> None:
    said: list[str | None] = []
    done = CountDone(said.append, "topics")
    for count in range(1, 10):
        clock[0] += 0.1
        done(count, 10)
    done.clear()
    assert said == []


def test_counts_and_their_rate_are_said_and_taken_away(clock: list[float]) -> None:
    said: list[str | None] = []
    done = CountDone(said.append, "topics")
    done(1, 3000)
    for count in (1500, 1501):  # the second comes too soon after the first
        clock[0] += 1.0 if count == 1500 else 0.1
        done(count, 3000)
    clock[0] += 0.9
    done(3000, 3000)
    done(1, 50)  # the next round has its own rate
    clock[0] += 2.0
    done(30, 50)
    done.clear()
    assert said == ["1,500 of 3,000 topics, 1,500/s", "3,000 of 3,000 topics, 1,500/s", "30 of 50 topics, 15/s", None]


def test_bytes_are_said_with_what_is_done_to_them(clock: list[float]) -> None:
    said: list[str | None] = []
    done = BytesDone(said.append)
    clock[0] += 2.0
    done("reading the log", 0, 1 << 20)
    clock[0] += 2.0
    done("reading the log", 1 << 19, 1 << 20)
    done.clear()
    assert said == ["reading the log: 2 s", "reading the log: 4 s, 512.0 KiB of at most 1.0 MiB, 128.0 KiB/s", None]
