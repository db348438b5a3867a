"""A copy of another broker's log: its bytes are stored as they come, and the followers take them in like the store's
own rounds. The bytes are written first and dispatched later, a portion at a time, so the sender waits only for the
log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from rmqproto.errors import ProtocolError, StorageError
from rmqproto.names import SCHEDULE_TOPIC
from rmqserver.core import IS_NATIVE, plain_records
from rmqserver.store.append.appender import Appender
from rmqserver.store.append.confirmation import OFFSET_MAX, Confirmation
from rmqserver.store.append.copied_blocks import BLOCK_BYTES, CopiedBlocks
from rmqserver.store.fate import INDEXED, QUEUED, fates
from rmqserver.store.followers import Follower
from rmqserver.store.index.index_file import entries_of
from rmqserver.store.log.commit_log import CommitLog
from rmqserver.store.log.scan import read_records, records_untrusted
from rmqserver.store.queues.consume_queues import ConsumeQueues
from rmqserver.store.queues.feed import QueueFeed
from rmqserver.store.queues.round import Mark, Round

PORTION_BYTES = 512 << 10
"""Log bytes dispatched at a time: half a millisecond."""

KEPT_BYTES = 256 << 20
"""How much of the end of a master's past goes through the page cache, like all that comes after it."""

UNUSUAL_MAX = 32 if IS_NATIVE else None
"""Records that are not plain taken at a time before the next is looked at again."""

_ANY_FATES = fates("")
_log = logging.getLogger(__name__)


