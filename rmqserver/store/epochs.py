"""Which part of a log was written under which master, and where two logs diverge (``EpochFileCache``, 5.5.0)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from zlib import crc32

from rmqproto.errors import ProtocolError, StorageError
from rmqserver.store.disk.disk import Disk, make_directory, storage_error
from rmqserver.store.disk.whole_files import BACKUP, replace_with_backup

ENTRIES_MAX = 1000
"""As many as an Apache master can send."""

_UNCHECKED = 0


class Epoch(NamedTuple):
    """The part of the log written under one master: from the log offset ``start_offset`` to where the next epoch
    begins."""

    epoch: int
    start_offset: int


class EpochList:
    """Epochs and their log offsets ascend; epochs may be missing in between. The last one lasts to the log's end."""

    def __init__(self, entries: Iterable[Epoch] = ()):
        """ProtocolError if the entries do not ascend."""
        self.entries: list[Epoch] = []
        for entry in entries:
            if self.entries and not (
                entry.epoch > self.entries[-1].epoch and entry.start_offset > self.entries[-1].start_offset
            ):
                raise ProtocolError(f"epoch {entry.epoch} at log offset {entry.start_offset} is out of its order")
            self.entries.append(Epoch(*entry))

    @property
    def last_epoch(self) -> int:
        """The newest epoch; -1 if there is none."""
        return self.entries[-1].epoch if self.entries else -1

    def begin(self, epoch: int, start_offset: int) -> None:
        """Starts an epoch at ``start_offset``. It replaces one in which nothing was written; Apache keeps that one, so
        two logs that diverge there then look alike. ProtocolError, with nothing changed, if the same or a later epoch
        has begun, or one behind that offset."""
        entries = self.entries
        if entries and (epoch <= entries[-1].epoch or start_offset < entries[-1].start_offset):
            raise ProtocolError(f"epoch {epoch} at log offset {start_offset} cannot follow {entries[-1]}")
        if entries and entries[-1].start_offset == start_offset:
            entries.pop()
        entries.append(Epoch(epoch, start_offset))

    def at(self, log_offset: int) -> Epoch | None:
        """The epoch of the byte at ``log_offset``; None for what was written before the first."""
        for entry in reversed(self.entries):  # called for each transfer: a generator takes twice as long
            if entry.start_offset <= log_offset:
                return entry
        return None

    def end_of(self, entry: Epoch, log_end: int) -> int:
        """Log offset where an epoch of this list ends."""
        i = self.entries.index(entry) + 1
        return self.entries[i].start_offset if i < len(self.entries) else log_end

    def cut_behind(self, log_end: int) -> bool:
        """Forgets the epochs that begin at the log's new end or behind; returns whether there were any."""
        kept = [entry for entry in self.entries if entry.start_offset < log_end]
        was_longer, self.entries = len(kept) < len(self.entries), kept
        return was_longer

    def cut_before(self, log_start: int) -> bool:
        """Forgets the epochs that end at the log's new start or before; returns whether there were any."""
        kept = self.entries.index(begun) if (begun := self.at(log_start)) is not None else 0
        del self.entries[:kept]
        return bool(kept)

    def parting(self, log_end: int, theirs: EpochList, their_end: int) -> int | None:
        """Log offset up to which this log and another are the same: the end of what both have of the last epoch that
        both lists name. None if they share no epoch; an empty log needs none. An Apache broker also requires the same
        start of that epoch. An epoch has a new start after its master came back with what a power cut had left."""
        if log_end == 0:
            return 0
        for entry in reversed(self.entries):
            other = next((one for one in theirs.entries if one.epoch == entry.epoch), None)
            if other is not None:
                end = min(self.end_of(entry, log_end), theirs.end_of(other, their_end))
                return end if other == entry else min(end, max(entry.start_offset, other.start_offset))
        return None

    def begin_again(self, log_end: int, *, is_whole: bool) -> None:
        """The master of the last epoch has restarted, and its log ends at ``log_end``. If not ``is_whole``, it may have
        lost what others have."""
        if not is_whole:
            last_epoch = self.last_epoch
            self.entries = [entry for entry in self.entries[:-1] if entry.start_offset < log_end]
            self.entries.append(Epoch(last_epoch, log_end))

    # ``epochFileCheckpoint``, as text: the number of entries, the CRC-32 of their lines without its highest bit (0:
    # there is none), and for each entry ``epoch-startOffset``; every line ends with LF.

    def to_text(self) -> str:
        lines = "".join(f"{entry.epoch}-{entry.start_offset}\n" for entry in self.entries)
        return f"{len(self.entries)}\n{crc32(lines.encode()) & 0x7FFFFFFF}\n{lines}"

    @classmethod
    def of_text_untrusted(cls, text: str) -> EpochList:
        """ProtocolError if it is not such a text, or is damaged."""
        count, _, rest = text.partition("\n")
        crc, _, body = rest.partition("\n")
        lines = body.splitlines()
        if not (count.isdecimal() and crc.isdecimal() and max(len(count), len(crc)) <= 10 and int(count) == len(lines)):
            raise ProtocolError(f"{count[:20]!r} entries, and {len(lines)} are there")
        written = "".join(f"{line}\n" for line in lines)
        if int(crc) not in (_UNCHECKED, crc32(written.encode()) & 0x7FFFFFFF):
            raise ProtocolError("its checksum is another one")
        return cls(map(_entry_untrusted, lines))


