"""Why a store refuses messages (``RunningFlags``, 5.5.0): bits as Apache shows them, and a sentence for each."""

from __future__ import annotations

import logging

from rmqproto.errors import StorageError

_log = logging.getLogger(__name__)

NOT_READABLE = 1
NOT_WRITEABLE = 2
CONSUME_QUEUE_ERROR = 4
INDEX_ERROR = 8
DISK_FULL = 16
FENCED = 32
CONSUME_QUEUE_DISK_FULL = 64

_FAILED = NOT_WRITEABLE | CONSUME_QUEUE_ERROR | INDEX_ERROR
_STOPS_WRITING = NOT_WRITEABLE | CONSUME_QUEUE_ERROR | INDEX_ERROR | DISK_FULL | FENCED | CONSUME_QUEUE_DISK_FULL


class RunningFlags:
    """``refuses_writes`` is kept as an attribute: the hot path looks at it for every message."""

    def __init__(self) -> None:
        self.bits = 0
        self.refuses_writes = False
        self._reasons: dict[int, str] = {}
        self._lacking_room = 0
        """Bits that were set because there was no room (``disk.NO_ROOM``)."""

    def set(self, bit: int, reason: str) -> None:
        """Keeps the first reason of a bit: later ones are consequences of it."""
        self.bits |= bit
        if bit not in self._reasons:
            _log.error("event=store-flag-set bit=%d reason=%r", bit, reason)
        self._reasons.setdefault(bit, reason)
        self.refuses_writes = bool(self.bits & _STOPS_WRITING)

    def fail(self, bit: int, error: StorageError) -> None:
        """A write or flush has failed."""
        if error.lacks_room and bit not in self._reasons:
            self._lacking_room |= bit
        self.set(bit, str(error))

    def clear(self, bit: int) -> None:
        self.bits &= ~bit
        self._reasons.pop(bit, None)
        self.refuses_writes = bool(self.bits & _STOPS_WRITING)

    @property
    def has_write_failed(self) -> bool:
        """A write or flush failed: the state of the disk is unknown until the next start has recovered it."""
        return bool(self.bits & _FAILED)

    @property
    def has_only_lacked_room(self) -> bool:
        """A write or flush failed, and only because there was no room (``disk.NO_ROOM``)."""
        return bool(self.bits & _FAILED) and not self.bits & _FAILED & ~self._lacking_room

    @property
    def reason(self) -> str:
        """Why writes are refused; empty if they are not."""
        return "; ".join(text for bit, text in self._reasons.items() if bit & _STOPS_WRITING)
