"""A start does as much with many queues as with few, because a queue is opened when somebody asks for it. Recovery
knows the other queues from marks, which it believes only where nothing can have changed after them."""

import dataclasses
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from rmqproto.errors import StorageError
from rmqserver.store.disk.checkpoint import Checkpoint
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.message_store import MessageStore, open_read_only
from rmqserver.store.queues.consume_queue import UNWRITTEN_UNITS_MAX
from rmqserver.store.queues.feed import SYNCED_FILES_MAX
from rmqserver.store.results import MessageRefused
from tests.crash.recording_disk import Loss, RecordingDisk
from tests.rmqserver.store.conftest import bodies
from tests.support.clock import Clock

from .conftest import TINY, MakeStore, put, put_many

ROOT = "/store"
OPTIONS = dataclasses.replace(TINY, commit_log_file_size_bytes=1 << 16, index_slot_count=100, index_unit_count=2000)
"""Log and index have one file each."""
TOPICS = [f"T{number}" for number in range(100)]


def opened(disk: RecordingDisk) -> MessageStore:
    store = MessageStore(ROOT, OPTIONS, disk, clock_ms=Clock(), background=False)
    store.open()
    return store


def filled(disk: RecordingDisk, topics: list[str], rounds: int = 2) -> MessageStore:
    """A store with dispatched messages for each topic; the last topic has the newest."""
    store = opened(disk)
    fill(store, topics, rounds)
    return store


def fill(store: MessageStore, topics: list[str], rounds: int = 2) -> None:
    for number in range(rounds):
        for topic in topics:
            put(store, topic, body=b"%d" % number, tags="red")
        store.commit()
    while store.dispatch_some():
        pass


def ended(store: MessageStore, how: str) -> None:
    if how == "closed":
        assert store.close()
    else:
        store.abandon()


def calls_of_start(disk: RecordingDisk) -> Counter[str]:
    """The disk calls of the next start."""
    calls: Counter[str] = Counter()
    disk.on_call = lambda operation, path: calls.update([operation])
    store = opened(disk)
    disk.on_call = None
    store.abandon()
    return calls


@pytest.mark.slow
def test_so_many_files_are_open_and_no_more_however_many_queues_there_are(tmp_path: Path) -> None:
    """Each queue used to keep a file open: 80,000 queues would have needed 80,000 descriptors."""

    def open_files() -> int:
        links = (os.path.realpath(link) for link in Path("/proc/self/fd").iterdir())
        return sum(link.startswith(str(tmp_path)) for link in links)

    options = dataclasses.replace(OPTIONS, open_files_max=20)
    store = MessageStore(tmp_path, options, clock_ms=Clock(), background=False)
    store.open()
    most = 0
    for _ in range(2):
        for topic in TOPICS:
            put(store, topic)
            store.commit()
            while store.dispatch_some():
                pass
            most = max(most, open_files())
        for topic in TOPICS:
            bodies(store, topic)
            most = max(most, open_files())
    own = 10  # lock, checkpoint, index, the log's last file and the next one
    assert most <= options.open_files_max + own < len(TOPICS)
    assert store.close()


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_a_start_asks_as_little_of_the_disk_with_many_queues_as_with_few(how: str) -> None:
    few, many = RecordingDisk(), RecordingDisk()
    ended(filled(few, TOPICS[:5]), how)
    ended(filled(many, TOPICS), how)
    calls = calls_of_start(many)
    assert calls == calls_of_start(few)
    assert calls["open"] < 20


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_what_is_opened_later_is_whole(how: str) -> None:
    disk = RecordingDisk()
    store = filled(disk, TOPICS)
    put(store, TOPICS[7], body=b"not dispatched")
    store.commit()
    ended(store, how)
    again = opened(disk)
    assert {queue.topic for queue in again.queues.opened()} <= {TOPICS[7], TOPICS[-1]}
    assert put(again, TOPICS[3]).queue_offset == 2
    again.commit()
    for topic in TOPICS:
        more = {TOPICS[3]: [b"body"], TOPICS[7]: [b"not dispatched"]}.get(topic, [])
        assert bodies(again, topic) == [b"0", b"1", *more]
    assert again.close()