def _entry_untrusted(line: str) -> Epoch:
    epoch, _, start_offset = line.partition("-")
    if not (epoch.isdecimal() and start_offset.isdecimal() and len(epoch) <= 10 and len(start_offset) <= 19):
        raise ProtocolError(f"{line[:60]!r} is no epoch with its log offset")
    return Epoch(int(epoch), int(start_offset))


class EpochFile:
    """``epochs`` are as on the device after ``load`` and ``save``."""

    def __init__(self, path: str, disk: Disk):
        self.epochs = EpochList()
        self._path = path
        self._disk = disk

    def load(self) -> None:
        """Empty if there is no file. StorageError if neither the file nor its older copy can be read: a slave without
        epochs would take its whole log for its master's."""
        problem = ""
        for path in (self._path, self._path + BACKUP):
            if not self._disk.is_file(path):
                continue
            try:
                self.epochs = epochs_in_untrusted(self._disk.read_bytes(path))
                return
            except ProtocolError as error:
                problem = problem or f"{path} {error}"
        if problem:
            raise StorageError(problem, hint="put back a copy of the file, or start this broker on an empty store")

    def begin(self, epoch: int, start_offset: int) -> None:
        """Starts an epoch, and saves it. ProtocolError if it cannot follow the last one, StorageError if the disk
        refuses; nothing is changed then, so the same epoch can begin later."""
        before = list(self.epochs.entries)
        self.epochs.begin(epoch, start_offset)
        try:
            self.save()
        except StorageError:
            self.epochs.entries[:] = before
            raise

    def save(self) -> None:
        """Removes the file if the list has become empty; an Apache broker would leave it. StorageError if the disk
        refuses."""
        path, disk = self._path, self._disk
        try:
            if not self.epochs.entries:
                for name in (path + BACKUP, path):
                    if disk.is_file(name):
                        disk.unlink(name)
                        disk.sync_directory(path.rpartition("/")[0])
                return
            make_directory(disk, path.rpartition("/")[0])
            replace_with_backup(disk, path, self.epochs.to_text().encode())
        except OSError as error:
            raise storage_error(error, "cannot write", path) from error


def epochs_in_untrusted(data: bytes) -> EpochList:
    """The content of such a file. ProtocolError if it is damaged; its text says how."""
    if not data:
        raise ProtocolError("is empty")  # an Apache broker was stopped while it wrote it
    try:
        return EpochList.of_text_untrusted(data.decode("ascii", "replace"))
    except ProtocolError as error:
        raise ProtocolError(f"is damaged: {error}") from None


# ``brokerIdentity``, as text without a line end: cluster#broker#id. ``brokerIdentity-temp``, while the broker applies
# for it: cluster#broker#id#code; by the code the controller recognises a repeated request.
SEPARATOR = "#"

PART_COUNT, APPLIED_PART_COUNT = 3, 4


def identity_parts_untrusted(data: bytes, part_count: int) -> list[str] | None:
    """The parts of the text; None if it is empty. ProtocolError if it is not such a text."""
    text = data.decode("utf-8", "replace").strip()
    if not text:  # an Apache broker writes in place, and was stopped as it started
        return None
    parts = text.split(SEPARATOR)
    if len(parts) != part_count or not parts[2].isdecimal() or len(parts[2]) > 18:
        raise ProtocolError(f"is damaged: {text[:100]!r}")
    return parts
