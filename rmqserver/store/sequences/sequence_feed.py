"""Producers' numbers as a follower of the log: where a message that is sent again lies is derived from the records
themselves. So a broker that was killed, a slave that became master and a copied store all know it; the file beside the
log only saves reading the log.

A master adds what it appends (``added``), after it has checked ``is_ready``. A copied log is read as it comes. A store
in which no producer ever used this has no file, and is read only when the first producer does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING
from zlib import crc32

from rmqproto.errors import ProtocolError
from rmqproto.message.properties import PRODUCER_SEQ, find_bytes
from rmqproto.message.special_messages import ProducerSequence, parse_sequence_untrusted
from rmqproto.names import DLQ_PREFIX, RETRY_PREFIX
from rmqserver.store.log.scan import FoundRecord, scan_portions
from rmqserver.store.queues.round import Sync
from rmqserver.store.sequences import sequence_table
from rmqserver.store.sequences.sequence_table import LineKey, Places, Saved, SequencedMessages, SequenceTable

if TYPE_CHECKING:
    from rmqserver.store.disk.checkpoint import Checkpoint
    from rmqserver.store.message_store import MessageStore

READ_BACK_MAX_BYTES = 1 << 30
"""Log bytes, or up to a file more, that are read if no file covers them."""

READ_AT_ONCE_BYTES = 16 << 20
"""Read within one call: ten milliseconds' worth. The saved file may be this far behind while no numbers come."""

_MARK = PRODUCER_SEQ.encode() + b"\x01"

_log = logging.getLogger(__name__)