def test_what_a_killed_process_wrote_is_on_the_device_with_the_next_checkpoint() -> None:
    """Nobody knows which files it wrote, so the whole file system is synced at once, and no file is opened for that."""
    disk = RecordingDisk()
    filled(disk, TOPICS).abandon()
    store = opened(disk)
    calls: Counter[str] = Counter()
    disk.on_call = lambda operation, path: calls.update([operation])
    store.flush()
    disk.on_call = None
    assert calls["sync_file_system"] == 1
    assert calls["fdatasync"] < 10
    after_power_cut = opened(disk.image(Loss.EVERYTHING, Random(0)))
    assert all(bodies(after_power_cut, topic) == [b"0", b"1"] for topic in TOPICS)
    store.abandon()


@pytest.mark.parametrize("count", [SYNCED_FILES_MAX, SYNCED_FILES_MAX + 1])
def test_many_files_are_synced_with_one_call(count: int) -> None:
    disk = RecordingDisk()
    store = filled(disk, TOPICS[:count])
    calls: Counter[str] = Counter()
    disk.on_call = lambda operation, path: calls.update([operation] if "consumequeue" in path else [])
    store.flush()
    disk.on_call = None
    is_much = count > SYNCED_FILES_MAX
    assert (calls["fdatasync"], calls["sync_file_system"]) == ((0, 1) if is_much else (count, 0))
    after_power_cut = opened(disk.image(Loss.EVERYTHING, Random(0)))
    assert all(bodies(after_power_cut, topic) == [b"0", b"1"] for topic in TOPICS[:count])


def test_where_a_file_system_cannot_be_synced_a_killed_store_is_looked_through() -> None:
    disk = RecordingDisk()
    disk.can_sync_file_system = False
    filled(disk, TOPICS).abandon()
    calls = calls_of_start(disk)
    assert calls["listdir"] > len(TOPICS)
    assert calls["sync_file_system"] == 0


# -- what must not be believed


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_removed_queues_are_made_again(how: str) -> None:
    disk = RecordingDisk()
    ended(filled(disk, TOPICS), how)
    disk.remove_tree(f"{ROOT}/consumequeue")
    store = opened(disk)
    assert all(bodies(store, topic) == [b"0", b"1"] for topic in TOPICS)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["closed", "killed"])
def test_a_start_that_makes_queues_again_may_be_killed_at_any_moment(how: str) -> None:
    """The newest message's queue was restored and others were not, and an old mark used to vouch for all of them."""
    disk = RecordingDisk()
    store = filled(disk, TOPICS[:2])
    fill(store, TOPICS[2:3], rounds=UNWRITTEN_UNITS_MAX + 1)
    ended(store, how)
    disk.remove_tree(f"{ROOT}/consumequeue")
    moments: list[RecordingDisk] = []
    disk.on_change = lambda: moments.append(disk.image(Loss.NOTHING, Random(0)))
    store = opened(disk)
    while store.dispatch_some():
        pass
    disk.on_change = None
    assert len(moments) > 20
    for moment in moments:
        again = opened(moment)
        assert [again.max_offset(topic, 0) for topic in TOPICS[:3]] == [2, 2, UNWRITTEN_UNITS_MAX + 1]
        again.abandon()


def test_a_store_that_an_old_apache_has_closed_is_looked_through() -> None:
    """5.3.3 leaves the checkpoint's offsets as they were, and writes the times of its own last message."""
    disk = RecordingDisk()
    assert filled(disk, TOPICS).close()
    checkpoint = Checkpoint.read(disk, f"{ROOT}/checkpoint")
    checkpoint.log_timestamp_ms = checkpoint.queues_timestamp_ms = checkpoint.log_timestamp_ms + 1
    checkpoint.write(disk, f"{ROOT}/checkpoint")
    store = opened(disk)
    assert len(list(store.queues.opened())) == len(TOPICS)


