"""The application's part of a push consumer: the function that consumes messages, and its possible results."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

import anyio
import anyio.to_thread

from rmqclient.message import ReceivedMessage

NEVER_AGAIN = -1
"""Delay level that sends a message to the dead-letter queue at once."""


@dataclass(frozen=True, slots=True)
class ConsumeStatus:
    """Whether a message was consumed, and if not, when it comes again.

    ``delay_level`` is for consumers in no order: 0 begins with 10 s and waits longer each time. For consumers in order,
    ``suspend_s`` is how long the queue rests (None is a second). For consumers that pop, it is the time until the
    message comes again.
    """

    is_success: bool
    delay_level: int = 0
    suspend_s: float | None = None


SUCCESS = ConsumeStatus(True)
LATER = ConsumeStatus(False)


def later(delay_level: int) -> ConsumeStatus:
    """Consume the message again after the time of ``delay_level``, or never with NEVER_AGAIN."""
    return ConsumeStatus(False, delay_level)


def suspend(suspend_s: float) -> ConsumeStatus:
    """For a consumer in order: consume the message again after ``suspend_s`` seconds (0.01 to 30), while the queue
    rests. For one that pops: consume it again after any time; brokers from 5.5 on do not count that as a failure."""
    return ConsumeStatus(False, suspend_s=suspend_s)


Listener = (
    Callable[[ReceivedMessage], Awaitable[ConsumeStatus | None]] | Callable[[ReceivedMessage], ConsumeStatus | None]
)
"""Consumes one message. A plain function runs in a thread, and may block. Returning nothing means SUCCESS, raising
means LATER."""

BatchListener = (
    Callable[[list[ReceivedMessage]], Awaitable[ConsumeStatus | None]]
    | Callable[[list[ReceivedMessage]], ConsumeStatus | None]
)
"""The same for several messages of one queue, whose status is for all of them."""

AsyncListener = Callable[[Any], Awaitable[ConsumeStatus | None]]
"""Of a message, or of several."""


def as_async(listener: Listener | BatchListener, threads: anyio.CapacityLimiter) -> AsyncListener:
    """The listener itself, or a plain function wrapped to run in as many threads as ``threads`` allows. A thread cannot
    be cancelled: when its time is up it is abandoned, but it counts until it returns."""
    target = getattr(listener, "__call__", listener)  # noqa: B004 - an object's own method is what is looked at
    if inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(target):
        return cast(AsyncListener, listener)
    plain = cast(Callable[[Any], ConsumeStatus | None], listener)

    async def in_thread(consumed: Any) -> ConsumeStatus | None:
        result = await called_in_thread(plain, consumed, abandon_on_cancel=True, limiter=threads)
        return cast("ConsumeStatus | None", result)

    return in_thread


async def called_in_thread(plain: Callable[[Any], Any], argument: Any, **how: Any) -> Any:
    """The result of a plain function of the application, called in a thread; awaited if it is an awaitable after all,
    as that of a decorated async function. ``sys.exit`` is a failure like any other: it would end only a thread."""

    def call() -> Any:
        try:
            return plain(argument)
        except SystemExit as error:
            raise RuntimeError("sys.exit was called, which ends no program from here") from error

    result = await anyio.to_thread.run_sync(call, **how)
    return await result if inspect.isawaitable(result) else result
