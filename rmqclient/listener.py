"""What an application gives a push consumer: the function that consumes a message, and what it may answer."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import cast

import trio

from rmqclient.message import ReceivedMessage

NEVER_AGAIN = -1
"""Delay level that sends a message to the dead-letter queue at once."""


@dataclass(frozen=True, slots=True)
class ConsumeStatus:
    """Whether a message was consumed, and if not, when it comes again.

    ``delay_level`` is for consumers in no order: 0 begins with 10 s and waits longer each time. ``suspend_s`` is for
    consumers in order, how long the queue rests (None is a second), and for those that pop, after how long the message
    comes again.
    """

    is_success: bool
    delay_level: int = 0
    suspend_s: float | None = None


SUCCESS = ConsumeStatus(True)
LATER = ConsumeStatus(False)


def later(delay_level: int) -> ConsumeStatus:
    """Consume it again after the time of ``delay_level``, or with NEVER_AGAIN not at all."""
    return ConsumeStatus(False, delay_level)


def suspend(suspend_s: float) -> ConsumeStatus:
    """In order: consume it again after ``suspend_s`` seconds (0.01 to 30), with the queue at rest so long. By POP:
    after any time, and that is not counted as a failure (by brokers from 5.5 on)."""
    return ConsumeStatus(False, suspend_s=suspend_s)


Listener = (
    Callable[[ReceivedMessage], Awaitable[ConsumeStatus | None]] | Callable[[ReceivedMessage], ConsumeStatus | None]
)
"""Consumes one message. A plain function runs in a thread, and may block. To return nothing is SUCCESS, to raise is
LATER."""

AsyncListener = Callable[[ReceivedMessage], Awaitable[ConsumeStatus | None]]


def as_async(listener: Listener, thread_count: int) -> AsyncListener:
    """The listener itself, or a plain one behind ``thread_count`` threads. A thread cannot be cancelled: when its time
    is up it is left behind, and keeps its place until it returns."""
    target = getattr(listener, "__call__", listener)  # noqa: B004 - an object's own method is what is looked at
    if inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(target):
        return cast(AsyncListener, listener)
    plain = cast(Callable[[ReceivedMessage], ConsumeStatus | None], listener)
    limiter = trio.CapacityLimiter(thread_count)

    async def in_thread(message: ReceivedMessage) -> ConsumeStatus | None:
        return await trio.to_thread.run_sync(plain, message, abandon_on_cancel=True, limiter=limiter)

    return in_thread
