"""The harness is worth something only if it sees what it is there to see: each of these stores or disks breaks one
promise, and some image must show it."""

from __future__ import annotations

import errno
import re
from random import Random
from typing import Any

import pytest

from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import FlushMode
from rmqserver.store.recovery import Recovered

from .images import Run
from .invariants import Violation
from .recording_disk import Loss, RecordingDisk, RecordingFile
from .test_nth_call import check_every_call

SEEDS_MAX = 20


class FileWithoutSync(RecordingFile):
    __slots__ = ()

    def _sync(self) -> None:
        """fdatasync left out."""


class LogWithoutSync(RecordingDisk):
    unsynced = "/commitlog/"

    def open(self, path: str, *, create_size_bytes: int | None = None, read_only: bool = False) -> RecordingFile:
        file = super().open(path, create_size_bytes=create_size_bytes, read_only=read_only)
        return FileWithoutSync(self, path, file.inode) if self.unsynced in path else file


class TablesWithoutSync(LogWithoutSync):
    unsynced = "/config/"


class DiskWithoutDirectorySync(RecordingDisk):
    def sync_directory(self, path: str) -> None:
        """Names, and so renames, are left to the kernel."""
        if path == "/":
            super().sync_directory(path)


class DiskWhoseRenamesAreNotSynced(RecordingDisk):
    def sync_directory(self, path: str) -> None:
        if not path.endswith("/config"):
            super().sync_directory(path)


class DiskTrustedAfterPowerCut(RecordingDisk):
    """What was only in the page cache is taken for there."""

    def kept_id(self, path: str) -> str:
        return f"{self.boot_number + 1}:{path}"


class SeenTooEarly(MessageStore):
    """Messages of sync mode are shown, and answered, when they are written."""

    def open(self) -> Recovered:
        recovered = super().open()
        self._appender._is_sync = False
        return recovered


class CheckpointTooEarly(MessageStore):
    """The checkpoint vouches for queues that are not on the device."""

    def _load(self) -> Recovered:
        recovered = super()._load()
        assert self._checkpointer is not None
        self._checkpointer._sync_queues = lambda paths: None  # type: ignore[method-assign]
        return recovered


class NotedTooEarly(MessageStore):
    """Units are said to be in their files that are only in memory."""

    def open(self) -> Recovered:
        recovered = super().open()
        show = self._dispatcher.show

        def show_and_note(*round_: Any) -> None:
            show(*round_)
            self.directory.note_dispatched(self._dispatcher.last_record_offset)

        self._dispatcher.show = show_and_note  # type: ignore[method-assign]
        return recovered


class NotSyncedAfterKill(MessageStore):
    """The checkpoint vouches for queue files that a killed process has written."""

    def _load(self) -> Recovered:
        recovered = super()._load()
        self.queues.changed_paths.clear()
        return recovered


class FlushTriedAgain(MessageStore):
    """The second try succeeds, without the pages of the first."""

    def open(self) -> Recovered:
        self._flusher._fail = lambda error: None  # type: ignore[method-assign]
        return super().open()


class NoMarkOfAFailedFlush(MessageStore):
    """The next process reads the pages from the cache and takes them for kept."""

    def open(self) -> Recovered:
        self._failed_flush.flushed_offset = lambda: None  # type: ignore[method-assign]
        return super().open()


@pytest.mark.parametrize("store", [FlushTriedAgain, NoMarkOfAFailedFlush])
def test_the_loop_of_failing_calls_sees(store: type[MessageStore]) -> None:
    with pytest.raises(Violation, match=r"were acknowledged|is not what was written|no readable record"):
        check_every_call(FlushMode.SYNC, [(errno.EIO, False)], store)


def first_violation(mode: FlushMode, disk: type[RecordingDisk], store: type[MessageStore]) -> str:
    for seed in range(SEEDS_MAX):
        try:
            Run(mode, seed, disk=disk(), make_store=store).check()
        except Violation as violation:
            return str(violation)
    return "none"


@pytest.mark.parametrize(
    ("disk", "store", "told"),
    [
        (LogWithoutSync, MessageStore, "were acknowledged|no readable record|holds no message"),
        (TablesWithoutSync, MessageStore, "cannot be read|versions were saved"),
        (DiskWithoutDirectorySync, MessageStore, "were acknowledged|versions were saved"),
        (DiskWhoseRenamesAreNotSynced, MessageStore, "versions were saved"),
        (RecordingDisk, SeenTooEarly, "were acknowledged|is ahead"),
        (RecordingDisk, CheckpointTooEarly, "the log holds|does not equal|are missing"),
        (RecordingDisk, NotedTooEarly, "the log holds|does not equal|are missing"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_harness_sees(disk: type[RecordingDisk], store: type[MessageStore], told: str) -> None:
    assert re.search(told, first_violation(FlushMode.SYNC, disk, store))


@pytest.mark.parametrize(
    ("disk", "store"), [(DiskTrustedAfterPowerCut, MessageStore), (RecordingDisk, NotSyncedAfterKill)]
)
def test_the_harness_sees_what_follows_a_kill(disk: type[RecordingDisk], store: type[MessageStore]) -> None:
    told = "the log holds|does not equal|are missing|is not what was written"
    assert re.search(told, first_violation(FlushMode.ASYNC, disk, store))


def test_the_disk_forgets_what_was_not_synced_and_keeps_what_was() -> None:
    """The harness' own disk, by hand: data, size and name each need their sync."""
    disk = RecordingDisk()
    disk.mkdir("/a")
    disk.sync_directory("/")
    file = disk.open("/a/file", create_size_bytes=1024)
    file.pwrite(b"x" * 600, 0)
    assert disk.image(Loss.EVERYTHING, Random(0)).tree() == {}
    disk.sync_directory("/a")
    assert disk.image(Loss.EVERYTHING, Random(0)).tree() == {"/a/file": b""}
    file.fdatasync()
    file.pwrite(b"y" * 600, 0)
    kept = b"x" * 600 + bytes(424)
    assert disk.image(Loss.EVERYTHING, Random(0)).tree() == {"/a/file": kept}
    found = {disk.image(Loss.SOME, Random(seed)).tree()["/a/file"] for seed in range(50)}
    both = b"y" * 600 + bytes(424)
    assert found == {kept, both, both[:512] + kept[512:], kept[:512] + both[512:]}
    disk.rename("/a/file", "/a/other")
    assert list(disk.image(Loss.EVERYTHING, Random(0)).tree()) == ["/a/file"]
    assert disk.image(Loss.NOTHING, Random(0)).tree() == {"/a/other": both}


def test_after_a_failed_sync_the_data_never_comes_to_the_device() -> None:
    disk = RecordingDisk()
    file = disk.open("/file", create_size_bytes=8)
    disk.sync_directory("/")
    file.fdatasync()
    file.pwrite(b"lost", 0)
    disk.on_call = _fail
    with pytest.raises(OSError, match="device"):
        file.fdatasync()
    disk.on_call = None
    file.fdatasync()
    assert file.pread(8, 0) == b"lost" + bytes(4)
    assert disk.image(Loss.EVERYTHING, Random(0)).tree() == {"/file": bytes(8)}


def _fail(operation: str, path: str) -> None:
    raise OSError(errno.EIO, "the device is broken", path)
