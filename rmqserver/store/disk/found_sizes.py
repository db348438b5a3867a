"""File sizes worked out from the files of a store, because the store does not record them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice

from rmqserver.store.disk.disk import Disk
from rmqserver.store.disk.segments import NAME_DIGITS

QUEUE_FILES_ASKED = 200
"""Consume queue files whose size is checked: a store may have a hundred thousand."""


def file_size_in(disk: Disk, *directories: str) -> int:
    """The size of the files of a stream, or of several streams with one size, in bytes; 0 if there are none. If sizes
    differ, the majority wins: files vote by their size, and by their names, which are multiples of it."""
    names = [(directory, name) for directory in directories for name in stream_names(disk, directory)]
    sizes = Counter(size for directory, name in names if (size := disk.file_size(f"{directory}/{name}")))
    if not sizes:
        return 0

    def votes(size: int) -> tuple[int, int]:
        return sizes[size] + sum(not int(name) % size for _, name in names if int(name)), size

    return max(sizes, key=votes)


def queue_file_size(disk: Disk, consume_queues: str) -> int:
    """The size of consume queue files, in bytes; 0 if there are none."""
    return file_size_in(disk, *islice(_queue_directories(disk, consume_queues), QUEUE_FILES_ASKED))


def _queue_directories(disk: Disk, consume_queues: str) -> Iterable[str]:
    for topic in disk.listdir(consume_queues):
        if disk.is_directory(f"{consume_queues}/{topic}"):
            for queue in disk.listdir(f"{consume_queues}/{topic}"):
                directory = f"{consume_queues}/{topic}/{queue}"
                if queue.isdecimal() and disk.is_directory(directory) and stream_names(disk, directory):
                    yield directory


def stream_names(disk: Disk, directory: str) -> list[str]:
    """The names in a directory that name files of a stream, in order."""
    found = disk.listdir(directory) if disk.is_directory(directory) else []
    return [name for name in found if is_stream_name(name)]


def is_stream_name(name: str) -> bool:
    """Whether a stream's file can have the name, which is the offset of its first byte."""
    return len(name) == NAME_DIGITS and name.isdecimal()
