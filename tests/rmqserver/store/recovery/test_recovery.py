"""What a crash can leave behind, and what the next start makes of it."""

import dataclasses
import errno
import logging
import shutil
from pathlib import Path
from random import Random

import pytest

from rmqproto.errors import StorageError
from rmqproto.java.java_hash import tag_code
from rmqproto.message.record import MAGIC_BLANK, decode_record_untrusted
from rmqserver.store.checks.finding import FindingKind
from rmqserver.store.checks.store_check import check_store
from rmqserver.store.disk.checkpoint import Checkpoint
from rmqserver.store.disk.disk import Disk, OsDisk
from rmqserver.store.found.survey import survey
from rmqserver.store.message_store import MessageStore
from rmqserver.store.recovery.recovery import FailedFlush
from tests.crash.recording_disk import Loss, RecordingDisk
from tests.rmqserver.store.conftest import TINY, MakeStore, bodies, put, put_many


@pytest.fixture
def crashed(make_store: MakeStore, tmp_path: Path) -> Path:
    """A store of 100 messages as a kill leaves it: at least 4 log files, nothing flushed."""
    put_many(make_store(tmp_path / "live"), 100)
    shutil.copytree(tmp_path / "live", tmp_path / "store")
    return tmp_path / "store"


EXPECTED = [b"body %d" % number for number in range(100)]


def last_record_at(directory: Path) -> tuple[Path, int]:
    path = sorted((directory / "commitlog").iterdir())[-1]
    while not any(path.read_bytes()):  # a file made ahead
        path = path.with_name(f"{int(path.name) - 4096:020d}")
    data, at = path.read_bytes(), 0
    while (size := int.from_bytes(data[at : at + 4], "big")) and data[at + size : at + size + 4] != bytes(4):
        at += size
    return path, at


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def test_a_killed_store_has_every_message_that_was_written(make_store: MakeStore, crashed: Path) -> None:
    store = make_store()
    assert bodies(store) == EXPECTED
    assert all(store.query("T", f"k{number}", 10, 0, 1 << 60).records for number in range(100))


def test_recovering_twice_changes_nothing(make_store: MakeStore, crashed: Path) -> None:
    first = make_store()
    end = first.confirmed_offset
    shutil.copytree(crashed, crashed.with_name("again"))
    again = make_store(crashed.with_name("again"))
    assert again.confirmed_offset == end
    assert bodies(again) == bodies(first)


def test_a_record_torn_in_its_body_is_cut_off(make_store: MakeStore, crashed: Path) -> None:
    path, at = last_record_at(crashed)
    overwrite(path, at + 90, b"?")
    store = make_store()
    assert bodies(store) == EXPECTED[:-1]
    assert store.confirmed_offset == int(path.name) + at
    put(store, body=b"next")
    store.commit()
    assert bodies(store) == [*EXPECTED[:-1], b"next"]


def test_what_lies_behind_the_end_can_never_come_back(make_store: MakeStore, crashed: Path) -> None:
    """When a record of the same size overwrote a torn record, the intact old one behind it used to become valid
    again."""
    path, at = last_record_at(crashed)
    size = int.from_bytes(path.read_bytes()[at : at + 4], "big")
    torn_at = at - size
    overwrite(path, torn_at + 90, b"?")
    store = make_store()
    assert bodies(store) == EXPECTED[:-2]
    put(store, body=b"body NN", keys="k98", unique="U98")
    store.commit()
    shutil.copytree(crashed, crashed.with_name("again"))
    assert bodies(make_store(crashed.with_name("again"))) == [*EXPECTED[:-2], b"body NN"]


def test_lost_queues_and_index_are_made_again_from_the_log(make_store: MakeStore, crashed: Path) -> None:
    shutil.rmtree(crashed / "consumequeue")
    shutil.rmtree(crashed / "index")
    store = make_store()
    assert bodies(store) == EXPECTED
    assert store.query("T", "U7", 10, 0, 1 << 60).records


