"""The old log that a slave copies: gathered in blocks, which are written whole and past the page cache. Nobody reads it
soon, so its pages would only drive out what is read; and a page for which the host of a virtual machine has no memory
yet costs twenty times as much as the same bytes in the memory here, which is used again and again. Taken through the
page cache, with ``posix_fadvise`` behind it, a copy had 0.7 of this rate for a third more CPU."""

from __future__ import annotations

import mmap
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor

from rmqserver.store.disk.disk import File

BLOCK_BYTES = 4 << 20
"""Written at a time. Smaller ones are slower: the device has nothing to do between them."""

BLOCK_COUNT = 4
"""Blocks in memory: one is filled, the one before it is written, and readers get those before."""


class CopiedBlocks:
    """A ring with the newest blocks of the log; a block has the same place in it however often the ring goes round.
    Begins at the border of a block. The caller calls ``finish``."""

    def __init__(self, log_offset: int, *, background: bool):
        """Without ``background`` there is no thread, and ``write`` does its work."""
        assert log_offset % BLOCK_BYTES == 0
        self.end_offset = log_offset
        """Log offset behind what was put."""
        self.written_offset = log_offset
        """Log offset behind the last block that is known to be written."""
        self._start_offset = log_offset
        self._size_bytes = BLOCK_BYTES * BLOCK_COUNT
        self._ring = memoryview(mmap.mmap(-1, self._size_bytes))  # its memory starts with a page, as a device needs it
        self._writes: deque[Future[None]] = deque()
        self._has_failed = False
        self._thread = ThreadPoolExecutor(1, "store-blocks") if background else None

    @property
    def is_full(self) -> bool:
        """Whether the last block is."""
        return self.end_offset % BLOCK_BYTES == 0

    @property
    def oldest_offset(self) -> int:
        """Log offset of the oldest byte that the next block leaves in memory."""
        return self.end_offset + BLOCK_BYTES - self._size_bytes

    def put(self, data: memoryview) -> None:
        """Takes bytes that do not pass the end of the block. At the start of a block, everything before
        ``oldest_offset`` must be written."""
        at = self.end_offset % self._size_bytes
        self._ring[at : at + len(data)] = data
        self.end_offset += len(data)

    def read(self, log_offset: int, size_bytes: int) -> bytes | memoryview | None:
        """The bytes, usually where they lie in the ring: valid until more is put. None if not all of it is in
        memory."""
        if log_offset < max(self._start_offset, self.end_offset - self._size_bytes):
            return None
        if log_offset + size_bytes > self.end_offset:
            return None
        at = log_offset % self._size_bytes
        found = self._ring[at : at + size_bytes]
        return found if len(found) == size_bytes else bytes(found) + bytes(self._ring[: size_bytes - len(found)])

    def write(self, file: File, place: int) -> None:
        """Has the last block, which is full, written to that place of the file."""
        at = (self.end_offset - BLOCK_BYTES) % self._size_bytes
        block = self._ring[at : at + BLOCK_BYTES]
        if self._thread is not None:
            self._writes.append(self._thread.submit(self._write, file, block, place))
        else:
            file.pwrite_direct(block, place)
            self.written_offset = self.end_offset

    def _write(self, file: File, block: memoryview, place: int) -> None:
        """Nothing is written behind a block that failed."""
        if not self._has_failed:
            self._has_failed = True
            file.pwrite_direct(block, place)
            self._has_failed = False

    def note_written(self, until: int = 0) -> None:
        """Brings ``written_offset`` up to date; waits until it has reached ``until``. OSError of the first block that
        could not be written."""
        while self._writes and (self.written_offset < until or self._writes[0].done()):
            self._writes[0].result()
            self._writes.popleft()
            self.written_offset += BLOCK_BYTES

    def rest(self) -> bytes | memoryview:
        """The bytes of the last block, if it is not full."""
        size = self.end_offset % BLOCK_BYTES
        return self.read(self.end_offset - size, size) or b""

    def finish(self) -> None:
        """Ends the thread once it has written what it was given."""
        if self._thread is not None:
            self._thread.shutdown()
