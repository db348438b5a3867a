"""Space and pages are prepared ahead of the log, but never the last space of the disk."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

import pytest

from rmqserver.store.disk.disk import DiskUsage, File, OsDisk
from rmqserver.store.disk.segments import FileCache
from rmqserver.store.log.commit_log import CommitLog
from rmqserver.store.log.file_maker import ALLOCATE_AHEAD_BYTES, FileMaker

FILE_BYTES = 1 << 20


class PretendDisk(OsDisk):
    def __init__(self, free_bytes: int):
        self.free_bytes = free_bytes

    def usage(self, path: str) -> DiskUsage:
        return DiskUsage(0, self.free_bytes)


def allocated_bytes(file: File) -> int:
    return Path(file.path).stat().st_blocks * 512


def bytes_in_memory(file: File) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    size = file.size()
    pages = ctypes.create_string_buffer(size // mmap.PAGESIZE)
    with open(file.path, "r+b") as opened, mmap.mmap(opened.fileno(), size) as mapped:
        start = ctypes.c_char.from_buffer(mapped)
        failed = libc.mincore(ctypes.byref(start), ctypes.c_size_t(size), pages)
        del start  # the mapping cannot be closed before
        assert not failed, os.strerror(ctypes.get_errno())
    return sum(page & 1 for page in pages.raw) * mmap.PAGESIZE


@pytest.mark.parametrize(("free_bytes", "is_reserved"), [(2 * FILE_BYTES, True), (2 * FILE_BYTES - 1, False)])
def test_the_last_of_a_disk_is_left_to_those_who_write(tmp_path: Path, free_bytes: int, is_reserved: bool) -> None:
    """On a disk of 24 MiB the call for the next 16 MiB used to take the last 8 for a moment, fail and give them back. A
    message in that moment was refused, and so was everything after it, with a quarter of the disk free."""
    disk = PretendDisk(free_bytes)
    log = CommitLog(str(tmp_path), FILE_BYTES, disk, FileCache(disk, 4))
    maker = FileMaker(log, disk)
    file = log.segments.make_durable(0)
    maker.start()
    maker.started(0, file)
    maker.stop()
    following = log.segments.make_durable(FILE_BYTES)
    for each in (file, following):
        assert (allocated_bytes(each) >= FILE_BYTES) == is_reserved
        assert bytes_in_memory(each) == 0


def test_the_copy_of_a_log_finds_its_pages_in_memory(tmp_path: Path) -> None:
    disk, file_bytes = OsDisk(), ALLOCATE_AHEAD_BYTES + FILE_BYTES
    log = CommitLog(str(tmp_path), file_bytes, disk, FileCache(disk, 4))
    maker = FileMaker(log, disk)
    file = log.segments.make_durable(0)
    maker.start()
    maker.started(0, file)
    maker.request(maker.allocate_when_past + 1, with_pages=True)
    maker.stop()
    assert bytes_in_memory(file) == FILE_BYTES