def test_the_last_index_files_of_a_closed_store_are_made_again(make_store: MakeStore, crashed: Path) -> None:
    assert make_store().close()
    names = sorted((crashed / "index").iterdir())
    assert len(names) > 2
    for name in names[-2:]:
        name.unlink()
    store = make_store()
    assert all(store.query("T", f"U{number}", 10, 0, 1 << 60).records for number in range(100))
    assert not store.dispatch_some()
    assert store.close()
    assert not any(
        each.kind is FindingKind.INDEX_DIFFERS for each in check_store(survey(str(crashed), OsDisk())).findings
    )


def test_a_page_of_a_queue_that_never_reached_the_disk_is_filled_again(make_store: MakeStore, crashed: Path) -> None:
    shutil.copytree(crashed, crashed.with_name("full"))
    full = make_store(crashed.with_name("full"))
    full.close()
    (crashed.with_name("full") / "abort").write_text("1")
    overwrite(crashed.with_name("full") / "consumequeue/T/0" / f"{80 * 20:020d}", 3 * 20, bytes(4 * 20))
    assert bodies(make_store(crashed.with_name("full"))) == EXPECTED


@pytest.mark.parametrize("sector", [1, 2, 3, 4])
@pytest.mark.parametrize("lost_bytes", [512, 8192], ids=["that one", "and all behind"])
@pytest.mark.parametrize("is_in_log", [True, False], ids=["in the log", "not in the log"])
def test_a_unit_torn_between_two_sectors_is_made_again(
    make_store: MakeStore, tmp_path: Path, sector: int, lost_bytes: int, is_in_log: bool
) -> None:
    """The loss leaves only the first part of a unit: log offset and size without the tag, or the log offset alone. A
    consumer that filters used to miss the message, or every consumer did."""
    options = dataclasses.replace(TINY, consume_queue_file_size_bytes=200 * 20)
    store = make_store(tmp_path / "live", options)
    tags = ["red" if number % 2 else "green" for number in range(190)]
    done = []
    for tag in tags:
        done.append(put(store, tags=tag))
        store.commit()
    while store.dispatch_some():
        pass
    shutil.copytree(tmp_path / "live", tmp_path / "store")
    at = 512 * sector
    overwrite(tmp_path / f"store/consumequeue/T/0/{0:020d}", at, bytes(min(lost_bytes, 200 * 20 - at)))
    if not is_in_log:
        lost = done[at // 20].log_offset
        overwrite(tmp_path / f"store/commitlog/{lost // 4096 * 4096:020d}", lost % 4096, bytes(4096 - lost % 4096))
        tags = tags[: at // 20]
    again = make_store(options=options)
    assert again.max_offset("T", 0) == len(tags)
    queue = again.queues.find("T", 0)
    assert queue.tag_codes(0, len(tags)) == [tag_code(tag) for tag in tags]


def test_units_of_records_that_the_log_lost_are_taken_back(make_store: MakeStore, tmp_path: Path) -> None:
    """Consume queue pages may reach the disk before the log does."""
    store = make_store()
    put_many(store, 100)
    assert store.close()
    (tmp_path / "store/abort").write_text("1")
    Checkpoint().write(OsDisk(), str(tmp_path / "store/checkpoint"))
    path, at = last_record_at(tmp_path / "store")
    overwrite(path, at, bytes(4096 - at))
    again = make_store()
    assert bodies(again) == EXPECTED[:99]
    assert put_many(again, 1)[0].queue_offset == 99


def test_an_index_that_knows_more_than_the_log_is_made_again(make_store: MakeStore, tmp_path: Path) -> None:
    """A stale entry would answer a look-up with the message that now lies at its offset."""
    store = make_store()
    put_many(store, 100)
    assert store.close()
    (tmp_path / "store/abort").write_text("1")
    path, at = last_record_at(tmp_path / "store")
    overwrite(path, at, bytes(4096 - at))
    again = make_store()
    assert again.query("T", "k99", 10, 0, 1 << 60).records == []
    assert all(again.query("T", f"k{number}", 10, 0, 1 << 60).records for number in range(99))


def test_damage_in_the_oldest_file_is_refused_and_not_taken_for_an_empty_log(
    make_store: MakeStore, crashed: Path
) -> None:
    overwrite(crashed / "commitlog/00000000000000000000", 0, bytes(200))
    with pytest.raises(StorageError, match="no readable record at log offset 0"):
        make_store()


def test_a_power_cut_before_the_first_flush_of_all_is_no_damage(make_store: MakeStore, tmp_path: Path) -> None:
    """The second file is made ahead, so its name, and queue units, may reach the device before any message does. The
    start used to be refused."""
    directory = tmp_path / "store"
    store = make_store(tmp_path / "live")
    put_many(store, 20)
    assert not store.dispatch_some()
    shutil.copytree(tmp_path / "live", directory)
    overwrite(directory / "commitlog/00000000000000000000", 0, bytes(4096))
    with (directory / f"commitlog/{4096:020d}").open("wb") as file:
        file.truncate(4096)
    again = make_store()
    assert (again.confirmed_offset, again.max_offset("T", 0)) == (0, 0)
    put_many(again, 30)
    assert bodies(again) == EXPECTED[:30]


def test_a_queue_file_whose_size_was_lost_is_made_again(make_store: MakeStore, crashed: Path) -> None:
    """Names may reach the device before sizes. The start used to be refused if there was a later file."""
    make_store().close()
    (crashed / "abort").write_text("1")
    Checkpoint().write(OsDisk(), str(crashed / "checkpoint"))
    (crashed / "consumequeue/T/0/00000000000000000200").write_bytes(b"")
    assert bodies(make_store()) == EXPECTED


def test_an_index_file_whose_size_was_lost_is_made_again(make_store: MakeStore, crashed: Path) -> None:
    (crashed / "index/20231114221320000").write_bytes(b"")
    store = make_store()
    assert all(store.query("T", f"k{number}", 10, 0, 1 << 60).records for number in range(100))


def test_a_record_torn_in_its_properties_is_cut_off(make_store: MakeStore, crashed: Path) -> None:
    """No checksum covers properties: the message used to come back without its tag and keys, and consumers got it."""
    store = make_store()
    put(store, body=b"next", keys="k" * 600, tags="red")
    store.commit()
    shutil.copytree(crashed, crashed.with_name("again"))
    path, at = last_record_at(crashed.with_name("again"))
    overwrite(path, at // 512 * 512 + 512, bytes(512))
    assert bodies(make_store(crashed.with_name("again"))) == EXPECTED


def test_a_blank_whose_size_was_torn_off_leads_to_the_next_file(make_store: MakeStore, crashed: Path) -> None:
    path = crashed / "commitlog" / f"{0:020d}"
    magic_at = path.read_bytes().rindex(MAGIC_BLANK.to_bytes(4, "big", signed=True))
    overwrite(path, magic_at - 4, bytes(4))
    assert bodies(make_store()) == EXPECTED


def test_a_checkpoint_after_the_first_message_of_all_is_still_ours(make_store: MakeStore, tmp_path: Path) -> None:
    """It names log offset 0, like that of an old Apache broker. So a later message with torn properties used to be
    taken for whole."""
    store = make_store(tmp_path / "live")
    put_many(store, 1)
    store.flush()
    put(store, keys="k" * 600)
    store.commit()
    shutil.copytree(tmp_path / "live", tmp_path / "store")
    overwrite(tmp_path / "store/commitlog/00000000000000000000", 512, bytes(512))
    assert bodies(make_store()) == EXPECTED[:1]


def test_damage_before_the_checkpoint_is_reported(
    make_store: MakeStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = make_store()
    put_many(store, 100)
    assert store.close()
    (tmp_path / "store/abort").write_text("1")
    path, at = last_record_at(tmp_path / "store")
    overwrite(path, at + 90, b"?")
    with caplog.at_level(logging.ERROR):
        make_store()
    assert "damaged" in caplog.text


def test_offsets_that_no_record_has_are_stepped_over(make_store: MakeStore, crashed: Path) -> None:
    """A round whose write failed has used queue offsets. The next message must keep its own."""
    store = make_store()
    queue = store.queues.find("T", 0)
    queue.append_recovered(103, store.confirmed_offset + 1000, 100, 0)
    assert queue.next_offset == 104
    assert store.get("T", 0, 100, 32).next_offset >= 103


def test_a_queue_may_start_behind_zero(make_store: MakeStore, tmp_path: Path) -> None:
    """After its topic was deleted and its older records expired, the first record may have any queue offset."""
    store = make_store()
    put_many(store, 100)
    assert store.close()
    shutil.rmtree(tmp_path / "store/consumequeue")
    for path in sorted((tmp_path / "store/commitlog").iterdir())[:2]:
        path.unlink()
    (tmp_path / "store/abort").write_text("1")
    again = make_store()
    first = again.min_offset("T", 0)
    assert 0 < first < 100
    assert bodies(again) == EXPECTED[first:]
    assert again.close()
    assert bodies(make_store()) == EXPECTED[first:]


def test_a_clean_stop_leaves_no_abort_mark_and_a_checkpoint(make_store: MakeStore, tmp_path: Path) -> None:
    store = make_store()
    assert (tmp_path / "store/abort").exists()
    last = put_many(store, 10)[-1]
    assert store.close()
    assert not (tmp_path / "store/abort").exists()
    checkpoint = Checkpoint.read(OsDisk(), str(tmp_path / "store/checkpoint"))
    assert checkpoint.queues_log_offset == last.log_offset
    assert checkpoint.is_ours
    assert checkpoint.index_timestamp_ms == checkpoint.queues_timestamp_ms == 1_700_000_000_000


def test_a_clean_start_reads_one_record_not_the_log(make_store: MakeStore) -> None:
    store = make_store()
    put_many(store, 100)
    assert store.close()
    again = MessageStore(store.directory.root, TINY, background=False)
    assert again.open().replayed_count == 1
    assert again.close()


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_crash_after_a_checkpoint_replays_from_there_on(make_store: MakeStore, crashed: Path, is_ours: bool) -> None:
    """From the record itself if the checkpoint is ours. Apache's broker flushes queues first, so its checkpoint counts
    from the start of the record's file."""
    store = make_store()
    store.flush()
    put_many(store, 3)
    shutil.copytree(crashed, crashed.with_name("again"))
    if not is_ours:
        overwrite(crashed.with_name("again") / "checkpoint", 48, bytes(8))
    again = MessageStore(crashed.with_name("again"), TINY, background=False)
    replayed = again.open().replayed_count
    assert replayed == 4 if is_ours else 4 < replayed < 40
    assert len(bodies(again)) == 103
    assert all(again.query("T", f"U{number}", 10, 0, 1 << 60).records for number in range(100))
    assert again.close()


def test_entries_that_cannot_be_written_are_a_reason_to_refuse_writes(make_store: MakeStore) -> None:
    store = make_store(Path("/store"), disk=RecordingDisk())

    def fail(operation: str, path: str) -> None:
        if operation == "pwrite" and "/index/" in path:
            raise OSError(errno.EIO, "the device is broken", path)

    store.disk.on_call = fail  # type: ignore[attr-defined]
    put_many(store, 3)
    store.flush()
    assert "the index cannot go on: /store/index/" in store.flags.reason
    store.disk.on_call = None  # type: ignore[attr-defined]
    assert not store.close()


def test_a_log_that_cannot_be_read_for_the_index_is_a_reason_to_refuse_writes(make_store: MakeStore) -> None:
    """The index reads the log after the start, in a task of the broker. An error there used to end the broker."""
    recorded = RecordingDisk()
    put_many(make_store(Path("/store"), disk=recorded), 30)
    store = make_store(Path("/store"), disk=recorded.image(Loss.NOTHING, Random(0)))

    def fail(operation: str, path: str) -> None:
        if operation == "pread":
            raise OSError(errno.EIO, "the device is broken", path)

    store.disk.on_call = fail  # type: ignore[attr-defined]
    while store.dispatch_some():
        pass
    assert "the index cannot go on: /store/commitlog/" in store.flags.reason
    assert not store.flags.has_only_lacked_room
    store.disk.on_call = None  # type: ignore[attr-defined]


# -- killed, while the machine stayed up


@pytest.fixture
def killed(tmp_path: Path) -> MessageStore:
    """The store of a process that was killed: 100 messages dispatched, 3 more only appended; nothing was flushed."""
    store = MessageStore(tmp_path / "store", TINY, background=False)
    store.open()
    put_many(store, 100)
    while store.dispatch_some():
        pass
    put_many(store, 3)
    store.abandon()
    return store


def replayed_count(directory: Path | str, disk: Disk | None = None) -> int:
    store = MessageStore(directory, TINY, disk, background=False)
    replayed = store.open().replayed_count
    assert len(bodies(store)) == 103
    assert all(store.query("T", f"U{number}", 10, 0, 1 << 60).records for number in range(100))
    assert store.close()
    return replayed


def test_only_what_was_not_dispatched_is_replayed(killed: MessageStore) -> None:
    assert replayed_count(killed.directory.root) == 4


def test_a_copy_of_a_killed_store_is_replayed_from_the_checkpoint_on(killed: MessageStore, tmp_path: Path) -> None:
    """The parts of a copy may come from different moments."""
    shutil.copytree(killed.directory.root, tmp_path / "copy")
    assert replayed_count(tmp_path / "copy") == 103


@pytest.mark.parametrize("boot_id", ["another\n", None], ids=["another", "unknown"])
def test_after_another_start_of_the_machine_all_is_replayed(
    killed: MessageStore, tmp_path: Path, boot_id: str | None
) -> None:
    if boot_id is not None:
        (tmp_path / "boot_id").write_text(boot_id)
    disk = OsDisk()
    disk.boot_id_path = str(tmp_path / "boot_id")
    assert replayed_count(killed.directory.root, disk) == 103


@pytest.mark.parametrize("keeps_file_made_ahead", [False, True])
@pytest.mark.parametrize("is_same_boot", [True, False])
def test_a_log_that_was_removed_after_a_kill_is_not_taken_for_an_empty_one(
    tmp_path: Path, keeps_file_made_ahead: bool, is_same_boot: bool
) -> None:
    """Before the first checkpoint, a power cut may take the log and leave queue units. While the machine is up, nothing
    that a killed process wrote can be missing, and the start used to open such a store as an empty one."""
    store = MessageStore(tmp_path / "store", TINY, background=False)
    store.open()
    put_many(store, 10)
    while store.dispatch_some():
        pass
    store.abandon()
    (written,) = Path(store.directory.commit_log).iterdir()
    if keeps_file_made_ahead:
        written.with_name(f"{4096:020d}").write_bytes(bytes(4096))
    written.unlink()
    disk = OsDisk()
    if not is_same_boot:
        (tmp_path / "boot_id").write_text("another\n")
        disk.boot_id_path = str(tmp_path / "boot_id")
    again = MessageStore(tmp_path / "store", TINY, disk, background=False)
    if is_same_boot:
        with pytest.raises(StorageError, match="holds no message, though consume queues know some"):
            again.open()
    else:
        again.open()
        again.close()


def test_after_a_failed_flush_all_is_replayed(killed: MessageStore) -> None:
    """The kernel may have dropped pages that it could not write."""
    FailedFlush(killed.directory.failed_flush, OsDisk()).mark(0)
    assert replayed_count(killed.directory.root) == 103


def test_the_note_of_what_was_dispatched_is_gone_when_apaches_broker_has_run(killed: MessageStore) -> None:
    Path(killed.directory.root, "abort").write_text("4711")  # Apache's broker does this at its start
    assert replayed_count(killed.directory.root) == 103


def test_an_index_of_many_files_survives_every_kind_of_stop(make_store: MakeStore, crashed: Path) -> None:
    store = make_store()
    put_many(store, 30)
    assert store.close()
    (crashed / "abort").write_text("1")
    again = make_store(options=dataclasses.replace(TINY))
    for number in range(100):
        found = again.query("T", f"U{number}", 10, 0, 1 << 60).records
        offsets = [decode_record_untrusted(record).log_offset for record in found]
        assert len(offsets) == len(set(offsets)) == (2 if number < 30 else 1)
