"""The thread that makes things durable. While one fdatasync runs, the next group of messages gathers, and one sync
covers them all. From time to time it also brings consume queues, index and checkpoint to the device."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable

from rmqproto.errors import StorageError
from rmqserver.store.disk.disk import storage_error
from rmqserver.store.log.commit_log import CommitLog

_log = logging.getLogger(__name__)


class Doorbell:
    """``fd`` is readable after ``ring`` until ``clear``. An eventfd if the system has it, else a pipe."""

    def __init__(self) -> None:
        if hasattr(os, "eventfd"):
            self.fd = self._write_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        else:
            self.fd, self._write_fd = os.pipe()
            os.set_blocking(self.fd, False)
            os.set_blocking(self._write_fd, False)

    def ring(self) -> None:
        """Makes ``fd`` readable. Any thread."""
        with contextlib.suppress(BlockingIOError):  # full: it is readable already
            os.write(self._write_fd, (1).to_bytes(8, "little"))

    def clear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self.fd, 4096)

    def close(self) -> None:
        os.close(self.fd)
        if self._write_fd != self.fd:
            os.close(self._write_fd)


class Flusher:
    """The loop reads ``flushed_offset``, ``error`` and ``is_checkpoint_due`` after the bell has rung. A failed flush is
    never tried again: the kernel marks the pages clean, and a second try would succeed without them."""

    def __init__(
        self,
        log: CommitLog,
        bell: Doorbell,
        mark_failed: Callable[[int], None],
        *,
        interval_ms: int,
        checkpoint_interval_ms: int,
    ):
        self.flushed_offset = log.written_offset
        self.error: StorageError | None = None
        self.is_checkpoint_due = False
        self._log = log
        self._bell = bell
        self._mark_failed = mark_failed
        self._interval_s = interval_ms / 1000
        self._checkpoint_interval_s = checkpoint_interval_ms / 1000
        self._checkpoint_at = time.monotonic() + self._checkpoint_interval_s
        self._job: Callable[[], None] | None = None
        # A lock as doorbell costs a tenth of an Event. ``request`` releases it, the thread takes it.
        self._wanted = threading.Lock()
        self._wanted.acquire()
        self._is_stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="store-flush", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread after its current work; later writes are not flushed."""
        if self._thread is not None:
            self._is_stopping = True
            self.request()
            self._thread.join()
            self._thread = None

    def request(self) -> None:
        """Asks for a flush of everything written so far. Only the loop calls it."""
        if self._wanted.locked():
            self._wanted.release()

    def submit(self, job: Callable[[], None]) -> None:
        """``job`` runs in the thread after the next flush of the log. If it fails, the store stops as after a failed
        flush."""
        self._job = job
        self.is_checkpoint_due = False
        self.request()

    def flush(self) -> None:
        """One flush, and the job if there is one. The loop also calls it when there is no thread."""
        if self.error is not None:
            return
        job, self._job = self._job, None
        end = self._log.written_offset
        try:
            if end > self.flushed_offset:
                self._log.flush(self.flushed_offset, end)
                self.flushed_offset = end
                self._bell.ring()
            if job is not None:
                job()
        except Exception as error:  # whatever it is: without this thread, no flush would ever be done
            self.failed(error)

    def keep_first_file(self) -> StorageError | None:
        """Called by the loop before the log continues in another file; returns the error of this flush or of an earlier
        one. If a new store grows past its first file before any flush, that file is flushed here, once in the store's
        life. Recovery can then tell damage from what a crash left of a new log: if later files hold records but the
        first record cannot be read, the log is damaged."""
        if self.error is None and not self.flushed_offset:
            try:
                self._log.segments.file(self._log.segments.bases[0]).fdatasync()
            except OSError as error:
                self.failed(error)
        return self.error

    def failed(self, error: Exception) -> None:
        """A flush failed. It is never tried again, and a mark tells the next start."""
        self._mark_failed(self.flushed_offset)
        if not isinstance(error, OSError):
            _log.error("event=flush-failed", exc_info=error)
        path = getattr(error, "filename", None) or self._log.segments.directory
        self.error = storage_error(error, "cannot flush", path)
        self._bell.ring()

    def _run(self) -> None:
        while True:
            self._wanted.acquire(timeout=self._interval_s)
            if self._is_stopping:
                return
            self.flush()
            now = time.monotonic()
            if now >= self._checkpoint_at:
                self._checkpoint_at = now + self._checkpoint_interval_s
                self.is_checkpoint_due = True
                self._bell.ring()
