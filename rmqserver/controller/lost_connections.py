"""Whether a broker is dead whose connection has ended.

It may have been killed: then its machine refuses whoever connects to its port. Or a proxy, a translated address, or a
reset between us ended the connection, and it lives, and acts as the master as long as its lease lasts. So a refusal is
its death, and nothing else: no answer, a frozen one, a proxy that takes connections in its place, and another program
on its port say nothing. Then its next heartbeat, or the end of the heartbeat time-out, says what is so."""

from __future__ import annotations

from collections.abc import Callable

import trio

from rmqserver.remoting.outward import open_stream

AGAIN_AFTER_S = 0.02
"""Who is being killed may still have its port for a moment."""

AGAIN_AFTER_MAX_S = 1.0


class LostConnections:
    """``run`` is a task."""

    def __init__(self) -> None:
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        """Never returns."""
        try:
            async with trio.open_nursery() as self._nursery:
                await trio.sleep_forever()
        finally:
            self._nursery = None

    def look_after(self, where: Callable[[], str | None], on_dead: Callable[[], None]) -> None:
        """Has the broker looked for from now on. ``where``: its address; None as soon as it is known otherwise whether
        it lives. ``on_dead`` is called if nobody is there."""
        if self._nursery is not None:
            self._nursery.start_soon(self._look_after, where, on_dead)

    async def _look_after(self, where: Callable[[], str | None], on_dead: Callable[[], None]) -> None:
        pause_s = AGAIN_AFTER_S
        while (address := where()) is not None:
            if await is_refused(address) and where() == address:
                on_dead()
                return
            await trio.sleep(pause_s)
            pause_s = min(pause_s * 2, AGAIN_AFTER_MAX_S)


async def is_refused(address: str) -> bool:
    """Whether the machine there says that nobody listens. False where it says nothing, or cannot be reached."""
    try:
        stream = await open_stream(address)
    except OSError as error:
        return _is_refusal(error) or (error.__cause__ is not None and _is_refusal(error.__cause__))
    except ValueError:  # it is no address
        return False
    await stream.aclose()
    return False


def _is_refusal(error: BaseException) -> bool:
    """Of all addresses that a name has."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_refusal, error.exceptions))
    return isinstance(error, ConnectionRefusedError)
