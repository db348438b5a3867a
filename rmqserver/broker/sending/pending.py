"""Puts that wait for what was promised: in async mode for the write that ends the round, in sync mode for the flush
that covers it, and on a SYNC_MASTER for the slaves that are to have it. If a write or flush fails, its puts fail, and
their producers are never told that the messages are stored."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rmqproto.codes import ResponseCode
from rmqproto.errors import StorageError
from rmqserver.broker.sending.targets import unavailable_text
from rmqserver.store.options import FlushMode
from rmqserver.store.running_flags import NOT_WRITEABLE

if TYPE_CHECKING:
    from rmqserver.broker.stats import BrokerStats
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
COPY_TIMED_OUT = Outcome(ResponseCode.FLUSH_SLAVE_TIMEOUT)

OnDone = Callable[[Outcome], None]

PendingPut = tuple[Any, ...]
"""A function, and what it needs to answer: it is called with the outcome and with this tuple. It is not a class,
because there is one for every message sent."""


class _Unsafe(NamedTuple):
    """A round that was written at ``written_s`` and waits for its flush, or for slaves; ``end_offset`` is its end in
    the log."""

    end_offset: int
    written_s: float
    puts: list[PendingPut]


class Copies(Protocol):
    """What puts ask of the slaves."""

    @property
    def copies_needed(self) -> int:
        """How many brokers, this one among them, must have a message before it is safe."""
        ...

    @property
    def copied_offset(self) -> int:
        """Log offset up to which so many have the log written."""
        ...

    def lack(self, log_offset: int) -> bool:
        """Whether too few brokers have the log up to there."""
        ...


class PendingPuts:
    """The puts that a round has to answer: ``when_written`` and ``when_safe``, to which the hot path appends. All other
    code calls ``wait``. A put is safe when it is flushed, if that was promised, and copied to as many slaves as
    promised."""

    def __init__(self, store: MessageStore, stats: BrokerStats, replicas: Copies):
        self.when_written: list[PendingPut] = []
        self.when_safe: list[PendingPut] = []
        self._store = store
        self._stats = stats
        self._replicas = replicas
        self._waits_for_flush = store.options.flush_mode is FlushMode.SYNC
        self._unsafe: deque[_Unsafe] = deque()
        self._collect: Callable[[], None] | None = None
        self._answer_puts: Callable[[Outcome, PendingPut], None] | None = None

    def collect_from(self, collect: Callable[[], None], answer_puts: Callable[[Outcome, PendingPut], None]) -> None:
        """``collect`` is called at the end of each round, to append puts that are kept elsewhere: many of them as one,
        of ``answer_puts`` and an object that has their ``count``."""
        self._collect, self._answer_puts = collect, answer_puts

    def wait(self, on_done: OnDone, *, until_safe: bool) -> None:
        """Calls ``on_done`` once, when what this round appended so far is written, or safe, or lost."""
        (self.when_safe if until_safe else self.when_written).append((_call, on_done))

    @property
    def knows_safe(self) -> bool:
        """Whether safe means more than written."""
        return self._waits_for_flush or self._replicas.copies_needed > 1

    def is_safe(self, log_offset: int) -> bool:
        """Whether the record that begins there is safe."""
        return log_offset < min(self._flushed_offset, self._replicas.copied_offset)

    def has_settled(self, log_offset: int) -> bool:
        """Whether no put waits whose round ends there or before."""
        return not self._unsafe or self._unsafe[0].end_offset > log_offset

    def end_round(self) -> None:
        """Writes what the round appended, and ends the puts for which that is enough."""
        if self._collect is not None:
            self._collect()
        written, unsafe = self.when_written, self.when_safe
        started_s = time.monotonic()
        try:
            self._store.commit()
        except StorageError as error:
            log.error("event=write-failed reason=%r", str(error))
            self._lose(written + unsafe, str(error))
        else:
            if written:
                for put in written:  # as _end does it, without the call
                    try:
                        put[0](STORED, put)
                    except Exception:  # one failing answer must not keep the others from theirs
                        log.exception("event=put-not-answered")
                self._stats.put_times.note(int((time.monotonic() - started_s) * 1e6), self._count(written))
            if unsafe:
                self._unsafe.append(_Unsafe(self._store.written_offset, started_s, unsafe.copy()))
        written.clear()
        unsafe.clear()

    def settle(self) -> None:
        """Ends the puts that are safe now. To be called when a flush has ended, well or badly, or a slave has
        reported."""
        if self._unsafe:
            safe_offset = min(self._flushed_offset, self._replicas.copied_offset)
            while self._unsafe and self._unsafe[0].end_offset <= safe_offset:
                _, written_s, puts = self._unsafe.popleft()
                _end(puts, STORED)
                self._stats.put_times.note(int((time.monotonic() - written_s) * 1e6), self._count(puts))
        if self._store.flags.bits & NOT_WRITEABLE:
            while self._unsafe:
                self._lose(self._unsafe.popleft().puts, self._store.flags.reason)

    def give_up(self, reason: str) -> None:
        """Ends the puts that are left: nobody knows whether their messages stay."""
        while self._unsafe:
            self._lose(self._unsafe.popleft().puts, reason)

    @property
    def _flushed_offset(self) -> int:
        """Never ahead of what readers see, though the flush thread may be: a producer that was told of a message must
        find it, to end its transaction."""
        confirmed_offset = self._store.confirmed_offset
        return min(self._store.flushed_offset, confirmed_offset) if self._waits_for_flush else confirmed_offset

    def expire(self, now_s: float, flush_timeout_s: float, copy_timeout_s: float) -> None:
        """Ends puts whose flush, or whose slaves, take that long. Their producers get FLUSH_DISK_TIMEOUT or
        FLUSH_SLAVE_TIMEOUT, the latter if both are late; the messages stay stored."""
        while self._unsafe:
            end_offset, written_s, puts = self._unsafe[0]
            is_late_copy = written_s + copy_timeout_s <= now_s and self._replicas.lack(end_offset)
            is_late_flush = written_s + flush_timeout_s <= now_s and self._flushed_offset < end_offset
            if not is_late_copy and not is_late_flush:
                return
            self._unsafe.popleft()
            _end(puts, COPY_TIMED_OUT if is_late_copy else FLUSH_TIMED_OUT)

    def _count(self, puts: list[PendingPut]) -> int:
        many = self._answer_puts
        return len(puts) if many is None else sum(put[1].count if put[0] is many else 1 for put in puts)

    def _lose(self, puts: list[PendingPut], reason: str) -> None:
        self._stats.put_failed += self._count(puts)
        _end(puts, Outcome(ResponseCode.SERVICE_NOT_AVAILABLE, unavailable_text(self._store, reason)))


def _call(outcome: Outcome, put: PendingPut) -> None:
    put[1](outcome)


def _end(puts: list[PendingPut], outcome: Outcome) -> None:
    for put in puts:
        try:
            put[0](outcome, put)
        except Exception:  # one failing answer must not keep the others from theirs
            log.exception("event=put-not-answered")
