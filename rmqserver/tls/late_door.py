"""TLS for clients that a server was not set up for: as Apache's servers, ours take TLS beside plain connections from
the first start, with a certificate for tests. Nothing of TLS is imported before the first hello, and then in a thread:
a server that never sees one pays nothing, and other clients do not wait."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from rmqproto.errors import RocketMQError
from rmqserver.remoting.pump import FirstBytePump, Pump, PumpError
from rmqserver.tls.settings import DoorSettings

if TYPE_CHECKING:
    from rmqserver.tls.door import TlsDoor

log = logging.getLogger(__name__)


class LateDoor:
    """For incoming connections. All calls come from the loop's thread."""

    def __init__(self, settings: DoorSettings, post: Callable[[Callable[[], None]], None]):
        """``post`` has something called in the loop, from any thread."""
        self._settings = settings
        self._post = post
        self._make_pump: Callable[[], Pump] | None = None
        """None before the first hello was answered."""
        self._waiting: list[Callable[[Pump], None]] = []

    def pump(self) -> Pump:
        return FirstBytePump(self._begin_tls)

    def _begin_tls(self, on_pump: Callable[[Pump], None]) -> None:
        if self._make_pump is not None:
            on_pump(self._make_pump())
            return
        self._waiting.append(on_pump)
        if len(self._waiting) == 1:
            threading.Thread(target=self._make_door, name="certificate for tests", daemon=True).start()

    def _make_door(self) -> None:
        try:
            from rmqserver.tls.door import TlsDoor  # with cryptography 150 ms

            self._post(partial(self._open, TlsDoor(self._settings)))
        except (RocketMQError, ImportError, OSError) as error:
            self._post(partial(self._stay_closed, str(error)))

    def _open(self, door: TlsDoor) -> None:
        log.info(
            "event=tls-opened mode=%s certificate=self-made reason='a client speaks TLS; for tests, because no client "
            "can verify it: tls.server.certPath and tls.server.keyPath name a certificate of yours'",
            self._settings.mode.value,
        )
        self._serve_waiting(door.pump)

    def _stay_closed(self, reason: str) -> None:
        log.error("event=tls-failed reason=%r", reason)
        self._serve_waiting(partial(_ClosedPump, reason))

    def _serve_waiting(self, make_pump: Callable[[], Pump]) -> None:
        self._make_pump = make_pump
        waiting, self._waiting = self._waiting, []
        for on_pump in waiting:
            on_pump(make_pump())


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
