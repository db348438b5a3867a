"""The store as the broker sees it: append and commit, flush, visibility, reads, search, retention. One thread - the
broker's loop - calls everything here but ``load``; the threads that flush and that make files ahead belong to the
store, start with ``open`` and end with ``close``."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rmqserver.store.appender import Appender
from rmqserver.store.checkpoint import Checkpoint
from rmqserver.store.commit_log import CommitLog
from rmqserver.store.consume_queue import ConsumeQueue
from rmqserver.store.consume_queues import ConsumeQueues
from rmqserver.store.disk import Disk, OsDisk
from rmqserver.store.options import StoreOptions
from rmqserver.store.results import Arrival, Boundary, GetResult, QueryResult

if TYPE_CHECKING:
    from rmqserver.store.retention import CleanReport


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class MessageStore:
    """A store directory in Apache's layout.

    The writing cycle of one round of the broker's loop: any number of ``append`` and ``append_batch``, then one
    ``commit``. In async mode the records are visible when ``commit`` returns. In sync mode they become visible in the
    ``on_flush_done`` after which ``flushed_offset`` has passed them; call it whenever ``flush_fd`` is readable.
    """

    append: Callable[..., object]
    """append(topic, queue_id, flag, sys_flag, born_timestamp_ms, born_host, store_host, reconsume_times, body,
    properties, prepared_offset=0) -> Appended: see ``Appender.append``."""

    append_batch: Callable[..., object]
    """See ``Appender.append_batch``."""

    on_visible: Callable[[list[Arrival]], None] | None
    """Called, within ``commit`` or ``on_flush_done``, with what became visible: answer held pulls here."""

    def open(self) -> None:
        """Lock, load, recover (``recovery.py``), start the threads, leave the ``abort`` mark. StorageError if another
        process holds the store, or a file in it cannot be used; nothing stays open then."""

    def close(self) -> bool:
        """Flush everything, write the checkpoint, remove the ``abort`` mark, release the lock. False, and the mark
        stays, if a write or a flush failed at any time: the exit status of the process should then not be 0."""

    def commit(self) -> None:
        """End of a round: one write of everything appended. StorageError if it (or an earlier write of this round)
        failed: nothing of the round may be acknowledged, and the store refuses writes from then on."""

    flush_fd: int
    """Readable when ``on_flush_done`` has something to do."""

    def on_flush_done(self) -> None:
        """Takes note of finished flushes, makes records visible (sync), does some of the work put behind."""

    visible_offset: int
    written_offset: int
    flushed_offset: int
    is_writeable: bool
    unwriteable_reason: str

    def dispatch_some(self, message_count_max: int = 256) -> bool:
        """Does a bounded part of the work put behind (consume queue files, index); True if some is left."""

    dispatch_behind_bytes: int

    def get(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int,
        max_bytes: int = 128 << 20,
        accepts_tag: Callable[[int], bool] | None = None,
        *,
        cached_only: bool = False,
    ) -> GetResult:
        """Messages of a queue from ``queue_offset`` on."""

    def load(self, result: GetResult) -> GetResult:
        """Fills ``chunks`` of a ``cached_only`` result. May wait for the device; may run in any thread."""

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue | None: ...

    def min_offset(self, topic: str, queue_id: int) -> int: ...

    def max_offset(self, topic: str, queue_id: int) -> int: ...

    def get_record(self, log_offset: int) -> bytes | None: ...

    def offset_for_time(self, topic: str, queue_id: int, timestamp_ms: int, boundary: Boundary) -> int: ...

    def earliest_store_time(self, topic: str, queue_id: int) -> int: ...

    def query(self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int, kind: str = "K") -> QueryResult: ...

    def delete_topic(self, topic: str) -> None: ...

    def clean_expired(self, now_ms: int) -> CleanReport: ...
