"""The long past that a slave copies: written in whole blocks past the page cache, and never more claimed than is
written."""

import errno
import os
import random
import threading
from pathlib import Path

import pytest

from rmqproto.errors import StorageError
from rmqserver.store.append import copied_blocks, log_copy
from rmqserver.store.append.log_copy import LogCopy
from rmqserver.store.disk.disk import OsFile
from rmqserver.store.disk.segments import SegmentedFile
from rmqserver.store.message_store import MessageStore
from tests.crash.recording_disk import Loss, RecordingDisk
from tests.rmqserver.store.append.test_log_copy import FILE_SIZE_BYTES, fill, seen, transfers
from tests.rmqserver.store.conftest import TINY_SYNC, MakeStore

BLOCK_BYTES = 1024
KEPT_BYTES = 1500
RECORD_MAX_BYTES = 500
"""No message here is larger."""


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_copy, "KEPT_BYTES", KEPT_BYTES)
    monkeypatch.setattr(log_copy, "PORTION_BYTES", 400)
    for module in (log_copy, copied_blocks):
        monkeypatch.setattr(module, "BLOCK_BYTES", BLOCK_BYTES)


@pytest.fixture
def master(make_store: MakeStore, tmp_path: Path) -> MessageStore:
    store = make_store(tmp_path / "master")
    fill(store)
    return store


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, bool]]:
    """First and last log offset of each write of the log, and whether it goes past the page cache."""
    found: list[tuple[int, int, bool]] = []
    pwrite, pwrite_direct = OsFile.pwrite, OsFile.pwrite_direct

    def note(file: OsFile, data: memoryview, at: int, is_direct: bool) -> None:
        if "commitlog" in file.path:
            start = int(Path(file.path).name) + at
            found.append((start, start + len(data), is_direct))

    def noted(file: OsFile, data: memoryview, at: int) -> None:
        note(file, data, at, False)
        pwrite(file, data, at)

    def noted_direct(file: OsFile, data: memoryview, at: int) -> None:
        note(file, data, at, True)
        pwrite_direct(file, data, at)

    monkeypatch.setattr(OsFile, "pwrite", noted)
    monkeypatch.setattr(OsFile, "pwrite_direct", noted_direct)
    return found


def begin(slave: MessageStore, master: MessageStore) -> LogCopy:
    copy = slave.log_copy()
    copy.master_ends_at(master.log.written_offset)
    return copy


def pieces_before(master: MessageStore, end: int) -> list[tuple[int, bytes]]:
    return [(at, data) for at, data in transfers(master, 0, random.Random(0)) if at + len(data) <= end]


def append_and_settle(copy: LogCopy, data: bytes, may_write: threading.Event) -> None:
    copy.append(0, data)
    may_write.set()
    copy.settle()


def content(store: MessageStore, end: int) -> bytes:
    """The log up to ``end``, as it is in the files."""
    segments = store.log.segments
    return b"".join(
        segments.read(base, min(FILE_SIZE_BYTES, end - base)) for base in range(0, end, FILE_SIZE_BYTES)
    )  # fmt: skip


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_long_past_is_written_in_blocks_and_readers_find_the_same(
    make_store: MakeStore,
    master: MessageStore,
    tmp_path: Path,
    writes: list[tuple[int, int, bool]],
    seed: int,
    background: bool,
) -> None:
    """It used to fill the memory with pages that nobody reads, each of which cost ten times as much as the same bytes
    in a used one."""
    slave = make_store(tmp_path / "slave", TINY_SYNC, background=background)
    copy, master_end = begin(slave, master), master.log.written_offset
    writes.clear()
    for log_offset, data in transfers(master, 0, random.Random(seed)):
        copy.append(log_offset, data)
        assert content(slave, copy.end_offset) == content(master, copy.end_offset)
        copy.dispatch_some()
    assert copy.end_offset == copy.next_offset == master_end
    old_max = (master_end - KEPT_BYTES) // BLOCK_BYTES * BLOCK_BYTES
    direct = [(start, end) for start, end, is_direct in writes if is_direct]
    assert direct == [(at, at + BLOCK_BYTES) for at in range(0, old_max, BLOCK_BYTES)]
    assert min(start for start, _, is_direct in writes if not is_direct) == old_max > 2 * FILE_SIZE_BYTES
    copy.dispatch_all()
    while slave.confirmed_offset < master_end:  # in the background, its own thread flushes at the same time
        slave.flush_log()
    assert seen(slave) == seen(master)


