"""Makes commit log files ahead of need, reserves their space, and removes old ones, all in a thread. In the loop,
making or removing a file of 1 GiB would hold up every client, and a page that has no block yet is slower to write. Only
the copy of a log also has its pages made here: for messages, that costs more than it saves."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

from rmqserver.store.disk.disk import Disk, File
from rmqserver.store.log.commit_log import CommitLog

ALLOCATE_AHEAD_BYTES = 16 << 20
"""Bytes reserved at a time; the next piece is requested when half of this one is used."""

READ_BYTES = 64 << 10
"""Read at a time for new pages. The heap keeps room of this size for the next read."""

TASKS_MAX = 8
"""Tasks that may wait for the thread. If so many wait, work ahead of need is skipped."""

NEVER = 1 << 62
"""No log grows this far: nothing more is reserved or made ahead."""

_log = logging.getLogger(__name__)


class FileMaker:
    """Work ahead of need may fail: the write that needs it meets the same error and reports it. Without ``start``
    nothing is done ahead."""

    def __init__(self, log: CommitLog, disk: Disk):
        self.allocate_when_past = NEVER
        """The loop calls ``request`` once the log has grown past this."""
        self._log = log
        self._disk = disk
        self._file: File | None = None
        self._base = self._allocated_to = 0
        self._made = -1
        self._tasks: queue.Queue[Callable[[], None] | None] = queue.Queue(TASKS_MAX)
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="store-files", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        if self._thread is not None:
            self._tasks.put(None)
            self._thread.join()
            self._thread = None

    def take(self, base: int) -> None:
        """At return the file that starts at ``base`` exists and is durable; it is made here if the thread has not made
        it. OSError."""
        if self._made != base:
            self._log.segments.make_durable(base)
        self._log.segments.adopt(base)

    def started(self, base: int, file: File) -> None:
        """The log continues in this file: from now on its space and the next file are prepared."""
        self._file, self._base = file, base
        self._allocated_to = base
        self.request(max(base, self._log.written_offset))

    def request(self, end_offset: int, *, with_pages: bool = False) -> None:
        """Asks for space behind ``end_offset`` in the current file, or, once it is all reserved, for the next file.
        ``with_pages``: also for its pages in memory."""
        file_end = self._base + self._log.file_size_bytes
        start = max(self._allocated_to, end_offset)
        stop = min(start + ALLOCATE_AHEAD_BYTES, file_end)
        file = self._file
        if file is not None and start < stop:
            at, size = start - self._base, stop - start
            self._submit(lambda: self._allocate(file, at, size, with_pages=with_pages))
        if stop == file_end and self._allocated_to < file_end:
            self._submit(lambda: self._make(file_end))
        self._allocated_to = stop
        self.allocate_when_past = stop - ALLOCATE_AHEAD_BYTES // 2 if stop < file_end else NEVER

    def remove(self, path: str) -> None:
        """Removes a file that nothing refers to anymore. If the thread is too far behind, it is removed here; OSError
        then."""
        if not self._submit(lambda: self._disk.unlink(path)):
            self._disk.unlink(path)

    def _make(self, base: int) -> None:
        file = self._log.segments.make_durable(base)
        self._made = base
        self._allocate(file, 0, min(ALLOCATE_AHEAD_BYTES, self._log.file_size_bytes))

    def _allocate(self, file: File, at: int, size_bytes: int, *, with_pages: bool = False) -> None:
        """Reserves nothing when the disk is nearly full. A call that cannot get all the space holds what there is until
        it fails, and meanwhile a write of the loop would find the disk full too early."""
        if self._disk.usage(self._log.segments.directory).usable_bytes >= 2 * size_bytes:
            file.allocate(at, size_bytes)
            if with_pages:
                for place in range(at, at + size_bytes, READ_BYTES):
                    file.pread(READ_BYTES, place)  # gives it pages in memory, without the device

    def _submit(self, task: Callable[[], None]) -> bool:
        if self._thread is None or self._tasks.full():
            return False
        self._tasks.put_nowait(task)
        return True

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except OSError as error:
                _log.warning("commit log files: %s", error)
            except Exception:  # without this thread, no removed file would go, and ``stop`` would wait for ever
                _log.exception("commit log files")
