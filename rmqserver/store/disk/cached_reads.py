"""Reads that must not wait for the device. The loop's thread runs a reading function by ``cached_only``: what is in
memory is read at once, and the first read that would wait ends the function with ``NotCached``. Another thread loads
what that names, then the function runs again, with the loaded bytes at hand."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

ITEMS_AT_A_TIME = 32
"""For a tenth of a millisecond each, if a queue has to be opened."""

A = TypeVar("A")
T = TypeVar("T")


class ReadFile(Protocol):
    def pread(self, size_bytes: int, at: int) -> bytes: ...


Place = tuple[ReadFile, int, int]
"""A file, a size in bytes and where they begin, as of ``File.pread``."""


class NotCached(Exception):
    """These reads would wait for the device. None: others should have their turn first."""

    def __init__(self, missing: list[Place]):
        super().__init__(f"{len(missing)} reads would wait for the device")
        self.missing = missing

    def load_into(self, loaded: dict[Place, bytes]) -> None:
        """Reads them, in any thread. OSError if a read fails."""
        for file, size_bytes, at in self.missing:
            loaded[file, size_bytes, at] = file.pread(size_bytes, at)


class _Mode(threading.local):
    loaded: dict[Place, bytes] | None = None
    """What reads of this thread may use; None if they may wait."""


mode = _Mode()


def cached_only(read: Callable[[], T], loaded: dict[Place, bytes]) -> T:
    """Calls ``read``. Raises NotCached for a read in it that would wait and is not among the ``loaded`` ones. It should
    change nothing that the next attempt cannot do over."""
    before, mode.loaded = mode.loaded, loaded
    try:
        return read()
    finally:
        mode.loaded = before


def one_by_one(read: Callable[[A], T], items: Iterable[A]) -> Callable[[], list[T]]:
    """A function for ``cached_only`` that reads each item. It keeps what it has read, so each attempt goes on where the
    one before had to wait, or had read a portion."""
    left, found = deque(items), list[T]()

    def go_on() -> list[T]:
        ends = len(found) + ITEMS_AT_A_TIME
        while left:
            if len(found) == ends and mode.loaded is not None:
                raise NotCached([])
            found.append(read(left[0]))
            left.popleft()
        return found

    return go_on


def may_wait(work: Callable[[], T]) -> T:
    """Calls what must not be left half done, within a function that ``cached_only`` runs."""
    before, mode.loaded = mode.loaded, None
    try:
        return work()
    finally:
        mode.loaded = before
