"""Answers to sends, held back until the store has done what they promise: in async mode the write that ends the round,
in sync mode the flush that covers it. A send whose write or flush failed is refused, never acknowledged."""

from __future__ import annotations

import logging
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from rmqproto.codes import ResponseCode
from rmqproto.command import decode_frame_untrusted, encode_frame
from rmqproto.errors import StorageError
from rmqserver.broker.send_checks import unavailable_text
from rmqserver.connection import Connection
from rmqserver.store.running_flags import NOT_WRITEABLE

if TYPE_CHECKING:
    from rmqserver.broker.stats import BrokerStats
    from rmqserver.store.message_store import MessageStore

log = logging.getLogger(__name__)

FLUSH_TIMEOUT_S = 5.0
"""Apache's syncFlushTimeout: after it the producer hears FLUSH_DISK_TIMEOUT; the message stays stored."""

Ack = tuple[Connection, bytes]
"""Who gets which frame. Not a class: there is one for every message sent."""


class _Flushing(NamedTuple):
    """A round that was written at ``written_s`` and waits for its flush; ``end_offset`` is its end in the log."""

    end_offset: int
    written_s: float
    acks: list[Ack]


class Acks:
    """What a round has to answer: ``when_written`` and ``when_flushed``, to which handlers append."""

    def __init__(self, store: MessageStore, stats: BrokerStats):
        self.when_written: list[Ack] = []
        self.when_flushed: list[Ack] = []
        self._store = store
        self._stats = stats
        self._flushing: deque[_Flushing] = deque()

    def end_round(self) -> None:
        """Writes what the round appended, and sends what that is enough for."""
        written, flushed = self.when_written, self.when_flushed
        started_s = time.monotonic()
        try:
            self._store.commit()
        except StorageError as error:
            log.error("event=write-failed reason=%r", str(error))
            self._lose(written + flushed, str(error))
        else:
            if written:
                for connection, frame in written:
                    connection.send(frame)
                self._note_time(started_s, len(written))
            if flushed:
                self._flushing.append(_Flushing(self._store.written_offset, started_s, flushed.copy()))
        written.clear()
        flushed.clear()

    def flushed(self) -> None:
        """A flush has ended, well or badly: sends what it covers."""
        flushed_offset = self._store.flushed_offset
        while self._flushing and self._flushing[0].end_offset <= flushed_offset:
            _, written_s, acks = self._flushing.popleft()
            for connection, frame in acks:
                connection.send(frame)
            self._note_time(written_s, len(acks))
        if self._store.flags.bits & NOT_WRITEABLE:
            while self._flushing:
                self._lose(self._flushing.popleft().acks, self._store.unwriteable_reason)

    def expire(self, now_s: float) -> None:
        """Answers FLUSH_DISK_TIMEOUT to those whose flush takes too long."""
        while self._flushing and self._flushing[0].written_s + FLUSH_TIMEOUT_S <= now_s:
            for connection, frame in self._flushing.popleft().acks:
                late = decode_frame_untrusted(frame)
                late.code = ResponseCode.FLUSH_DISK_TIMEOUT
                connection.send(encode_frame(late))

    def _note_time(self, started_s: float, message_count: int) -> None:
        self._stats.put_times.note(int((time.monotonic() - started_s) * 1e6), message_count)

    def _lose(self, acks: list[Ack], reason: str) -> None:
        self._stats.put_failed += len(acks)
        text = unavailable_text(self._store, reason)
        for connection, frame in acks:
            lost = decode_frame_untrusted(frame)
            lost.code, lost.remark, lost.ext = ResponseCode.SERVICE_NOT_AVAILABLE, text, {}
            connection.send(encode_frame(lost))
