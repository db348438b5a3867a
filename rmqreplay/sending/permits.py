"""Permits to send: they keep two attempts of one task from sending at the same time, and limit the rate of the whole
cluster. There is no I/O here: the clock is an argument of the constructor, and sockets are elsewhere.

The rules that prevent doubles:
- A permit ends ``ttl_s`` after it was given. The holder counts from before it asked, so it stops before the permit ends
  in the book.
- A message sent under a permit is at the target, or never will be, ``settle_s`` after the permit ended.
- An attempt with a higher number shuts out lower ones for ever. It waits until their last permit has ended and settled,
  and then must look at the target before it sends. It need not look if no earlier attempt held a permit.
- A new driver does not know the permits of the old one: with ``recovering`` every attempt waits and looks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

PERMIT_TTL_S = 2.0
PAUSE_POLL_S = 0.5
WAIT_S_MAX = 60.0
"""The longest wait in an answer; the task asks again after it."""
GRANT_SHARE_OF_SECOND = 0.2
"""A grant is at most this part of a second's rate, so that the rate also holds within a second."""


class Entered(msgspec.Struct, frozen=True, tag=True):
    """The attempt may ask for permits. ``must_look``: other attempts may have sent some of its messages."""

    must_look: bool


class Granted(msgspec.Struct, frozen=True, tag=True):
    """``count`` messages may be put on the wire within ``ttl_s``, counted from just before the question was asked."""

    count: int
    ttl_s: float


class Wait(msgspec.Struct, frozen=True, tag=True):
    """The task must ask again after this time."""

    seconds: float


class Denied(msgspec.Struct, frozen=True, tag=True):
    """The task must stop sending; ``reason`` is for the log."""

    reason: str


@dataclass(slots=True)
class _Task:
    attempt: int
    must_look: bool
    enter_at: float
    valid_until: float | None = None


class _Bucket:
    """A token bucket that may go into debt by one grant, so that a large message is delayed but never starved."""

    def __init__(self, per_second: float | None, now: float):
        self._now = now
        self._balance = 0.0
        self.per_second = per_second

    def change(self, per_second: float | None) -> None:
        """Sets the rate. A debt made at a higher rate is limited to one grant at the new rate, so that it does not
        become a long pause."""
        self.per_second = per_second
        if per_second:
            self._balance = max(self._balance, -max(1.0, per_second * GRANT_SHARE_OF_SECOND))

    def wait_s(self, now: float) -> float:
        """Seconds until something may be taken, 0 if at once. A rate of 0 is a pause."""
        if self.per_second is None:
            return 0.0
        if self.per_second <= 0:
            self._now = now
            return PAUSE_POLL_S
        self._balance += (now - self._now) * self.per_second
        self._balance = min(self._balance, self.per_second * GRANT_SHARE_OF_SECOND / 2)
        self._now = now
        return 0.0 if self._balance >= 0 else -self._balance / self.per_second

    def take(self, amount: float) -> None:
        if self.per_second is not None:
            self._balance -= amount


class PermitBook:
    """The permits of one driver. Not thread-safe: the service holds a lock around each call.

    ``rate`` and ``byte_rate`` are per second for all tasks together; None is no limit, 0 a pause.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        settle_s: float,
        ttl_s: float = PERMIT_TTL_S,
        rate: float | None = None,
        byte_rate: float | None = None,
    ):
        self._clock = clock
        self._settle_s = settle_s
        self._ttl_s = ttl_s
        self._started = clock()
        self._messages = _Bucket(rate, self._started)
        self._bytes = _Bucket(byte_rate, self._started)
        self._wave: int | None = None
        self._recovering = False
        self._tasks: dict[int, _Task] = {}
        self.granted_count = 0

    def open_wave(self, wave: int, *, recovering: bool) -> None:
        """Serves only tasks of ``wave`` from now on. ``recovering``: an earlier driver worked on the wave."""
        self._wave, self._recovering, self._tasks = wave, recovering, {}

    def close_wave(self) -> None:
        self._wave, self._tasks = None, {}

    def set_rate(self, rate: float | None) -> None:
        self._messages.change(rate)

    def enter(self, wave: int, partition: int, attempt: int) -> Entered | Wait | Denied:
        """Every attempt calls it first, and again after a ``Wait`` or a broken connection."""
        if wave != self._wave:
            return Denied(f"wave {wave} is not being sent")
        now = self._clock()
        task = self._tasks.get(partition)
        if task is None:
            # The permits of the earlier driver end at the latest this long after our start.
            enter_at = self._started + self._ttl_s + self._settle_s if self._recovering else now
            task = self._tasks[partition] = _Task(attempt, self._recovering, enter_at)
        elif attempt < task.attempt:
            return Denied(f"attempt {attempt} was overtaken by {task.attempt}")
        elif attempt > task.attempt:
            task.attempt = attempt
            if task.valid_until is not None:
                task.must_look = True
                task.enter_at = max(task.enter_at, task.valid_until + self._settle_s)
        if now < task.enter_at:
            return Wait(min(task.enter_at - now, WAIT_S_MAX))
        return Entered(task.must_look)

    def ask(self, wave: int, partition: int, attempt: int, count: int, size_bytes: int) -> Granted | Wait | Denied:
        """A permit for up to ``count`` messages of ``size_bytes`` in total; it may be for fewer."""
        if wave != self._wave:
            return Denied(f"wave {wave} is not being sent")
        task = self._tasks.get(partition)
        if task is None or attempt > task.attempt:
            return Denied("asked before entering")
        if attempt < task.attempt:
            return Denied(f"attempt {attempt} was overtaken by {task.attempt}")
        now = self._clock()
        if now < task.enter_at:
            return Wait(min(task.enter_at - now, WAIT_S_MAX))
        wait_s = max(self._messages.wait_s(now), self._bytes.wait_s(now))
        if wait_s > 0:
            return Wait(min(wait_s, WAIT_S_MAX))
        allowed = count
        if self._messages.per_second is not None:
            allowed = min(count, max(1, int(self._messages.per_second * GRANT_SHARE_OF_SECOND)))
        self._messages.take(allowed)
        self._bytes.take(size_bytes * allowed / max(count, 1))
        task.valid_until = now + self._ttl_s
        self.granted_count += allowed
        return Granted(allowed, self._ttl_s)

    def extend(self, wave: int, partition: int, attempt: int) -> Granted | Denied:
        """More time for a message granted before, whose bytes take longer to send than a permit lasts. The rate has
        counted it already."""
        task = self._tasks.get(partition) if wave == self._wave else None
        if task is None or attempt != task.attempt or task.valid_until is None:
            return Denied(f"attempt {attempt} of wave {wave} holds no permit")
        task.valid_until = self._clock() + self._ttl_s
        return Granted(0, self._ttl_s)
