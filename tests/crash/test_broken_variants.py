"""Tests that the harness detects broken promises: each of these stores or disks breaks one, and some image must show
it."""

import errno
import re
from random import Random

import pytest

from rmqserver.store.append.confirmation import Confirmation
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.disk.disk import File
from rmqserver.store.log.flusher import Flusher
from rmqserver.store.message_store import DEFAULT_PARTS, StoreParts
from rmqserver.store.options import FlushMode
from rmqserver.store.queues.feed import QueueFeed
from rmqserver.store.queues.round import Round, Sync
from rmqserver.store.recovery.recovery import FailedFlush
from tests.support.quick import first_is_quick

from .images import Run
from .invariants import Violation
from .recording_disk import Loss, RecordingDisk, RecordingFile
from .test_nth_call import check_every_call

SEEDS_MAX = 40


class FileWithoutSync(RecordingFile):
    __slots__ = ()

    def _sync(self) -> None:
        """Skips fdatasync."""


class LogWithoutSync(RecordingDisk):
    unsynced = "/commitlog/"

    def open(self, path: str, *, create_size_bytes: int | None = None, read_only: bool = False) -> RecordingFile:
        file = super().open(path, create_size_bytes=create_size_bytes, read_only=read_only)
        return FileWithoutSync(self, path, file.inode) if self.unsynced in path else file


class TablesWithoutSync(LogWithoutSync):
    unsynced = "/config/"


class DiskWithoutDirectorySync(RecordingDisk):
    def sync_directory(self, path: str) -> None:
        """Leaves changes of names to the kernel, except in the root directory."""
        if path == "/":
            super().sync_directory(path)


class DiskWhoseRenamesAreNotSynced(RecordingDisk):
    def sync_directory(self, path: str) -> None:
        if not path.endswith("/config"):
            super().sync_directory(path)


class DiskTrustedAfterPowerCut(RecordingDisk):
    """Takes data that was only in the page cache for durable."""

    def kept_id(self, path: str) -> str:
        return f"{self.boot_number + 1}:{path}"


class SeenTooEarly(Confirmation):
    """In sync mode, shows and answers messages as soon as they are written."""

    def written(self, round_: Round) -> None:
        self.confirm(round_)


class CheckpointTooEarly(QueueFeed):
    """The checkpoint counts queues as synced that are not on the device."""

    def prepare(self) -> Sync:
        super().prepare()
        return lambda checkpoint, write_checkpoint: None


class NotedTooEarly(QueueFeed):
    """Reports units as written that are only in memory."""

    def show(self, round_: Round) -> None:
        super().show(round_)
        self.note_dispatched(round_.last_record_offset)


class NotSyncedAfterKill(QueueFeed):
    """The checkpoint counts queue files as synced that a killed process has written."""

    def recovered(self, start_offset: int, end_offset: int, synced_offset: int, *, was_clean: bool) -> None:
        super().recovered(start_offset, end_offset, end_offset, was_clean=True)


class VouchedForTooEarly(QueueFeed):
    """While queues are being rebuilt, the checkpoint still says that they are complete."""

    def load(self, known_offset: int, *, clean: bool) -> bool:
        super().load(known_offset, clean=clean)
        return True


class FlushTriedAgain(Flusher):
    """Retries a failed flush. The second try succeeds, but does not write the pages of the first."""

    def failed(self, error: Exception) -> None:
        pass


class NoMarkOfAFailedFlush(FailedFlush):
    """The next process reads the pages from the cache and takes them for durable."""

    def flushed_offset(self) -> None:
        return None


class AnsweredTooEarly(ConfigFiles):
    """Answers a change of topics before the thread has written it."""

    def write_now(self, name: str, data: bytes) -> None:
        self._hand_over(name, do=lambda: super(AnsweredTooEarly, self).write_now(name, data), again=lambda: None)


class UnsyncedBackup(ConfigFiles):
    """Keeps each table's predecessor as its backup, synced or not."""

    def _place(self, name: str, data: bytes) -> None:
        path = f"{self.directory}/{name}"
        if self._disk.is_file(path):
            self._disk.rename(path, path + ".bak")
        super()._place(name, data)


class NoFirstBackup(ConfigFiles):
    """Trusts the backup that another process has left."""

    def _place(self, name: str, data: bytes) -> None:
        self._backed_up.add(name)
        super()._place(name, data)