class SequenceFeed:
    """``on_behind`` is called when a part of the log has to be read, which ``work`` does."""

    show = None
    mark = _MARK
    newest_record_offset = None
    wants_sync = False

    def __init__(self, store: MessageStore):
        self.table = SequenceTable()
        self.on_behind: Callable[[], None] = lambda: None
        self._store = store
        self._path = store.directory.producer_sequences
        self._is_open = False
        self._is_used = False
        """Set once a producer has used numbers: the table then follows the log."""
        self._read_offset: int | None = None
        """The log is still to be read from here to ``_read_end``; None when that is finished."""
        self._read_end = 0
        self._is_changed = False
        self._saved_offset = -1
        """What the file says, or will say once the prepared work has run."""

    # -- at a start

    def knows_behind(self, log_offset: int) -> bool:
        return False

    def replay(self, records: list[FoundRecord]) -> None:
        """Recovery's records are read again from the end of the saved file; those of a copied log are taken in here."""
        if not self._is_open:
            return
        end = records[-1].log_offset + records[-1].size_bytes
        if self._read_offset is not None:
            self._read_end = end
        elif self._is_used:
            self._take(records, end)
        elif any(_MARK in found.properties for found in records):
            self._begin(end)

    def lacks_from(self) -> None:
        return None

    def cut(self, end_offset: int) -> None:
        self._is_open = True

    def recovered(self, start_offset: int, end_offset: int, synced_offset: int, *, was_clean: bool) -> None:
        saved = sequence_table.FILE.read(self._store.disk, self._path)
        if saved is None:
            if self._store.disk.is_file(self._path):
                _log.warning("event=producer-sequences-read-again reason='%s is damaged'", self._path)
                self._begin(end_offset)
            return
        lines: dict[LineKey, SequencedMessages] | None = None
        if self._is_of_this_log(saved, end_offset):
            with suppress(ValueError):
                lines = dict(map(sequence_table.line_of, saved.lines))
        if lines is None:
            _log.warning("event=producer-sequences-read-again reason='the log is another than it was'")
            self._begin(end_offset)
            return
        self.table.lines = lines
        self._is_used = True
        self._saved_offset = saved.log_offset
        self._read(saved.log_offset, end_offset)

    def _is_of_this_log(self, saved: Saved, end_offset: int) -> bool:
        if saved.log_offset > end_offset:
            return False
        if saved.log_offset < self._store.log.min_offset:
            return True  # its records have expired, and so has everything that could contradict it
        record = self._store.log.record(saved.mark_offset)
        return saved.log_offset == 0 or (record is not None and crc32(record) == saved.mark_crc)

    # -- reading the log

    @property
    def is_ready(self) -> bool:
        """Whether everything in the log is known. The first call starts the reading."""
        if not self._is_used:
            self._begin(self._store.written_offset)
        return self._read_offset is None

    def _begin(self, end_offset: int) -> None:
        """Reads the log, or its newest part."""
        self._is_used = True
        self.table.lines.clear()
        segments = self._store.log.segments
        start = max(end_offset - READ_BACK_MAX_BYTES, 0)
        self._read(max(segments.base_of(start), self._store.log.min_offset), end_offset)

    def _read(self, start: int, end: int) -> None:
        self._read_offset, self._read_end = max(start, self._store.log.min_offset), end
        if end - start <= READ_AT_ONCE_BYTES:
            while self.is_behind:
                self.work()
        else:
            self.on_behind()

    @property
    def is_behind(self) -> bool:
        return self._read_offset is not None

    @property
    def is_catching_up(self) -> bool:
        return self._read_offset is not None

    def work(self) -> None:
        """A disk error ends the reading, as if the log started behind it."""
        assert self._read_offset is not None
        start = max(self._read_offset, self._store.log.min_offset)  # retention may have gone ahead
        portion: list[FoundRecord] = []
        try:
            if start < self._read_end:
                portion = next(scan_portions(self._store.log.segments, start, check_crc=False), [])
        except OSError as error:
            _log.error("event=producer-sequences-not-read log_offset=%d reason=%r", start, str(error))
        if not portion:
            self._read_offset = None
            return
        self._take(portion, self._read_end)
        end = portion[-1].log_offset + portion[-1].size_bytes
        self._read_offset = end if end < self._read_end else None

    def _take(self, records: list[FoundRecord], end: int) -> None:
        for found in records:
            if _MARK not in found.properties or found.log_offset >= end:
                continue
            try:
                number = parse_sequence_untrusted(find_bytes(found.properties, _MARK).decode("ascii", "replace"))
            except ProtocolError:
                continue
            if number is not None and not found.topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
                key = LineKey(number.producer_id, found.topic, found.queue_id)
                self._add(key, number, [(found.log_offset, found.queue_offset)], found.store_timestamp_ms)

    # -- while the store is open

    def added(self, key: LineKey, first: ProducerSequence, places: Places) -> None:
        """Messages were appended in this round, whose numbers follow each other from ``first`` on."""
        self._add(key, first, places, self._store.clock_ms())

    def _add(self, key: LineKey, first: ProducerSequence, places: Places, stored_ms: int) -> None:
        self.table.add(key, first, places, stored_ms)
        self._is_changed = True

    def prepare(self) -> Sync:
        """Covers only what is confirmed: the rest may be cut off."""
        store, log_offset = self._store, self._store.confirmed_offset
        is_late = log_offset - self._saved_offset > READ_AT_ONCE_BYTES
        if not self._is_used or self.is_behind or not (self._is_changed or is_late):
            return lambda checkpoint, write_checkpoint: None
        self._is_changed = False
        self._saved_offset = log_offset
        self.table.forget_quiet(store.clock_ms())
        known = ((key, line.before(log_offset)) for key, line in self.table.lines.items())
        lines = [sequence_table.saved_line(key, line) for key, line in known if line is not None]
        mark_offset = store.last_record_offset
        record = store.log.record(mark_offset)
        saved = Saved(log_offset if record else 0, mark_offset, crc32(record or b""), lines if record else [])

        def sync(checkpoint: Checkpoint, write_checkpoint: Callable[[], None]) -> None:
            try:
                sequence_table.FILE.write(store.disk, self._path, saved)
            except OSError as error:  # the older file stays, and is still true; the log is read from there
                _log.error("event=producer-sequences-not-saved path=%s reason=%r", self._path, str(error))

        return sync

    def delete_below(self, log_offset: int) -> Iterator[None]:
        return iter(())
