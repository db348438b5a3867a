"""After a failed flush the kernel takes the pages for clean: they can still be read, but no later flush brings them to
the device. So the store leaves a mark, and the next start that reads those pages writes them again before it trusts
them. The mark need not survive a power cut: the pages do not either."""

from __future__ import annotations

import contextlib

from rmqserver.store.disk.disk import Disk
from rmqserver.store.disk.segments import SegmentedFile
from rmqserver.store.queues.consume_queue import FILES_RECOVERED
from rmqserver.store.queues.consume_queues import ConsumeQueues

_CHUNK_BYTES = 4 << 20


class FailedFlush:
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