class NeverSynced(ConfigFiles):
    """Leaves tables to the kernel, except for the first one."""

    def _sync(self, name: str, file: File, data: bytes) -> None:
        pass


SEEN_TOO_EARLY = StoreParts(confirmation=SeenTooEarly)
CHECKPOINT_TOO_EARLY = StoreParts(queue_feed=CheckpointTooEarly)
NOTED_TOO_EARLY = StoreParts(queue_feed=NotedTooEarly)
NOT_SYNCED_AFTER_KILL = StoreParts(queue_feed=NotSyncedAfterKill)
VOUCHED_FOR_TOO_EARLY = StoreParts(queue_feed=VouchedForTooEarly)
FLUSH_TRIED_AGAIN = StoreParts(flusher=FlushTriedAgain)
NO_MARK_OF_A_FAILED_FLUSH = StoreParts(failed_flush=NoMarkOfAFailedFlush)


@pytest.mark.slow
@pytest.mark.parametrize(
    "parts", first_is_quick([NO_MARK_OF_A_FAILED_FLUSH, FLUSH_TRIED_AGAIN]), ids=["no mark", "again"]
)
def test_the_loop_of_failing_calls_sees(parts: StoreParts) -> None:
    with pytest.raises(Violation, match=r"were acknowledged|is not what was written|no readable record"):
        check_every_call(FlushMode.SYNC, [(errno.EIO, False)], parts)


def first_violation(
    mode: FlushMode,
    disk: type[RecordingDisk],
    parts: StoreParts = DEFAULT_PARTS,
    tables: type[ConfigFiles] = ConfigFiles,
) -> str:
    for seed in range(SEEDS_MAX):
        try:
            Run(mode, seed, disk=disk(), parts=parts, tables=tables).check()
        except Violation as violation:
            return str(violation)
    return "none"


@pytest.mark.parametrize(
    ("disk", "parts", "told"),
    [
        (LogWithoutSync, DEFAULT_PARTS, "were acknowledged|no readable record|holds no message"),
        (TablesWithoutSync, DEFAULT_PARTS, "cannot be read|versions were saved"),
        (DiskWithoutDirectorySync, DEFAULT_PARTS, "were acknowledged|versions were saved"),
        (DiskWhoseRenamesAreNotSynced, DEFAULT_PARTS, "versions were saved"),
        (RecordingDisk, SEEN_TOO_EARLY, "were acknowledged|is ahead"),
        (RecordingDisk, CHECKPOINT_TOO_EARLY, "the log holds|does not equal|are missing"),
        *(
            pytest.param(RecordingDisk, parts, "the log holds|does not equal|are missing", marks=pytest.mark.slow)
            for parts in (NOTED_TOO_EARLY, VOUCHED_FOR_TOO_EARLY)
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_harness_sees(disk: type[RecordingDisk], parts: StoreParts, told: str) -> None:
    assert re.search(told, first_violation(FlushMode.SYNC, disk, parts))


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        (NeverSynced, "which is none of"),
        pytest.param(AnsweredTooEarly, "which is none of", marks=pytest.mark.slow),
        pytest.param(UnsyncedBackup, "cannot be read|which is none of", marks=pytest.mark.slow),
        pytest.param(NoFirstBackup, "cannot be read|which is none of", marks=pytest.mark.slow),
    ],
)
def test_the_harness_sees_how_tables_are_written(tables: type[ConfigFiles], told: str) -> None:
    assert re.search(told, first_violation(FlushMode.SYNC, RecordingDisk, tables=tables))


@pytest.mark.parametrize(
    ("disk", "parts"),
    [
        (DiskTrustedAfterPowerCut, DEFAULT_PARTS),
        pytest.param(RecordingDisk, NOT_SYNCED_AFTER_KILL, marks=pytest.mark.sweep),
    ],
)
def test_the_harness_sees_what_follows_a_kill(disk: type[RecordingDisk], parts: StoreParts) -> None:
    told = "the log holds|does not equal|are missing|is not what was written"
    assert re.search(told, first_violation(FlushMode.ASYNC, disk, parts))


def test_the_disk_forgets_what_was_not_synced_and_keeps_what_was() -> None:
    """Checks the harness's own disk: data and size need a sync of the file, and its name one of the directory."""
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