class LogCopy:
    """For an open store to which nobody appends messages. ``end_offset`` is where the next bytes go; readers see
    records that are whole and dispatched. A crash or a close may leave records undispatched; the next start finds them.
    ``begin_at`` sets the start of an empty log. ``readers`` get the records that have their marks."""

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        appender: Appender,
        queue_feed: QueueFeed,
        confirmation: Confirmation,
        begin_at: Callable[[int], None],
        readers: Iterable[Follower] = (),
        *,
        index_enabled: bool,
        background: bool = True,
    ):
        """Without ``background`` there is no thread, and ``append`` does its work."""
        self._log = log
        self._queues = queues
        self._appender = appender
        self._queue_feed = queue_feed
        self._confirmation = confirmation
        self._begin_at = begin_at
        self._readers = tuple(readers)
        self._marks = tuple(each.mark for each in (queue_feed, *self._readers) if each.mark is not None)
        self._indexed = INDEXED if index_enabled else 0
        self._visible_max = OFFSET_MAX
        self._old_max = 0
        """Log offset up to which the log is old."""
        self._blocks: CopiedBlocks | None = None
        """While old log comes."""
        self._background = background
        self._dispatched_offset = appender.end_offset
        """Where the next record starts; it may be incomplete."""
        self._damaged_offset = -1

    @property
    def end_offset(self) -> int:
        return self._appender.end_offset

    @property
    def next_offset(self) -> int:
        """Where the bytes belong that come next: behind ``end_offset`` while a block is not full, or not written."""
        return self._appender.end_offset if self._blocks is None else self._blocks.end_offset

    @property
    def behind_bytes(self) -> int:
        """Bytes that have come, may be shown, and are not dispatched: part of a record, or more."""
        return max(min(self.end_offset, self._visible_max) - self._dispatched_offset, 0)

    def master_ends_at(self, log_offset: int) -> None:
        """Called when the copy begins or goes on: what the master had long before then is old, and is not kept in
        memory (``copied_blocks.py``)."""
        self.settle()
        is_in_blocks = self._log.file_size_bytes % BLOCK_BYTES == 0  # then no block passes the end of a file
        self._old_max = max(log_offset - KEPT_BYTES, 0) // BLOCK_BYTES * BLOCK_BYTES if is_in_blocks else 0

    def append(self, log_offset: int, data: bytes | memoryview) -> None:
        """Takes the bytes that belong at ``log_offset``; ``dispatch_some`` shows them. Old log may wait for the rest of
        its block; ``settle`` does not. An empty store may begin at the start of any file. ProtocolError, with nothing
        changed, if the bytes do not start at ``next_offset``, or pass the end of a file. StorageError if they or what
        waited cannot be written: then nothing behind ``end_offset`` is kept. Unless only room was missing, the store
        then refuses everything until it is opened again."""
        self._check(log_offset, len(data))
        if self._is_empty:
            self._begin_at(log_offset)
            self._dispatched_offset = log_offset
        if log_offset >= self._old_max:
            self._appender.copy(log_offset, data)
            return
        rest = memoryview(data)
        while rest and log_offset < self._old_max:
            part = rest[: BLOCK_BYTES - log_offset % BLOCK_BYTES]
            self._append_old(log_offset, part)
            log_offset, rest = log_offset + len(part), rest[len(part) :]
        if rest:
            self._appender.copy(log_offset, rest)

    def _append_old(self, log_offset: int, part: memoryview) -> None:
        """Takes old log up to the border of a block at most."""
        is_border = log_offset % BLOCK_BYTES == 0
        if self._blocks is None and is_border:
            self._blocks = CopiedBlocks(log_offset, background=self._background)
        if self._blocks is None:  # the copy goes on within a block
            self._appender.copy(log_offset, part)
            return
        with self._block_writes(self._blocks) as blocks:
            if is_border:
                self._note_written(blocks, blocks.oldest_offset)
                # Before the memory is used again, or it would be read from the device.
                with suppress(OSError, StorageError):  # the next call tries again
                    while self._dispatched_offset < blocks.oldest_offset and self.dispatch_some():
                        pass
            blocks.put(part)
            start = blocks.end_offset - BLOCK_BYTES
            if blocks.is_full:
                if start % self._log.file_size_bytes == 0:
                    self._note_written(blocks, start)
                blocks.write(*self._appender.place_for_copy(start))
                self._note_written(blocks, 0)
        if blocks.end_offset == self._old_max:
            self.settle()

    def settle(self) -> None:
        """Everything that has come is written at return. Called when nothing more comes for now. StorageError as from
        ``append``."""
        if self._blocks is not None:
            with self._block_writes(self._blocks) as blocks:
                rest = blocks.rest()
                self._note_written(blocks, blocks.end_offset - len(rest))
                if rest:
                    self._appender.copy(self.end_offset, rest)
            self._drop(blocks)

    @contextmanager
    def _block_writes(self, blocks: CopiedBlocks) -> Iterator[CopiedBlocks]:
        try:
            yield blocks
        except (OSError, StorageError) as error:
            self._drop(blocks)
            if isinstance(error, StorageError):
                raise
            raise self._appender.copy_failed(self.end_offset, error) from None

    def _drop(self, blocks: CopiedBlocks) -> None:
        self._blocks = None
        blocks.finish()

    def _note_written(self, blocks: CopiedBlocks, until: int) -> None:
        try:
            blocks.note_written(until)
        finally:
            if blocks.written_offset > self.end_offset:
                self._appender.copied_uncached(blocks.written_offset)

    def _read(self, log_offset: int, size_bytes: int) -> bytes | memoryview:
        if self._blocks is not None:
            room = self._log.file_size_bytes - log_offset % self._log.file_size_bytes
            if (found := self._blocks.read(log_offset, min(size_bytes, room))) is not None:
                return found
        return self._log.segments.read(log_offset, size_bytes)

    def show_until(self, log_offset: int) -> None:
        """Nothing behind ``log_offset`` is dispatched until the next call. What readers see already stays visible."""
        self._visible_max = log_offset

    def dispatch_some(self) -> bool:
        """Dispatches the next portion; readers see it once it is confirmed. False if there is no whole record to show.
        StorageError if a queue cannot be opened: the next call tries again."""
        end = min(self.end_offset, self._visible_max)
        start = max(self._dispatched_offset, self._log.min_offset)  # retention may have gone ahead
        if start >= end:
            return False
        # A record whose properties have come only in part looks whole: the missing part is zeros in the file.
        log_offset, data = read_records(self._log.segments, start, PORTION_BYTES, end, self._read)
        if not data:
            self._dispatched_offset = log_offset
            return False
        plain_end, last, store_ms, runs, entries = plain_records(
            data, log_offset, _ANY_FATES, QUEUED, self._indexed, self._marks, SCHEDULE_TOPIC.encode()
        )
        if last >= 0:
            self._show(plain_end, last, store_ms, self._queue_feed.take_runs(runs), entries)
            return True
        records = records_untrusted(data, log_offset, True, UNUSUAL_MAX)
        if not records:
            self._note_damage(log_offset, data, end)
            return False
        marks, newest = self._queue_feed.take(records), records[-1]
        entries = entries_of(records, self._queues.topics) if self._indexed else b""
        for reader in self._readers:
            reader.replay(records)
        self._show(newest.log_offset + newest.size_bytes, newest.log_offset, newest.store_timestamp_ms, marks, entries)
        return True

    def dispatch_all(self) -> None:
        while self.dispatch_some():
            pass

    def _show(self, end: int, last: int, store_ms: int, marks: list[Mark], entries: bytes) -> None:
        self._dispatched_offset = end
        self._appender.last_store_timestamp_ms = store_ms
        self._confirmation.written(Round(end, last, marks, entries))

    def _note_damage(self, log_offset: int, data: bytes | memoryview, end: int) -> None:
        """Ignores a record of which a part is still to come."""
        size = int.from_bytes(data[:4], "big", signed=True)
        is_part = 0 < size <= self._log.file_size_bytes and log_offset + size > end
        if not is_part and log_offset != self._damaged_offset:
            self._damaged_offset = log_offset
            _log.error(
                "event=copied-record-damaged log_offset=%d reason='readers see nothing from there on'", log_offset
            )

    @property
    def _is_empty(self) -> bool:
        return not self._log.segments.bases and self._blocks is None

    def _check(self, log_offset: int, size: int) -> None:
        segments = self._log.segments
        room = segments.file_size_bytes - log_offset % segments.file_size_bytes
        if size > room:
            raise ProtocolError(f"{size} bytes at log offset {log_offset} pass the end of a file, {room} bytes on")
        if not self._is_empty and log_offset != self.next_offset:
            raise ProtocolError(
                f"bytes at log offset {log_offset} do not go on where the log ends, at {self.next_offset}"
            )
        if self._is_empty and log_offset % segments.file_size_bytes:
            raise ProtocolError(f"an empty log cannot begin at log offset {log_offset}, in the middle of a file")
