"""TLS for clients that a server was not set up for: as Apache's servers, ours take TLS beside plain connections from
the first start, with a certificate for tests. Nothing of TLS is imported before the first hello, and then in a thread:
a server that never sees one pays nothing, and other clients do not wait."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from functools import partial

import trio

from rmqserver.remoting.pump import FirstBytePump, Pump, PumpError
from rmqserver.tls.settings import DoorSettings

log = logging.getLogger(__name__)


class LateDoor:
    """For incoming connections. ``watch`` is a trio task, and hellos wait for it."""

    def __init__(self, settings: DoorSettings):
        self._settings = settings
        self._is_asked = trio.Event()
        self._make_pump: Callable[[], Pump] | None = None
        """None before the first hello was answered."""
        self._waiting: list[Callable[[Pump], None]] = []

    def pump(self) -> Pump:
        def begin_tls(on_pump: Callable[[Pump], None]) -> None:
            if self._make_pump is not None:
                on_pump(self._make_pump())
                return
            self._waiting.append(on_pump)
            self._is_asked.set()

        return FirstBytePump(begin_tls)

    async def watch(self) -> None:
        """Opens the door once a client has said hello. The server does not wait for it when it ends."""
        await self._is_asked.wait()
        try:
            make_pump = await trio.to_thread.run_sync(self._open, abandon_on_cancel=True)
        except Exception as error:  # whatever is wrong with it, plain clients are served
            reason = f"{type(error).__name__}: {error}"
            make_pump = partial(_ClosedPump, reason)
            log.error("event=tls-failed reason=%r", reason)
        else:
            log.info(
                "event=tls-opened mode=%s certificate=self-made reason='a client speaks TLS; for tests, because no "
                "client can verify it: tls.server.certPath and tls.server.keyPath name a certificate of yours'",
                self._settings.mode.value,
            )
        self._make_pump = make_pump
        waiting, self._waiting = self._waiting, []
        for on_pump in waiting:
            on_pump(make_pump())

    def _open(self) -> Callable[[], Pump]:
        from rmqserver.tls.door import TlsDoor  # with cryptography 150 ms

        return TlsDoor(self._settings).tls_pump


class _ClosedPump:
    """For a server that cannot speak TLS."""

    wants_to_write = False
    opens_by_s = math.inf

    def __init__(self, reason: str):
        self._reason = reason

    def received(self, data: memoryview, /) -> bytes:
        raise PumpError("TLS", self._reason)

    def to_send(self, frames: Sequence[bytes], /) -> bytes:
        return b""
