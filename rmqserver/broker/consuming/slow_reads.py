"""Reads of log data outside the page cache. Threads wait for the disk, because one slow read in the loop would stop
every other client."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from rmqproto.errors import StorageError
from rmqserver.store.results import GetResult

if TYPE_CHECKING:
    from rmqserver.store.message_store import MessageStore

log = logging.getLogger(__name__)

READERS_MAX = 4
"""Threads that wait for the disk."""

READS_WAITING_MAX = 1024
"""Reads that may wait for a thread; with more, the loop reads itself, which slows down the clients that ask."""

OnLoaded = Callable[[Exception | None], None]
"""Called when a result is loaded, or with the reason why it cannot be."""


class SlowReads:
    """``is_free``: whether a read that may wait should be left to a thread."""

    def __init__(self, store: MessageStore):
        self._store = store
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

    def load(self, result: GetResult, on_loaded: OnLoaded) -> None:
        """Has a thread finish a result that is not loaded; ``on_loaded`` is called in the loop's thread."""
        assert self._nursery is not None
        self._count(1)
        self._nursery.start_soon(self._load, result, on_loaded)

    async def _load(self, result: GetResult, on_loaded: OnLoaded) -> None:
        failed: Exception | None = StorageError("the broker ends")
        try:
            await trio.to_thread.run_sync(self._store.load, result, limiter=self._readers)
            failed = None
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
