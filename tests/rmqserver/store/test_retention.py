"""Old files go, oldest first, and never too many; a disk that fills up stops writes before it is full."""

import dataclasses
import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from rmqproto.codes import ResponseCode
from rmqproto.errors import StorageError
from rmqserver.broker.sending.targets import refusal_of
from rmqserver.store.disk.disk import DiskUsage, OsDisk, OsFile
from rmqserver.store.message_store import MessageStore
from rmqserver.store.queues.feed import QUEUES_PER_PORTION
from rmqserver.store.results import GetStatus, MessageRefused, PutStatus
from tests.support.clock import Clock
from tests.support.quick import first_is_quick

from .conftest import TINY, MakeStore, cleaned, put, put_many

HOUR_MS = 3_600_000
FIRST_FILE = "store/commitlog/00000000000000000000"
OPTIONS = dataclasses.replace(TINY, delete_hours=(), file_reserved_hours=72, disk_free_min_bytes=0)


class PretendDisk(OsDisk):
    """Reports the space that a test sets. Files with names before ``young_from`` are 73 hours old, others new."""

    def __init__(self, clock: Clock):
        self.used_percent = 50
        self.free_bytes = 1 << 40
        self.young_from = ""
        self._clock = clock

    def usage(self, path: str) -> DiskUsage:
        total = self.free_bytes * 100 // (100 - self.used_percent)
        return DiskUsage(total - self.free_bytes, self.free_bytes)

    def modified_ms(self, path: str) -> int:
        is_young = bool(self.young_from) and path.rpartition("/")[2] >= self.young_from
        return self._clock.now_ms - (0 if is_young else 73 * HOUR_MS)


class CountingDisk(PretendDisk):
    """Counts what is opened, listed or removed."""

    count = 0

    def open(self, path: str, **more: Any) -> OsFile:
        self.count += 1
        return super().open(path, **more)

    def listdir(self, path: str) -> list[str]:
        self.count += 1
        return super().listdir(path)

    def unlink(self, path: str) -> None:
        self.count += 1
        super().unlink(path)


@pytest.fixture
def disk(clock: Clock) -> PretendDisk:
    return PretendDisk(clock)


@pytest.fixture
def store(make_store: MakeStore, disk: PretendDisk) -> MessageStore:
    """100 messages in several files, all flushed and old."""
    store = make_store(disk=disk, options=OPTIONS)
    put_many(store, 100)
    store.flush()
    return store


def test_expired_files_go_and_everything_that_pointed_at_them(store: MessageStore, tmp_path: Path) -> None:
    files, index_files = len(store.log.segments.bases), len(list((tmp_path / "store/index").iterdir()))
    assert cleaned(store).deleted_log_files == files - 1
    assert not (tmp_path / "store/consumequeue/T/0/00000000000000000000").exists()
    assert len(list((tmp_path / "store/index").iterdir())) < index_files
    low = store.min_offset("T", 0)
    assert 0 < low < 100
    small = store.get("T", 0, 0, 32)
    assert (small.status, small.next_offset) == (GetStatus.OFFSET_TOO_SMALL, low)
    assert store.get("T", 0, low, 32).status is GetStatus.FOUND
    assert store.query("T", "k0", 10, 0, 1 << 60).records == []
    assert store.query("T", "k99", 10, 0, 1 << 60).records


def test_a_cleaned_store_opens_again_with_the_same_offsets(store: MessageStore, make_store: MakeStore) -> None:
    cleaned(store)
    low = store.min_offset("T", 0)
    assert store.close()
    again = make_store(options=OPTIONS)
    assert (again.min_offset("T", 0), again.max_offset("T", 0)) == (low, 100)


def test_a_pull_in_between_goes_on_behind_what_is_gone(store: MessageStore) -> None:
    """The log's files go first, and its queues follow in portions."""
    store.clean_expired(force=True)
    found = store.get("T", 0, 0, 1)
    assert (found.status, found.min_offset) == (GetStatus.FOUND, 0)
    while store.clean_some():
        pass
    assert found.next_offset == store.min_offset("T", 0) + 1


QUEUE_COUNT = 2000


