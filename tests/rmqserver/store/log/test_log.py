"""Files of the log made ahead, and the log read from end to end."""

import ctypes
import dataclasses
import mmap
import os
import select
from pathlib import Path

import pytest

from rmqserver.store.disk.disk import DiskUsage, File, OsDisk
from rmqserver.store.disk.segments import FileCache
from rmqserver.store.log.commit_log import CommitLog
from rmqserver.store.log.file_maker import ALLOCATE_AHEAD_BYTES, TASKS_MAX, FileMaker
from rmqserver.store.log.flusher import Doorbell, Flusher
from rmqserver.store.log.scan import CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, scan, scan_portions
from rmqserver.store.message_store import MessageStore
from tests.rmqserver.store.conftest import TINY, MakeStore, put

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


def test_the_copy_of_a_log_finds_its_pages_in_memory(device_path: Path) -> None:
    disk, file_bytes = OsDisk(), ALLOCATE_AHEAD_BYTES + FILE_BYTES
    log = CommitLog(str(device_path), file_bytes, disk, FileCache(disk, 4))
    maker = FileMaker(log, disk)
    file = log.segments.make_durable(0)
    maker.start()
    maker.started(0, file)
    maker.request(maker.allocate_when_past + 1, with_pages=True)
    maker.stop()
    assert bytes_in_memory(file) == FILE_BYTES


class FaultyDisk(OsDisk):
    def usage(self, path: str) -> DiskUsage:
        raise RuntimeError("a fault of the program")


def test_a_fault_in_the_thread_that_makes_files_keeps_it_from_nothing_else(tmp_path: Path) -> None:
    """Without the thread, ``stop`` would wait for ever for its queue to have room."""
    disk = FaultyDisk()
    log = CommitLog(str(tmp_path), FILE_BYTES, disk, FileCache(disk, 4))
    maker = FileMaker(log, disk)
    maker.start()
    maker.started(0, log.segments.make_durable(0))
    old = [tmp_path / f"{number:020}" for number in range(TASKS_MAX)]
    for path in old:
        path.touch()
        maker.remove(str(path))
    maker.stop()
    assert not any(path.exists() for path in old)


def test_the_flush_thread_lives_on_after_a_fault_and_says_what_it_was(tmp_path: Path) -> None:
    """Without it, no message would ever be acknowledged, and nobody would know why."""

    def faulty_job() -> None:
        raise RuntimeError("a fault of the program")

    disk, bell, marked = OsDisk(), Doorbell(), list[int]()
    log = CommitLog(str(tmp_path), FILE_BYTES, disk, FileCache(disk, 4))
    flusher = Flusher(log, bell, marked.append, interval_ms=10_000, checkpoint_interval_ms=10_000)
    flusher.start()
    flusher.submit(faulty_job)
    rings = select.poll()  # unlike select, it takes any number
    rings.register(bell.fd, select.POLLIN)
    rings.poll()
    assert "cannot flush" in str(flusher.error)
    assert "a fault of the program" in str(flusher.error)
    assert marked == [0]
    flusher.stop()
    bell.close()


OPTIONS = dataclasses.replace(
    TINY, commit_log_file_size_bytes=2 * CHUNK_BYTES_MAX, message_size_max_bytes=CHUNK_BYTES_MAX + 1
)
HOST_V6 = bytes(15) + b"\1" + (10911).to_bytes(4, "big")
STORE_HOST_V6 = 0x20


@pytest.fixture
def store(make_store: MakeStore, tmp_path: Path) -> MessageStore:
    """Small records, one larger than any chunk, one with an IPv6 host, more small ones, and a second file."""
    made = make_store(tmp_path / "store", OPTIONS)
    for number in range(200):
        put(made, body=b"%d" % number * 700, tags="A", keys=f"k{number}")
    put(made, body=bytes(CHUNK_BYTES_MAX + 1))
    put(made, store_host=HOST_V6, sys_flag=STORE_HOST_V6)
    for number in range(1500):
        put(made, topic=f"T{number % 3}", queue_id=number % 4, body=b"%d" % number * 500)
    made.commit()
    return made


def test_every_record_is_found_where_it_was_put(store: MessageStore) -> None:
    portions = list(scan_portions(store.log.segments, 0))
    found = [record for portion in portions for record in portion]
    assert len(found) == 200 + 1 + 1 + 1500
    assert len(store.log.segments.bases) > 1
    assert {len(portion) for portion in portions} > {1}  # the large one comes alone, the others do not
    assert found == list(scan(store.log.segments, 0))
    assert found[7].properties == b"KEYS\x01k7\x02TAGS\x01A\x02"
    assert (found[201].sys_flag, found[202].topic, found[203].queue_id) == (STORE_HOST_V6, "T0", 1)
    assert found[-1].log_offset + found[-1].size_bytes == store.confirmed_offset


def test_from_any_record_on_the_rest_is_found(store: MessageStore) -> None:
    found = list(scan(store.log.segments, 0))
    for start in (1, 150, 200, 201, len(found) - 1):
        assert list(scan(store.log.segments, found[start].log_offset)) == found[start:]


@pytest.mark.parametrize("damaged", [0, 1, 100, 200, 203, 1000])
def test_a_damaged_body_ends_the_log_before_its_record(store: MessageStore, damaged: int) -> None:
    """The damage is at the start of a chunk, or within one."""
    segments = store.log.segments
    whole = list(scan(segments, 0))
    at = whole[damaged].log_offset
    base = segments.base_of(at)
    segments.file(base).pwrite(b"?", at - base + 88)
    assert list(scan(segments, 0)) == whole[:damaged]
    assert list(scan(segments, 0, check_crc=False)) == whole


def test_one_record_does_not_cost_a_whole_chunk(store: MessageStore) -> None:
    first = next(scan_portions(store.log.segments, 0))
    assert sum(record.size_bytes for record in first) <= CHUNK_BYTES_MIN
