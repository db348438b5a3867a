"""File sizes as the files of a store tell them: they are no part of what a store says about itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice

from rmqserver.store.disk.disk import Disk
from rmqserver.store.disk.segments import NAME_DIGITS

QUEUE_FILES_ASKED = 200
"""Consume queue files whose size is looked at: a store may have a hundred thousand."""


def file_size_in(disk: Disk, *directories: str) -> int:
    """The size of the files of a stream, or of several of one size, in bytes; 0 if there are none. Where they differ,
    damage is outvoted: by the number of files, then by their names, which are multiples of the size."""
    names = [(directory, name) for directory in directories for name in stream_names(disk, directory)]
    sizes = Counter(size for directory, name in names if (size := disk.file_size(f"{directory}/{name}")))
    if not sizes:
        return 0

    def votes(size: int) -> tuple[int, int]:
        return sizes[size] + sum(not int(name) % size for _, name in names if int(name)), size

    return max(sizes, key=votes)


def queue_file_size(disk: Disk, consume_queues: str) -> int:
    """That of the consume queues, in bytes; 0 if there are none."""
    return file_size_in(disk, *islice(_queue_directories(disk, consume_queues), QUEUE_FILES_ASKED))


def _queue_directories(disk: Disk, consume_queues: str) -> Iterable[str]:
    for topic in disk.listdir(consume_queues):
        if disk.is_directory(f"{consume_queues}/{topic}"):
            for queue in disk.listdir(f"{consume_queues}/{topic}"):
                directory = f"{consume_queues}/{topic}/{queue}"
                if queue.isdecimal() and disk.is_directory(directory) and stream_names(disk, directory):
                    yield directory


def stream_names(disk: Disk, directory: str) -> list[str]:
    """The names in a directory that are those of a stream's files, in order."""
    found = disk.listdir(directory) if disk.is_directory(directory) else []
    return [name for name in found if is_stream_name(name)]


def is_stream_name(name: str) -> bool:
    """Whether it is that of a stream's file: the offset of its first byte."""
    return len(name) == NAME_DIGITS and name.isdecimal()
