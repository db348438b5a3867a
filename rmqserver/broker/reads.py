"""Reads of what may lie outside the page cache. What is in memory is read at once in the loop; threads wait for the
rest, because one slow read in the loop would stop every other client."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import trio

from rmqproto.errors import StorageError
from rmqserver.operation import Guarded
from rmqserver.store.disk.cached_reads import NotCached, Place, cached_only
from rmqserver.store.disk.disk import storage_error
from rmqserver.store.results import GetResult

if TYPE_CHECKING:
    from rmqserver.store.message_store import MessageStore

log = logging.getLogger(__name__)

T = TypeVar("T")

READERS_MAX = 4
"""Threads that wait for the disk."""

READS_WAITING_MAX = 1024
"""Reads that may wait for a thread; with more, the loop reads itself, which slows down the clients that ask."""

OnLoaded = Callable[[Exception | None], None]
"""Called when a read can go on, or with the reason why it cannot."""


class Reads:
    """``is_free``: whether a read that may wait should be left to a thread. ``end_round`` writes and sends what a read
    that went on later has put."""

    def __init__(self, store: MessageStore, end_round: Callable[[], None]):
        self._store = store
        self._end_round = end_round
        self._nursery: trio.Nursery | None = None
        self._readers = trio.CapacityLimiter(READERS_MAX)
        self._waiting = 0
        self.is_free = False

    def start(self, nursery: trio.Nursery) -> None:
        """Makes threads available from now on."""
        self._nursery = nursery
        self.is_free = True

    def end(self) -> None:
        """Ends the use of threads. Reads that waited for one have already been told."""
        self._nursery = None
        self.is_free = False

    def read(self, fn: Callable[[], T], then: Callable[[T], None], guarded: Guarded) -> None:
        """``then`` takes what ``fn`` reads, now or later: when ``fn`` would wait for the device, a thread loads what it
        lacks, and it is called again, ``guarded``. So ``fn`` decides and changes nothing that matters; it may keep what
        it has found so far."""
        if self.is_free:
            self._when_cached(fn, then, guarded, {})
        else:
            then(fn())

    def _when_cached(
        self, fn: Callable[[], T], then: Callable[[T], None], guarded: Guarded, loaded: dict[Place, bytes]
    ) -> None:
        try:
            found = cached_only(fn, loaded)
        except NotCached as error:
            self._start(partial(error.load_into, loaded), partial(self._again, fn, then, guarded, loaded))
        else:
            then(found)

    def make(self, fn: Callable[[], T], then: Callable[[T], None], guarded: Guarded) -> None:
        """``then`` takes what a thread makes by ``fn``, ``guarded``: what takes long, from what does not change
        meanwhile."""
        if not self.is_free:
            then(fn())
            return
        made: list[T] = []

        def go_on(failed: Exception | None) -> None:
            if failed is not None:
                raise failed
            then(made[0])

        self._start(lambda: made.append(fn()), lambda failed: guarded(partial(go_on, failed)))

    def _again(
        self,
        fn: Callable[[], T],
        then: Callable[[T], None],
        guarded: Guarded,
        loaded: dict[Place, bytes],
        failed: Exception | None,
    ) -> None:
        def go_on() -> None:
            if failed is not None:
                raise failed
            self._when_cached(fn, then, guarded, loaded)

        guarded(go_on)
        self._end_round()

    def warm(self, missing: list[Place]) -> None:
        """Has a thread read these places, so that they are in memory for the next who asks."""
        if missing and self.is_free:
            self._start(partial(NotCached(missing).load_into, {}), lambda failed: None)

    def load(self, result: GetResult, on_loaded: OnLoaded) -> None:
        """Has a thread finish a result that is not loaded; ``on_loaded`` is called in the loop's thread."""
        self._start(partial(self._store.load, result), on_loaded)

    def _start(self, work: Callable[[], object], on_loaded: OnLoaded) -> None:
        assert self._nursery is not None
        self._count(1)
        self._nursery.start_soon(self._run, work, on_loaded)

    async def _run(self, work: Callable[[], object], on_loaded: OnLoaded) -> None:
        failed: Exception | None = StorageError("the broker ends")
        try:
            await trio.to_thread.run_sync(work, limiter=self._readers)
            failed = None
        except OSError as error:
            failed = storage_error(error, "cannot read", error.filename or "a file of the store")
        except Exception as error:  # a missing or damaged file is one consumer's trouble, not the broker's
            log.exception("event=read-failed")
            failed = error
        finally:
            self._count(-1)
            try:
                on_loaded(failed)
            except Exception:  # one failing answer must not end the task of all reads
                log.exception("event=read-not-answered")

    def _count(self, change: int) -> None:
        self._waiting += change
        self.is_free = self._nursery is not None and self._waiting < READS_WAITING_MAX


async def read_in_task(fn: Callable[[], T]) -> T:
    """As ``Reads.read``, for a task: what ``fn`` reads, for which a thread loads what is not in memory."""
    loaded: dict[Place, bytes] = {}
    while True:
        try:
            return cached_only(fn, loaded)
        except NotCached as error:
            await trio.to_thread.run_sync(error.load_into, loaded)