def test_readers_get_it_without_reading_it_from_the_device(
    make_store: MakeStore, master: MessageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dispatched at the latest before its memory is used again, and also if a record lies where the memory ends."""
    slave = make_store(tmp_path / "slave")
    copy = begin(slave, master)
    pieces = pieces_before(master, 3 * FILE_SIZE_BYTES)
    monkeypatch.setattr(SegmentedFile, "read", lambda *_: pytest.fail("it is in memory"))
    for log_offset, data in pieces:
        copy.append(log_offset, data)
    old_max = (master.log.written_offset - KEPT_BYTES) // BLOCK_BYTES * BLOCK_BYTES
    assert slave.log.confirmed_offset >= old_max - 4 * BLOCK_BYTES > FILE_SIZE_BYTES


def test_what_waits_for_a_block_is_written_when_the_connection_ends(
    make_store: MakeStore, master: MessageStore, tmp_path: Path, writes: list[tuple[int, int, bool]]
) -> None:
    """And the next connection goes on in the middle of a block, until the next one begins."""
    slave = make_store(tmp_path / "slave")
    copy, end = begin(slave, master), 0
    log = content(master, master.log.written_offset)
    copy.append(0, log[:1500])
    assert (copy.end_offset, copy.next_offset) == (BLOCK_BYTES, 1500)
    copy.settle()
    assert copy.end_offset == copy.next_offset == 1500
    assert content(slave, 1500) == log[:1500]
    writes.clear()
    copy.master_ends_at(master.log.written_offset)
    copy.append(1500, log[1500:3500])
    assert copy.end_offset == 3 * BLOCK_BYTES
    assert writes == [(1500, 2048, False), (2048, 3072, True)]
    for at in range(3500, len(log), 100):
        end = min(at + 100, len(log))
        piece = log[at:end]
        border = FILE_SIZE_BYTES - at % FILE_SIZE_BYTES
        copy.append(at, piece[:border])
        if piece[border:]:
            copy.append(at + border, piece[border:])
    copy.dispatch_all()
    assert seen(slave) == seen(master)


def test_a_killed_slave_has_only_what_it_has_reported(
    make_store: MakeStore, master: MessageStore, tmp_path: Path
) -> None:
    slave = make_store(tmp_path / "slave")
    copy = begin(slave, master)
    pieces = transfers(master, 0, random.Random(3))
    for log_offset, data in pieces[: len(pieces) // 2]:
        copy.append(log_offset, data)
        copy.dispatch_some()
    assert copy.next_offset > copy.end_offset == slave.end_offset
    slave.abandon()
    slave = make_store(tmp_path / "slave")
    copy = begin(slave, master)
    for log_offset, data in transfers(master, copy.end_offset, random.Random(4)):
        copy.append(log_offset, data)
    copy.dispatch_all()
    assert seen(slave) == seen(master)


def test_a_store_that_is_closed_keeps_what_has_come(
    make_store: MakeStore, master: MessageStore, tmp_path: Path
) -> None:
    slave = make_store(tmp_path / "slave", background=True)
    copy = begin(slave, master)
    copy.append(0, content(master, 3000))
    assert slave.close()
    again = make_store(tmp_path / "slave")
    assert 2 * BLOCK_BYTES < again.end_offset <= 3000
    assert content(again, again.end_offset) == content(master, again.end_offset)


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_block_that_cannot_be_written_is_not_claimed(
    make_store: MakeStore,
    master: MessageStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    background: bool,
    code: int,
) -> None:
    """If only room was missing, the same bytes may come again; else the store refuses everything."""
    slave = make_store(tmp_path / "slave", background=background)
    copy, log, failing = begin(slave, master), content(master, FILE_SIZE_BYTES), True
    pwrite_direct, may_write = OsFile.pwrite_direct, threading.Event()
    places: list[int] = []

    def fail(file: OsFile, data: memoryview, at: int) -> None:
        if background:
            assert may_write.wait(20)
        places.append(at)
        if failing and at == BLOCK_BYTES:
            pwrite_direct(file, data[: BLOCK_BYTES // 2], at)
            raise OSError(code, os.strerror(code), file.path)
        pwrite_direct(file, data, at)

    monkeypatch.setattr(OsFile, "pwrite_direct", fail)
    with pytest.raises(StorageError, match="cannot write commit log file"):
        append_and_settle(copy, log[: 3 * BLOCK_BYTES + 100], may_write)
    assert places == [0, BLOCK_BYTES], "nothing is written behind what has failed"
    assert copy.end_offset == copy.next_offset == BLOCK_BYTES
    failing = False
    if code == errno.EIO:
        with pytest.raises(StorageError):
            copy.append(BLOCK_BYTES, log[BLOCK_BYTES:])
        return
    copy.append(BLOCK_BYTES, log[BLOCK_BYTES:])
    copy.settle()
    assert content(slave, FILE_SIZE_BYTES) == log


def test_what_is_not_in_memory_is_not_read_by_the_loop(
    make_store: MakeStore, master: MessageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest part of the log was taken to be in memory, because it was written a moment ago."""
    slave = make_store(tmp_path / "slave")
    copy = begin(slave, master)
    copy.append(0, content(master, BLOCK_BYTES))
    monkeypatch.setattr(OsFile, "pread_cached", lambda *_: None)
    assert slave.log.read_cached(0, 100) is None


@pytest.mark.parametrize("loss", [Loss.NOTHING, Loss.EVERYTHING, Loss.TORN, Loss.SOME])
def test_a_crash_leaves_what_was_flushed_and_nothing_but_the_master_s_log(master: MessageStore, loss: Loss) -> None:
    """After a kill, also what was reported. From there the copy goes on."""
    rng, disk, images = random.Random(1), RecordingDisk(), []
    slave = MessageStore("/slave", TINY_SYNC, disk, background=False)
    slave.open()
    copy = begin(slave, master)

    def crash() -> None:
        if rng.random() < 0.5:
            images.append((disk.image(loss, rng), copy.end_offset if loss is Loss.NOTHING else slave.flushed_offset))

    for log_offset, data in transfers(master, 0, rng):
        disk.on_change = crash
        copy.append(log_offset, data)
        copy.dispatch_some()
        if rng.random() < 0.2:
            slave.flush_log()
    assert len(images) > 5
    for image, kept_offset in images:
        again = MessageStore("/slave", TINY_SYNC, image, background=False)
        again.open()
        assert again.end_offset > kept_offset - RECORD_MAX_BYTES
        assert content(again, again.end_offset) == content(master, again.end_offset)
        copy = begin(again, master)
        for log_offset, data in transfers(master, copy.end_offset, rng):
            copy.append(log_offset, data)
        copy.dispatch_all()
        again.flush_log()
        assert seen(again) == seen(master)
        again.abandon()