def test_a_log_that_lost_what_was_closed_takes_the_units_with_it(make_store: MakeStore, tmp_path: Path) -> None:
    store = make_store()
    fill(store, TOPICS)
    last = store.end_offset - store.log.segments.base_of(store.end_offset)
    assert store.close()
    newest = sorted(path for path in (tmp_path / "store/commitlog").iterdir() if any(path.read_bytes()))[-1]
    data = bytearray(newest.read_bytes())
    data[last - 2] ^= 0xFF
    newest.write_bytes(data[: last - 40] + bytes(len(data) - last + 40))
    again = make_store()
    assert sum(queue.max_offset for queue in again.queues.all()) == 2 * len(TOPICS) - 1


# -- one queue that is not as it should be


@pytest.fixture
def one_is_damaged(make_store: MakeStore, tmp_path: Path) -> Iterator[MessageStore]:
    store = make_store()
    fill(store, TOPICS[:5])
    assert store.close()
    path = tmp_path / "store/consumequeue" / TOPICS[2] / "0" / f"{0:020d}"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    yield make_store()
    path.write_bytes(whole)


def test_a_queue_that_cannot_be_opened_is_refused_and_the_others_are_served(one_is_damaged: MessageStore) -> None:
    store = one_is_damaged
    for _ in range(2):
        with pytest.raises(MessageRefused, match=f"{TOPICS[2]}/0/.* is 199 bytes long"):
            put(store, TOPICS[2])
        with pytest.raises(StorageError, match="is 199 bytes long"):
            store.max_offset(TOPICS[2], 0)
    put_many(store, 1, TOPICS[1])
    assert store.max_offset(TOPICS[1], 0) == 3


def test_a_queue_that_could_not_be_opened_is_served_once_it_is_mended(
    one_is_damaged: MessageStore, tmp_path: Path
) -> None:
    with pytest.raises(StorageError):
        one_is_damaged.get(TOPICS[2], 0, 0, 32)
    path = tmp_path / "store/consumequeue" / TOPICS[2] / "0" / f"{0:020d}"
    shutil.copy(path.parents[2] / TOPICS[3] / "0" / path.name, path)
    assert one_is_damaged.max_offset(TOPICS[2], 0) == 2


def test_a_topic_that_nobody_has_asked_for_can_be_deleted(one_is_damaged: MessageStore, tmp_path: Path) -> None:
    one_is_damaged.delete_topic(TOPICS[2])
    one_is_damaged.delete_topic(TOPICS[3])
    assert sorted(path.name for path in (tmp_path / "store/consumequeue").iterdir()) == ["T0", "T1", "T4"]
    assert sorted(one_is_damaged.queues.names()) == ["T0", "T1", "T4"]
    assert put(one_is_damaged, TOPICS[3]).queue_offset == 0
    (tmp_path / "store/consumequeue" / TOPICS[2] / "0").mkdir(parents=True)  # the fixture needs it
    (tmp_path / "store/consumequeue" / TOPICS[2] / "0" / f"{0:020d}").touch()


def test_a_reader_of_a_live_store_sees_one_moment(make_store: MakeStore, tmp_path: Path) -> None:
    """Queues that the reader opens later hold no message that came after it was opened."""
    store = make_store()
    fill(store, TOPICS[:5])
    store.flush()
    reader = open_read_only(tmp_path / "store", TINY)
    fill(store, TOPICS[:5])
    assert {topic: reader.max_offset(topic, 0) for topic in TOPICS[:5]} == dict.fromkeys(TOPICS[:5], 2)
    assert [queue.queue_id for queue in reader.queues.of_topic(TOPICS[4])] == [0]
    assert OsDisk().can_sync_file_system  # otherwise this tests nothing
    assert reader.close()
