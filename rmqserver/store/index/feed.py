"""The index as a follower of the log: the messages that it still lacks, in log order. After a start it reads them from
the log, and then takes them from the rounds. So a killed broker serves again without waiting for its index."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from rmqserver.core import ENTRY, IndexItem, log_offsets_of, packed
from rmqserver.store.disk.checkpoint import Checkpoint
from rmqserver.store.disk.disk import Disk, storage_error
from rmqserver.store.index.index import Index
from rmqserver.store.index.index_file import entries_of
from rmqserver.store.log.commit_log import CommitLog
from rmqserver.store.log.scan import FoundRecord, is_record, scan_portions
from rmqserver.store.queues.consume_queues import ConsumeQueues
from rmqserver.store.queues.round import Round, Sync
from rmqserver.store.running_flags import INDEX_ERROR, RunningFlags

ITEM_BYTES = 3 * ENTRY.size
"""Entries of a message, nearly always."""

BACKLOG_MAX_BYTES = 4096 * ITEM_BYTES
"""Entries that may wait for the index. If more wait, a round indexes some of them before
it ends."""

PORTION_BYTES = 384 * ENTRY.size
"""Entries indexed at a time: enough to share the cost of a call, few enough (a fifth of a millisecond) that no answer
is noticeably late."""

READ_AT_ONCE_BYTES = 1 << 20
"""Read from the log within one call: ten milliseconds' worth at most."""

FEW = 16
"""Messages indexed while a client makes its next request; the lists of rounds are joined up to so many, because a call
costs as much as several messages."""


class IndexFeed:
    """Feeds nothing to an index that can no longer be written."""

    def __init__(self, index: Index, log: CommitLog, queues: ConsumeQueues, disk: Disk, flags: RunningFlags):
        self._index = index
        self._log = log
        self._queues = queues
        self._disk = disk
        self._flags = flags
        self._backlog: deque[bytes | list[IndexItem]] = deque()
        self._backlog_bytes = 0
        self._read_offset: int | None = None
        """How far the log has been read; None when that is finished."""

    # -- at a start

    @property
    def newest_record_offset(self) -> None:
        return None

    def knows_behind(self, log_offset: int) -> bool:
        return False

    def replay(self, records: list[FoundRecord]) -> None:
        pass

    def lacks_from(self) -> None:
        return None

    def cut(self, end_offset: int) -> None:
        self._index.drop_from(end_offset)

    def recovered(self, start_offset: int, end_offset: int, synced_offset: int, *, was_clean: bool) -> None:
        """If the last index files are missing, because they were removed or a crash took them, entries are missing from
        before ``start_offset`` on."""
        known = min(max(self._index.end_log_offset, self._log.min_offset), start_offset)
        if known < start_offset and not is_record(self._log.segments, known):
            known = self._log.segments.base_of(known)
        if known < end_offset:
            self._read_offset = known

    # -- while the store is open

    mark = None

    def show(self, round_: Round) -> None:
        entries = round_.index_entries
        if not entries or self._read_offset is not None:
            return  # reading the log will get there
        newest = self._backlog[-1] if self._backlog else None
        if isinstance(entries, list) and isinstance(newest, list) and len(newest) < FEW:
            newest += entries
        else:
            self._backlog.append(entries)
        self._backlog_bytes += _size_of(entries)
        while self._backlog_bytes > BACKLOG_MAX_BYTES:
            self.put_some(PORTION_BYTES)

    @property
    def is_behind(self) -> bool:
        return self._read_offset is not None or bool(self._backlog)

    @property
    def is_catching_up(self) -> bool:
        return self._read_offset is not None and self.behind_bytes > READ_AT_ONCE_BYTES

    def catch_up(self) -> None:
        """Indexes all messages that wait; none if ``is_catching_up``."""
        while self.is_behind and not self.is_catching_up:
            self.put_some(PORTION_BYTES)

    @property
    def behind_bytes(self) -> int:
        """Log bytes between the end of what is visible and the oldest message that the index lacks."""
        if self._read_offset is not None:
            return self._log.confirmed_offset - self._read_offset
        if not self._backlog:
            return 0
        oldest = self._backlog[0]
        return self._log.confirmed_offset - (log_offsets_of(oldest)[0] if isinstance(oldest, bytes) else oldest[0][1])

    def put_few(self) -> None:
        """Indexes a few messages, if that many wait; none while the log is still being read."""
        if self._backlog_bytes >= FEW * ITEM_BYTES:
            self.put_some(FEW * ITEM_BYTES)

    def work(self) -> None:
        self.put_some(PORTION_BYTES)

    def put_some(self, portion_bytes: int) -> None:
        """Indexes a portion of the waiting entries: at most so many bytes, or those of one round."""
        if self._flags.bits & INDEX_ERROR:
            self._read_offset, self._backlog_bytes = None, 0
            self._backlog.clear()
            return
        try:
            self._index.put(self._read_some() if self._read_offset is not None else self._take_some(portion_bytes))
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        path = error.filename or self._index.directory
        self._flags.fail(INDEX_ERROR, storage_error(error, "the index cannot go on:", path))

    def _take_some(self, portion_bytes: int) -> bytes:
        taken: list[bytes] = []
        taken_bytes = 0
        while self._backlog and (not taken or taken_bytes + _size_of(self._backlog[0]) <= portion_bytes):
            entries = self._backlog.popleft()
            taken_bytes += _size_of(entries)
            taken.append(packed(entries))
        self._backlog_bytes -= taken_bytes
        return b"".join(taken)

    def _read_some(self) -> bytes:
        """The next records of the log, which recovery has checked. Messages that are not visible yet come through
        ``show``."""
        assert self._read_offset is not None
        start = max(self._read_offset, self._log.min_offset)  # retention may have gone ahead
        portion = next(scan_portions(self._log.segments, start, check_crc=False), [])
        end = self._log.confirmed_offset
        portion = [found for found in portion if found.log_offset < end]
        if portion:
            start = portion[-1].log_offset + portion[-1].size_bytes
        self._read_offset = start if portion and start < end else None
        return entries_of(portion, self._queues.topics)

    @property
    def wants_sync(self) -> bool:
        return self._index.has_new_seal

    def prepare(self) -> Sync:
        try:
            snapshots = self._index.snapshots()
        except OSError as error:
            self._fail(error)
            snapshots = []

        def sync(checkpoint: Checkpoint, write_checkpoint: Callable[[], None]) -> None:
            for snapshot in snapshots:
                if snapshot.end_timestamp_ms <= checkpoint.index_timestamp_ms:
                    # While a file is being written, the checkpoint must name an older time than the file's, or a crash
                    # would leave a half-written file trusted.
                    checkpoint.index_timestamp_ms = snapshot.end_timestamp_ms - 1
                    write_checkpoint()
                snapshot.write()
            if snapshots:
                self._disk.sync_directory(self._index.directory)
                checkpoint.index_timestamp_ms = snapshots[-1].end_timestamp_ms

        return sync

    def delete_below(self, log_offset: int) -> Iterator[None]:
        self._index.delete_below(log_offset)
        yield


def _size_of(entries: bytes | list[IndexItem]) -> int:
    return len(entries) if isinstance(entries, bytes) else ITEM_BYTES * len(entries)
