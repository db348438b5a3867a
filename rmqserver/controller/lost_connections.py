"""Finds out whether a broker whose connection has ended is dead.

It may have been killed: then its machine refuses connections to its port. Or a proxy, a translated address or a reset
has ended the connection, and the broker lives, and acts as the master while its lease lasts. So only a refusal counts
as its death. No answer, a frozen broker, a proxy that takes connections in its place, or another program on its port
prove nothing. In those cases its next heartbeat, or the heartbeat time-out, decides."""

from __future__ import annotations

from collections.abc import Callable

import trio

from rmqserver.remoting.outward import open_stream

AGAIN_AFTER_S = 0.02
"""A broker that is being killed may still have its port for a moment."""

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
        """Starts probing the broker. ``where`` returns its address, or None once it is known in another way whether it
        lives. ``on_dead`` is called if its machine refuses the connection."""
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
    """Whether the machine refuses connections to that address. False if it is silent or cannot be reached."""
    try:
        stream = await open_stream(address)
    except OSError as error:
        return _is_refusal(error) or (error.__cause__ is not None and _is_refusal(error.__cause__))
    await stream.aclose()
    return False


def _is_refusal(error: BaseException) -> bool:
    """Whether this is a refusal, from every address of the name if there are several."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_refusal, error.exceptions))
    return isinstance(error, ConnectionRefusedError)
