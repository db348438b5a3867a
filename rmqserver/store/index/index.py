"""Finds messages by unique key, key and tag (``IndexService``, 5.5.0): which file takes a message's entries, and which
files a query reads. ``index_file.py`` says which entries a message gets, and writes them."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable

from rmqproto.errors import StorageError
from rmqproto.java.java_hash import abs_hash, extend_hash
from rmqserver.core import ENTRY, log_offsets_of
from rmqserver.store.disk.disk import Disk
from rmqserver.store.index.index_file import (
    NAME_DIGITS,
    IndexFile,
    file_size_bytes,
    is_index_name,
)
from rmqserver.store.index.live_file import LiveIndexFile, Snapshot

TIME_MAX = (1 << 63) - 1


class Index:
    """The files of one directory, oldest first. Only the last takes entries; a writer opens it as a
    ``LiveIndexFile``."""

    def __init__(self, directory: str, slot_count: int, unit_count: int, disk: Disk, clock_ms: Callable[[], int]):
        self.directory = directory
        self.files: list[IndexFile] = []
        self.has_new_seal = False
        """Set when a file is full and waits for a snapshot."""
        self._slot_count = slot_count
        self._unit_count = unit_count
        self._disk = disk
        self._clock_ms = clock_ms
        self._sealed: list[LiveIndexFile] = []

    def load(self, *, trusted_until_ms: int | None, read_only: bool) -> None:
        """Opens the existing files. After a crash ``trusted_until_ms`` is the checkpoint's time: younger files may be
        torn and are removed (a reader only skips them); the replay of the log rebuilds them. It rebuilds nothing before
        a file that stays, and a file is written before the next one: so all before one that is old enough are trusted,
        whatever their time. The clock was set back since."""
        loaded = self._opened(read_only=read_only)
        limit_ms = trusted_until_ms if trusted_until_ms is not None else TIME_MAX
        old = [not found.is_empty and found.header.end_timestamp_ms <= limit_ms for found in loaded]
        for number, found in enumerate(loaded):
            # Behind a file with room, an empty one is left from a crash before the full one's header was written.
            is_surplus = (
                found.is_empty
                and bool(self.files)
                and (
                    self.files[-1].is_empty
                    or (trusted_until_ms is not None and self.files[-1].header.next_unit < self._unit_count)
                )
            )
            if not is_surplus and (found.header.end_timestamp_ms <= limit_ms or any(old[number:])):
                if found.is_empty and trusted_until_ms is not None and not read_only:  # it may hold units nevertheless
                    self._disk.unlink(found.path)
                    size = file_size_bytes(self._slot_count, self._unit_count)
                    file = self._disk.open(found.path, create_size_bytes=size)
                    found = IndexFile(file, self._slot_count, self._unit_count)
                if self.files and found.is_empty:
                    found.header.follow(self.files[-1].header)
                self.files.append(found)
            elif not read_only:
                self._disk.unlink(found.path)

    def _opened(self, *, read_only: bool) -> list[IndexFile]:
        """The files, oldest first. StorageError if one has another size."""
        opened: list[IndexFile] = []
        expected = file_size_bytes(self._slot_count, self._unit_count)
        for name in self._disk.listdir(self.directory):
            if not is_index_name(name):
                continue
            path = f"{self.directory}/{name}"
            size = self._disk.file_size(path)
            if not size:  # a crash while it was made: its name reached the device, its size did not
                if not read_only:
                    self._disk.unlink(path)
                continue
            if size != expected:
                hint = "set maxHashSlotNum and maxIndexNum as they were when this store was made"
                raise StorageError(f"{path} is {size} bytes long; an index file should have {expected}", hint=hint)
            opened.append(IndexFile(self._disk.open(path, read_only=read_only), self._slot_count, self._unit_count))
        return opened

    @property
    def end_log_offset(self) -> int:
        """Log offset of the newest message that has entries, 0 if none has."""
        return self.files[-1].header.end_log_offset if self.files else 0

    @property
    def end_timestamp_ms(self) -> int:
        return self.files[-1].header.end_timestamp_ms if self.files else 0

    # -- putting

    def put(self, entries: bytes) -> None:
        """Adds entries in log order. Those of messages up to the newest indexed one are skipped. OSError if a file
        cannot be made or written."""
        live = self._live()
        start = live.header.end_log_offset + (not live.is_empty)
        log_offsets = log_offsets_of(entries)
        if entries and log_offsets[0] <= start:
            skipped = bisect_left(log_offsets, start)
            # A file that Apache wrote may lack entries of its last message; an empty file behind it takes them. Our
            # files hold all entries of a message.
            if live.is_empty and len(self.files) > 1:
                count = bisect_right(log_offsets, start) - skipped
                if self.files[-2].last_message_entry_count() >= count:
                    skipped += count
            entries = entries[ENTRY.size * skipped :]
        done = live.put(entries)
        while done < len(entries):
            entries = entries[done:]
            self._sealed.append(live)
            self.has_new_seal = True
            full, live = live, self._start_file()
            live.header.follow(full.header)
            done = live.put(entries)
        live.write_ahead()

    def _live(self) -> LiveIndexFile:
        if not self.files:
            return self._start_file()
        last = self.files[-1]
        if not isinstance(last, LiveIndexFile):
            live = LiveIndexFile(last.file, self._slot_count, self._unit_count)
            live.header = last.header
            last = self.files[-1] = live
        return last

    def _start_file(self) -> LiveIndexFile:
        """The name is the local time, as in Apache's broker, but always later than any other."""
        self._disk.mkdir(self.directory)
        now_ms = self._clock_ms()
        name = time.strftime("%Y%m%d%H%M%S", time.localtime(now_ms / 1000)) + f"{now_ms % 1000:03d}"
        if self.files and name <= (last := self.files[-1].path.rpartition("/")[2]):
            name = f"{int(last) + 1:0{NAME_DIGITS}d}"
        path = f"{self.directory}/{name}"
        size = file_size_bytes(self._slot_count, self._unit_count)
        live = LiveIndexFile(self._disk.open(path, create_size_bytes=size), self._slot_count, self._unit_count)
        self.files.append(live)
        return live

    def snapshots(self) -> list[Snapshot]:
        """What must be written, in this order, to bring the disk up to date. Lets go of the full files. OSError if
        units cannot be written."""
        changed = [*self._sealed, *self.files[-1:]]
        found = [live.snapshot() for live in changed if isinstance(live, LiveIndexFile)]
        self._sealed.clear()
        self.has_new_seal = False
        return [snapshot for snapshot in found if snapshot is not None]

    # -- looking up

    def query(self, topic: str, key: str, count_max: int, begin_ms: int, end_ms: int) -> list[int]:
        """Log offsets, each once, of messages whose key has the right hash and whose time, in whole seconds, lies in
        the range. ``key`` is ``T#<tag>`` for a tag."""
        wanted = abs_hash(extend_hash(0, f"{topic}#{key}"))
        found: dict[int, None] = {}
        for file in reversed(self.files):
            header = file.header
            if header.next_unit > 1 and header.begin_timestamp_ms <= end_ms and header.end_timestamp_ms >= begin_ms:
                found.update(dict.fromkeys(file.find(wanted, begin_ms, end_ms, count_max - len(found))))
            if header.begin_timestamp_ms < begin_ms or len(found) >= count_max:
                break
        return list(found)

    def drop_from(self, log_offset: int) -> None:
        """Removes files that hold entries of messages at ``log_offset`` or behind."""
        while self.files and self.files[-1].header.end_log_offset >= log_offset:
            self._disk.unlink(self.files.pop().path)

    def delete_below(self, log_offset: int) -> None:
        """Removes files, never the last, whose messages all lie before ``log_offset``."""
        while len(self.files) > 1 and self.files[0].header.end_log_offset < log_offset:
            self._disk.unlink(self.files.pop(0).path)
