"""Finds what is true after a start: where the log ends, and what its followers lack or know too much
(``CommitLog.recoverNormally``, ``recoverAbnormally``, 5.5.0). The log decides; everything else follows it.

Three deviations from Apache, all on the safe side. After a crash the replay starts early enough for the index, so that
a look-up never misses a message that is there. Everything behind the end of the log, of a queue or of an index file is
zeroed, so that old bytes cannot line up with new ones and come back at the next crash. For the same reason, a record of
ours that lost a part of its properties ends the log: they have no checksum, but zeros in them show the loss.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rmqproto.errors import StorageError
from rmqproto.message.record import StoredMessage
from rmqserver.store.disk.checkpoint import Checkpoint
from rmqserver.store.disk.disk import Disk
from rmqserver.store.disk.segments import SegmentedFile, clear
from rmqserver.store.followers import Followers
from rmqserver.store.log.commit_log import BLANK_SIZE_BYTES, CommitLog
from rmqserver.store.log.scan import FoundRecord, first_record, is_record, scan_portions
from rmqserver.store.queues.consume_queue import FILES_RECOVERED
from rmqserver.store.queues.consume_queues import ConsumeQueues

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recovered:
    """``end_offset`` is where the log continues. Records were read from ``start_offset`` on, the last one at
    ``last_record_offset`` (0: none). The followers' files hold everything of the records up to ``dispatched_offset``.
    ``was_clean``: the store had been closed, not killed. ``is_cut``: records that had been flushed are gone."""

    start_offset: int
    end_offset: int
    dispatched_offset: int
    last_record_offset: int
    last_store_timestamp_ms: int
    replayed_count: int
    was_clean: bool
    is_cut: bool = False

    @property
    def may_lack_messages(self) -> bool:
        """Whether messages may be gone that were there before: offsets may then be ahead of their queues."""
        return self.is_cut or not self.was_clean


class Recovery:
    """One run over a store whose files are loaded. With ``read_only`` it touches no file. ``dispatched_offset`` is how
    far a process that was killed in this run of the operating system had dispatched
    (``StoreDirectory.dispatched_offset``); 0 if the queues are not as it left them. ``is_all_kept``: there was such a
    process, and nothing that it wrote can be missing unless somebody removed it. ``vouch_for_nothing`` is called before
    a follower that lacks older records gets them: until it has them, no mark on the disk may call it whole."""

    def __init__(
        self,
        log: CommitLog,
        followers: Followers,
        checkpoint: Checkpoint,
        dispatched_offset: int = 0,
        *,
        check_crc: bool = True,
        read_only: bool = False,
        is_all_kept: bool = False,
        vouch_for_nothing: Callable[[], None] = lambda: None,
    ):
        self._log = log
        self._followers = followers
        self._checkpoint = checkpoint
        self._check_crc = check_crc
        self._dispatched_offset = dispatched_offset
        self._read_only = read_only
        self._is_all_kept = is_all_kept
        self._vouch_for_nothing = vouch_for_nothing

    @property
    def synced_offset(self) -> int:
        """Up to this log offset, the log and the followers' files are known to be on the device."""
        return self._checkpoint.vouched_offset or self._log.min_offset

    def run(self, *, clean: bool) -> Recovered:
        segments = self._log.segments
        if not segments.bases:
            self._refuse_missing_log(clean=clean)
            for follower in self._followers.all:
                follower.cut(0)
            return Recovered(0, 0, 0, 0, 0, 0, clean)
        start = self._start_clean() if clean else self._start_after_crash()
        end, last, timestamp, count = start, 0, 0, 0
        for portion in self._portions(start, clean=clean):
            for follower in self._followers.all:
                follower.replay(portion)
            newest = portion[-1]
            end = newest.log_offset + newest.size_bytes
            last, timestamp = newest.log_offset, newest.store_timestamp_ms
            count += len(portion)
        self._fill_gaps(start, end)
        if not count:
            self._refuse_damage(start, clean=clean)
            self._refuse_missing_log(clean=clean)
        is_cut = 0 < self._checkpoint.queues_log_offset >= end
        if is_cut:
            _log.error("the log ends at %d, before the record at %d that was flushed: it is damaged, and cut off there",
                       end, self._checkpoint.queues_log_offset)  # fmt: skip
        self._cut(end, clean=clean)
        for follower in self._followers.all:
            follower.recovered(start, end, self.synced_offset, was_clean=clean)
        dispatched_offset = self._dispatched_offset if self._followers.lack_files else last
        return Recovered(start, end, dispatched_offset, last, timestamp, count, clean, is_cut)

    # -- where to start

    def _start_clean(self) -> int:
        """The newest record that the followers know, if the log confirms it: everything before it was flushed and
        dispatched when the store was closed. Otherwise the start of the last file that begins before it."""
        newest = self._followers.newest_record_offset
        if newest >= self._log.min_offset and is_record(self._log.segments, newest):
            return newest
        return self._last_file(lambda first: first.log_offset <= newest)

    def _start_after_crash(self) -> int:
        """The last record that a killed process had dispatched, if the page cache still has all of that. Else the
        record in our own checkpoint: log and followers were flushed up to there. With Apache's checkpoint, as Apache
        does, the start of the last file whose first record is known to be dispatched."""
        checkpoint = self._checkpoint
        newest = self._followers.newest_record_offset
        for start in (self._dispatched_offset, checkpoint.vouched_offset):
            if start and newest >= start >= self._log.min_offset and is_record(self._log.segments, start):
                return start

        def is_known(first: StoredMessage) -> bool:
            if first.log_offset > newest:  # whatever the checkpoint says: a follower's files were removed
                return False
            if checkpoint.queues_log_offset:
                return first.log_offset <= checkpoint.queues_log_offset
            return first.store_timestamp_ms <= checkpoint.queues_timestamp_ms

        return self._last_file(is_known)

    def _last_file(self, is_known: Callable[[StoredMessage], bool]) -> int:
        """Start of the last file whose first record ``is_known`` accepts; of the oldest file if there is none."""
        for base in reversed(self._log.segments.bases):
            first = first_record(self._log.segments, base)
            if first is not None and first.store_timestamp_ms and is_known(first):
                return base
        return self._log.min_offset

    # -- up to where

    def _portions(self, start: int, *, clean: bool) -> Iterator[list[FoundRecord]]:
        """The records from ``start`` to the end of the log."""
        checkpoint = self._checkpoint
        is_own_log = checkpoint.is_ours or checkpoint.is_without_queues or checkpoint.is_blank
        portions = scan_portions(self._log.segments, start, check_crc=self._check_crc)
        if clean and checkpoint.is_ours:
            portions = _without_torn_end(portions, self._followers.newest_record_offset)
        for portion in portions:
            if is_own_log and not clean:  # our appender writes no zeros there: these bytes never reached the device
                torn = next((i for i, found in enumerate(portion) if 0 in found.properties), None)
                if torn is not None:
                    if torn:
                        yield portion[:torn]
                    return
            yield portion

    # -- what was lost

    def _fill_gaps(self, start: int, end: int) -> None:
        """Replays the log once more for followers that lack records from before ``start``, where it was begun."""
        for follower in self._followers.all:
            lacks_from = follower.lacks_from()
            if lacks_from is None:
                continue
            _log.warning("event=log-replayed-again from=%d to=%d reason='files of consume queues are gone'",
                         lacks_from, end)  # fmt: skip
            self._vouch_for_nothing()
            self._dispatched_offset = 0
            for portion in self._intact_portions(lacks_from, start, end):
                follower.replay(portion)

    def _intact_portions(self, first: int, start: int, end: int) -> Iterator[list[FoundRecord]]:
        """The records from ``first`` to ``end``. Damage before ``start``, which a start usually does not see, costs
        the rest of its file."""
        while first < end:
            at = first
            for portion in scan_portions(self._log.segments, first, check_crc=self._check_crc):
                portion = [found for found in portion if found.log_offset < end]
                if not portion:
                    return
                yield portion
                at = portion[-1].log_offset + portion[-1].size_bytes
            if at >= start:
                return
            first = min(start, self._log.segments.base_of(at) + self._log.segments.file_size_bytes)
            _log.error("no readable record at log offset %d: read on at %d", at, first)

    # -- what is too much

    def _refuse_damage(self, start: int, *, clean: bool) -> None:
        """StorageError if no record can be read though the store had some: going on would overwrite them all. A power
        cut before the first flush may leave queue units and empty files; nothing is lost then."""
        segments = self._log.segments
        is_flushed = clean or self._is_all_kept or not self._checkpoint.is_blank
        if any(first_record(segments, base) for base in segments.bases[1:]) or (
            is_flushed and (len(segments.bases) > 1 or self._followers.know_behind(start))
        ):
            raise StorageError(
                f"{segments.path(segments.base_of(start))}: no readable record at log offset {start}, "
                "though the store holds messages behind it",
                hint="copy the store, then move this damaged commit log file away; what the later files hold is kept",
            )

    def _refuse_missing_log(self, *, clean: bool) -> None:
        """StorageError if there is no message though the store had some: going on would remove all traces of them."""
        is_flushed = clean or self._is_all_kept or not self._checkpoint.is_blank
        if is_flushed and self._followers.know_behind(0):
            raise StorageError(
                f"{self._log.segments.directory} holds no message, though consume queues know some: files are missing",
                hint="put them back; to go on without what was in them, move consumequeue/ and index/ away",
            )

    def _cut(self, end: int, *, clean: bool) -> None:
        self._log.written_offset = self._log.confirmed_offset = end
        for follower in self._followers.all:
            follower.cut(end)
        if not self._read_only:
            self._log.segments.delete_after(end)
            if not clean or any(self._log.segments.read(end, BLANK_SIZE_BYTES)):
                clear(self._log.segments, end)