@pytest.fixture
def many_queues(make_store: MakeStore, clock: Clock) -> tuple[MessageStore, CountingDisk]:
    """One long queue and many short ones, hardly any of them open."""
    disk = CountingDisk(clock)
    store = make_store(disk=disk, options=OPTIONS)
    put_many(store, 30, "Long")
    for number in range(QUEUE_COUNT):
        put(store, f"T{number % 200}", number // 200)
    store.commit()
    assert store.close()
    return make_store(disk=disk, options=dataclasses.replace(OPTIONS, delete_file_batch_max=1 << 30)), disk


@pytest.mark.slow
@pytest.mark.parametrize("looks_before", first_is_quick([True, False]))
def test_many_queues_are_cleaned_in_portions_and_most_are_not_even_opened(
    many_queues: tuple[MessageStore, CountingDisk], tmp_path: Path, looks_before: bool
) -> None:
    """100,000 queues in one call stopped every client for seconds; a controller's lease can lapse meanwhile."""
    store, disk = many_queues
    looked_at = []
    disk.count = 0
    assert store.clean_expired(force=True).deleted_log_files == disk.count > 0, "no queue is looked at in this call"
    if looks_before:
        store.look_for_old_files()
    disk.count, goes_on = 0, True
    while goes_on:
        goes_on = store.clean_some()
        looked_at.append(disk.count)
        disk.count = 0
    if looks_before:
        assert sum(looked_at) < 20, "only the long queue is looked at again: it is opened, and loses its first files"
    else:
        assert len(looked_at) > QUEUE_COUNT / QUEUES_PER_PORTION
        assert sorted(looked_at)[-2] <= 2 * QUEUES_PER_PORTION  # a topic's directory and a queue's
        assert max(looked_at) <= 3 * QUEUES_PER_PORTION
    opened = [queue.topic for queue in store.queues.opened()]
    assert opened == ["T199", "Long"], "by the start, which looks for the last record, and as it has several files"
    assert len(list((tmp_path / "store/consumequeue/Long/0").iterdir())) == 1
    for number in range(QUEUE_COUNT):
        found = store.get(f"T{number % 200}", number // 200, 0, 1)
        assert found.status is GetStatus.FOUND or found.min_offset == 1, found


@pytest.mark.parametrize("looks_before", [True, False])
def test_what_is_deleted_or_used_between_two_portions_is_cleaned_all_the_same(
    make_store: MakeStore, clock: Clock, looks_before: bool
) -> None:
    disk = CountingDisk(clock)
    store = make_store(disk=disk, options=OPTIONS)
    for topic in ("A", "B", "C"):
        for queue_id in range(2 * QUEUES_PER_PORTION):
            put(store, topic, queue_id)
    put_many(store, 60, "D")
    assert store.close()
    store = make_store(disk=disk, options=OPTIONS)
    assert store.clean_expired(force=True).deleted_log_files
    if looks_before:
        store.look_for_old_files()
    else:
        assert store.clean_some()
    for topic in ("A", "B", "C"):
        store.delete_topic(topic)
    assert put(store, "B").queue_offset == 0
    store.commit()
    while store.clean_some():
        pass
    assert store.queues.ids_of("A") == store.queues.ids_of("C") == []
    assert (store.queues.ids_of("B"), store.min_offset("B", 0), store.max_offset("B", 0)) == ([0], 0, 1)
    assert store.get("D", 0, store.min_offset("D", 0), 1).status is GetStatus.FOUND


def test_young_files_stay(store: MessageStore, disk: PretendDisk) -> None:
    disk.young_from = f"{4096:020d}"
    assert store.clean_expired(force=True).deleted_log_files == 1


def test_a_round_deletes_a_bounded_number_of_files(store: MessageStore) -> None:
    store.use_options(dataclasses.replace(OPTIONS, delete_file_batch_max=2))
    assert store.clean_expired(force=True).deleted_log_files == 2


@pytest.mark.parametrize(("used_percent", "deletes"), [(75, False), (76, True)])
def test_expired_files_go_at_any_hour_once_the_disk_is_three_quarters_full(
    store: MessageStore, disk: PretendDisk, used_percent: int, deletes: bool
) -> None:
    disk.used_percent = used_percent
    assert bool(store.clean_expired().deleted_log_files) is deletes


@pytest.mark.parametrize(("used_percent", "deletes"), [(85, False), (86, True)])
def test_files_go_whatever_their_age_once_the_disk_is_nearly_full(
    store: MessageStore, disk: PretendDisk, used_percent: int, deletes: bool
) -> None:
    disk.young_from, disk.used_percent = "0", used_percent
    assert bool(store.clean_expired().deleted_log_files) is deletes


def test_a_full_disk_stops_writes_until_it_has_room_again(store: MessageStore, disk: PretendDisk) -> None:
    assert store.why_not_writeable() == ""
    disk.used_percent = 91
    assert "91% full" in store.why_not_writeable(), "already before the disk is looked at again"
    store.clean_expired()
    with pytest.raises(MessageRefused, match="91% full") as refused:
        put(store)
    assert refused.value.status is PutStatus.SERVICE_NOT_AVAILABLE
    disk.used_percent = 88
    store.clean_expired()
    assert store.flags.refuses_writes
    assert store.why_not_writeable()
    disk.used_percent = 85
    store.clean_expired()
    put(store)
    store.commit()
    assert store.close()


def test_a_store_that_is_removed_under_its_broker_takes_nothing_more(store: MessageStore, tmp_path: Path) -> None:
    """The kernel goes on writing to a file that has no name: all that is acknowledged then would be lost."""
    put(store)
    store.commit()
    shutil.rmtree(tmp_path / "store")
    store.clean_expired()
    with pytest.raises(MessageRefused, match="was removed while it was written") as refused:
        put(store)
    assert refusal_of(refused.value, store).code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert store.get("T", 0, store.max_offset("T", 0) - 1, 1).status is GetStatus.FOUND
    assert not store.close()


def test_a_disk_that_does_not_answer_for_a_moment_stops_no_write(tmp_path: Path, make_store: MakeStore) -> None:
    """A file that cannot be looked at, as on a network file system, was not removed."""

    class Absent(OsDisk):
        is_absent = False

        def file_size(self, path: str) -> int:
            if self.is_absent:
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)
            return super().file_size(path)

    disk = Absent()
    store = make_store(disk=disk, options=OPTIONS)
    put(store)
    store.commit()
    disk.is_absent = True
    with pytest.raises(StorageError, match="Input/output error"):
        store.clean_expired()
    put(store)
    store.commit()


def test_a_store_that_cannot_make_a_file_has_no_room_whatever_is_free(tmp_path: Path, make_store: MakeStore) -> None:
    class NoInodes(OsDisk):
        is_full = False

        def open(self, path: str, **more: Any) -> OsFile:
            if self.is_full and not Path(path).exists():
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            return super().open(path, **more)

    disk = NoInodes()
    store = make_store(disk=disk, options=OPTIONS)
    put(store)
    store.commit()
    disk.is_full = True
    put(store, topic="U")
    store.commit()
    store.flush()
    assert store.flags.has_only_lacked_room
    assert not store.has_room_again()
    disk.is_full = False
    names = {path.name for path in (tmp_path / "store").iterdir()}
    assert store.has_room_again()
    assert {path.name for path in (tmp_path / "store").iterdir()} == names


def test_little_space_stops_writes_even_on_a_large_disk(store: MessageStore, disk: PretendDisk) -> None:
    store.use_options(dataclasses.replace(OPTIONS, disk_free_min_bytes=256 << 20))
    disk.free_bytes = 255 << 20
    assert "255 MiB left" in store.why_not_writeable()
    store.clean_expired()
    assert "255 MiB left" in store.flags.reason


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not say which files are open")
def test_what_was_read_keeps_no_removed_file(store: MessageStore, tmp_path: Path) -> None:
    """Its space would not be free before the next read."""
    assert store.get("T", 0, 0, 1).sizes
    store.clean_expired(force=True)
    assert not [
        path for path in map(opened, os.listdir("/proc/self/fd")) if path == f"{tmp_path / FIRST_FILE} (deleted)"
    ]


def opened(fd: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:  # that of the list itself
        return ""


def test_a_file_being_read_elsewhere_can_be_removed(store: MessageStore, tmp_path: Path) -> None:
    """A reader in another thread holds its file, so its descriptor must not become another file's."""
    result = store.get("T", 0, 0, 32, cached_only=True)
    held = store.log.segments.file(0)
    store.clean_expired(force=True)
    assert not (tmp_path / FIRST_FILE).exists()
    log_offset, size = result.ranges[0]
    assert len(held.pread(size, log_offset)) == size
