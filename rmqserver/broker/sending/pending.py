"""Puts that wait for what the store has promised: in async mode the write that ends the round, in sync mode the flush
that covers it. A put whose write or flush failed ends badly, and its producer is never told that it is stored."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqproto.codes import ResponseCode
from rmqproto.errors import StorageError
from rmqserver.broker.sending.send_checks import unavailable_text
from rmqserver.store.running_flags import NOT_WRITEABLE

if TYPE_CHECKING:
    from rmqserver.broker.stats.stats import BrokerStats
    from rmqserver.store.message_store import MessageStore

log = logging.getLogger(__name__)


class Outcome(NamedTuple):
    """How a put ended, with the code and the remark of its answer."""

    code: int
    remark: str | None = None

    @property
    def is_lost(self) -> bool:
        """Whether the message is not, or may not be, in the store."""
        return self.code == ResponseCode.SERVICE_NOT_AVAILABLE


STORED = Outcome(ResponseCode.SUCCESS)
FLUSH_TIMED_OUT = Outcome(ResponseCode.FLUSH_DISK_TIMEOUT)

OnDone = Callable[[Outcome], None]

PendingPut = tuple[Any, ...]
"""A function, and what it needs to answer: it is called with the outcome and with this tuple. Not a class: there is one
for every message sent."""


class _Flushing(NamedTuple):
    """A round that was written at ``written_s`` and waits for its flush; ``end_offset`` is its end in the log."""

    end_offset: int
    written_s: float
    puts: list[PendingPut]


class PendingPuts:
    """What a round has to answer: ``when_written`` and ``when_flushed``, to which the hot path appends. Everybody else
    calls ``wait``."""

    def __init__(self, store: MessageStore, stats: BrokerStats):
        self.when_written: list[PendingPut] = []
        self.when_flushed: list[PendingPut] = []
        self._store = store
        self._stats = stats
        self._flushing: deque[_Flushing] = deque()

    def wait(self, on_done: OnDone, *, until_flushed: bool) -> None:
        """Calls ``on_done`` once, when what this round appended so far is written, or flushed, or lost."""
        (self.when_flushed if until_flushed else self.when_written).append((_call, on_done))

    def end_round(self) -> None:
        """Writes what the round appended, and ends the puts for which that is enough."""
        written, flushed = self.when_written, self.when_flushed
        started_s = time.monotonic()
        try:
            self._store.commit()
        except StorageError as error:
            log.error("event=write-failed reason=%r", str(error))
            self._lose(written + flushed, str(error))
        else:
            if written:
                for put in written:  # as _end does it, without the call
                    try:
                        put[0](STORED, put)
                    except Exception:
                        log.exception("event=put-not-answered")
                self._stats.put_times.note(int((time.monotonic() - started_s) * 1e6), len(written))
            if flushed:
                self._flushing.append(_Flushing(self._store.written_offset, started_s, flushed.copy()))
        written.clear()
        flushed.clear()

    def flushed(self) -> None:
        """A flush has ended, well or badly: ends the puts that it covers. The flush thread may be further by now than
        what readers see; a producer that was told of a message must find it, to end its transaction."""
        flushed_offset = min(self._store.flushed_offset, self._store.confirmed_offset)
        while self._flushing and self._flushing[0].end_offset <= flushed_offset:
            _, written_s, puts = self._flushing.popleft()
            _end(puts, STORED)
            self._note_time(written_s, len(puts))
        if self._store.flags.bits & NOT_WRITEABLE:
            while self._flushing:
                self._lose(self._flushing.popleft().puts, self._store.unwriteable_reason)

    def expire(self, now_s: float, timeout_s: float) -> None:
        """Ends those whose flush takes that long: their producers hear FLUSH_DISK_TIMEOUT; the messages stay stored."""
        while self._flushing and self._flushing[0].written_s + timeout_s <= now_s:
            _end(self._flushing.popleft().puts, FLUSH_TIMED_OUT)

    def _note_time(self, started_s: float, message_count: int) -> None:
        self._stats.put_times.note(int((time.monotonic() - started_s) * 1e6), message_count)

    def _lose(self, puts: list[PendingPut], reason: str) -> None:
        self._stats.put_failed += len(puts)
        _end(puts, Outcome(ResponseCode.SERVICE_NOT_AVAILABLE, unavailable_text(self._store, reason)))


def _call(outcome: Outcome, put: PendingPut) -> None:
    put[1](outcome)


def _end(puts: list[PendingPut], outcome: Outcome) -> None:
    for put in puts:
        try:
            put[0](outcome, put)
        except Exception:  # one answer that cannot be given must not keep the others from theirs
            log.exception("event=put-not-answered")