def _without_torn_end(portions: Iterator[list[FoundRecord]], dispatched: int) -> Iterator[list[FoundRecord]]:
    """Drops an incomplete last record: a slave may be stopped when a record has come only in part. If only properties
    are missing, its checksum is right, and the missing bytes are zeros. Its master sends it again from its start.
    Records up to ``dispatched`` were complete, or come from an Apache broker, which takes such a record as complete."""
    held: list[FoundRecord] = []
    for portion in portions:
        if held:
            yield held
        held = portion
    if held and held[-1].log_offset > dispatched and held[-1].properties.endswith(b"\0"):
        del held[-1]
    if held:
        yield held


_CHUNK_BYTES = 4 << 20


class FailedFlush:
    """After a failed flush the kernel takes the pages for clean: they can still be read, but no later flush brings them
    to the device. So the store leaves a mark, and the next start that reads those pages writes them again before it
    trusts them. The mark need not survive a power cut: the pages do not either."""

    def __init__(self, path: str, disk: Disk):
        self._path = path
        self._disk = disk

    def mark(self, flushed_offset: int) -> None:
        """Leaves the mark: the log is on the device up to ``flushed_offset``. Any thread. There is no mark if the disk
        refuses it."""
        with contextlib.suppress(OSError):
            self._disk.open(self._path, create_size_bytes=0).pwrite(b"%020d" % flushed_offset, 0)

    def flushed_offset(self) -> int | None:
        """The log offset in the mark; None if there is no mark. OSError."""
        if not self._disk.is_file(self._path):
            return None
        text = self._disk.read_bytes(self._path)
        return int(text) if text.isdigit() else 0

    def write_anew(self, log: SegmentedFile, start: int, end: int, queues: ConsumeQueues) -> None:
        """Writes the log from ``start`` to ``end``, and the newest files of all queues, again: they are on the device
        at return, and the mark is gone. After an OSError, never call it again in this process."""
        while start < end:
            start += _write_again(log, start, end)
        for queue in queues.all():
            for base in queue.segments.bases[-FILES_RECOVERED:]:
                at, stop = base, base + queue.segments.file_size_bytes
                while at < stop:
                    at += _write_again(queue.segments, at, stop)
        self._disk.unlink(self._path)


def _write_again(segments: SegmentedFile, start: int, end: int) -> int:
    """Writes the bytes from ``start`` on, at most up to ``end``, a chunk, or the end of the file; returns how many."""
    base = segments.base_of(start)
    file = segments.file(base)
    size = min(end - start, base + segments.file_size_bytes - start, _CHUNK_BYTES)
    file.pwrite(file.pread(size, start - base), start - base)
    file.fdatasync()
    return size
