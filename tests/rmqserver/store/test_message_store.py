"""What the broker relies on: when messages are seen, what is refused and why, and that nothing is written after a
failed write."""

import dataclasses
import errno
import select
import shutil
from pathlib import Path
from typing import Any

import pytest

from rmqproto.errors import StorageError
from rmqproto.filters.message_filter import MessageFilter
from rmqproto.java.java_hash import tag_code
from rmqproto.message.record import BatchItem, decode_record_untrusted, encode_batch, host_bytes
from rmqserver import core
from rmqserver.store.disk.disk import DiskUsage, OsDisk, OsFile
from rmqserver.store.message_store import MessageStore, open_read_only
from rmqserver.store.options import StoreOptions
from rmqserver.store.queues.round import Arrival
from rmqserver.store.results import Boundary, GetStatus, MessageRefused, PutStatus
from tests.support.clock import Clock

from .conftest import HOST, TINY, TINY_SYNC, MakeStore, put, put_many

# -- visibility


def test_async_messages_are_seen_after_commit_and_not_before(make_store: MakeStore) -> None:
    store = make_store()
    appended = put(store)
    assert store.max_offset("T", 0) == 0
    assert store.get("T", 0, 0, 32).status is GetStatus.NO_MESSAGE_IN_QUEUE
    assert store.get_record(appended.log_offset) is None
    store.commit()
    assert store.max_offset("T", 0) == 1
    record = store.get_record(appended.log_offset)
    assert record is not None
    assert decode_record_untrusted(record).body == b"body"


def test_a_record_is_read_by_its_offset_whatever_its_size(make_store: MakeStore) -> None:
    """Also a record that is longer than the first read, ends with its file, or is the log's last."""
    store = make_store(options=dataclasses.replace(TINY, message_size_max_bytes=4000))
    sizes = [0, 1, 900, 1024, 2500, 3800, 10, 3900, 500]
    appended = [put(store, body=b"b" * size) for size in sizes]
    store.commit()
    for size, each in zip(sizes, appended, strict=True):
        record = store.get_record(each.log_offset)
        assert record is not None
        assert len(record) == each.size_bytes
        assert decode_record_untrusted(record).body == b"b" * size
        assert store.get_record(each.log_offset + 1) is None


def test_sync_messages_are_seen_after_their_flush_and_not_before(make_store: MakeStore) -> None:
    """A consumer must never see a message that a power cut can still take back (Apache issue 8239)."""
    store = make_store(options=TINY_SYNC)
    put(store)
    store.commit()
    assert store.written_offset > 0
    assert store.max_offset("T", 0) == store.confirmed_offset == store.flushed_offset == 0
    store.flush()
    assert store.max_offset("T", 0) == 1
    assert store.confirmed_offset == store.flushed_offset == store.written_offset


def test_the_flush_thread_rings_and_one_flush_covers_many_rounds(tmp_path: Path) -> None:
    seen: list[Arrival] = []
    options = dataclasses.replace(TINY_SYNC, commit_log_file_size_bytes=1 << 20)
    store = MessageStore(tmp_path, options, on_visible=seen.extend)
    store.open()
    for _ in range(50):
        put(store)
        store.commit()
    bell = select.poll()  # unlike select.select, poll also takes descriptors past 1,023
    bell.register(store.flush_fd, select.POLLIN)
    while store.flushed_offset < store.written_offset or store.max_offset("T", 0) < 50:
        assert bell.poll(30_000)
        store.on_flush_done()
    assert sum(arrival.message_count for arrival in seen) == 50
    assert store.close()


def test_arrivals_name_the_queue_the_first_offset_and_the_tags(make_store: MakeStore) -> None:
    seen: list[Arrival] = []
    store = make_store(on_visible=seen.extend)
    put(store)
    store.commit()
    seen.clear()
    put(store, tags="red")
    put(store, "Other", 3)
    put(store)
    store.commit()
    found = [(a.queue.topic, a.queue.queue_id, a.first_queue_offset, a.message_count) for a in seen]
    assert found == [("T", 0, 1, 2), ("Other", 3, 0, 1)]
    assert seen[0].queue.tag_codes(1, 2) == [tag_code("red"), 0]


# -- records


def test_a_stored_record_is_what_was_sent(make_store: MakeStore, clock: Clock) -> None:
    store = make_store()
    born, host = host_bytes("10.1.2.3", 50000), host_bytes("fe80::1", 10911)
    appended = store.append("T", 2, -5, 0x1, 77, born, host, 3, memoryview(b"body"), b"A\x01b\x02", 12)
    store.commit()
    record = store.get_record(appended.log_offset)
    assert record is not None
    assert len(record) == appended.size_bytes
    message = decode_record_untrusted(record)
    assert message.is_intact
    assert (message.topic, message.queue_id, message.flag, message.sys_flag) == ("T", 2, -5, 0x21)
    assert (message.born_host, message.store_host) == (born, host)
    assert (message.born_timestamp_ms, message.store_timestamp_ms) == (77, clock.now_ms)
    assert (message.reconsume_times, message.prepared_transaction_offset) == (3, 12)
    assert (message.body, message.properties) == (b"body", {"A": "b"})


def test_a_zero_byte_in_properties_is_refused(make_store: MakeStore) -> None:
    """Recovery takes zeros there for a lost sector, so the log would end at this message."""
    store = make_store()
    with pytest.raises(MessageRefused, match="zero byte"):
        put(store, properties=b"A\x01" + bytes(600) + b"\x02")
    put(store)
    store.commit()
    assert store.max_offset("T", 0) == 1


def test_half_and_rolled_back_messages_take_no_place_in_a_queue(make_store: MakeStore) -> None:
    store = make_store()
    put(store, sys_flag=0x4)
    put(store, sys_flag=0xC)
    committed = put(store, sys_flag=0x8)
    store.commit()
    assert committed.queue_offset == 0
    assert store.max_offset("T", 0) == 1
    store.close()
    assert make_store().max_offset("T", 0) == 1


def test_delayed_messages_carry_their_due_time_in_place_of_a_tag(make_store: MakeStore, clock: Clock) -> None:
    store = make_store()
    for level in (b"1", b"18", b"99"):
        put(store, "SCHEDULE_TOPIC_XXXX", 0, tags="red", properties=b"DELAY\x01" + level + b"\x02")
    put(store, "SCHEDULE_TOPIC_XXXX", 0, tags="red")
    store.commit()
    queue = store.queues.find("SCHEDULE_TOPIC_XXXX", 0)
    assert queue is not None
    hour_ms = 3_600_000
    due = [clock.now_ms + 1000, clock.now_ms + 2 * hour_ms, clock.now_ms + 2 * hour_ms]
    assert queue.tag_codes(0, 4) == [*due, tag_code("red")]


@pytest.mark.parametrize(
    ("properties", "tags"),
    [
        (b"TAGS\x01a\x02", "a"),
        (b"X\x01y\x02TAGS\x01a", "a"),
        (b"MYTAGS\x01b\x02TAGS\x01a\x02", "a"),
        (b"MYTAGS\x01b\x02", ""),
    ],
)
def test_tags_are_found_wherever_they_stand(make_store: MakeStore, properties: bytes, tags: str) -> None:
    store = make_store()
    put(store, properties=properties)
    store.commit()
    queue = store.queues.find("T", 0)
    assert queue.tag_codes(0, 1) == [tag_code(tags)]


# -- refusals


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"body": bytes(1025)}, PutStatus.MESSAGE_ILLEGAL),
        ({"topic": "t" * 128}, PutStatus.MESSAGE_ILLEGAL),
        ({"topic": "%RETRY%" + "t" * 249}, PutStatus.MESSAGE_ILLEGAL),
        ({"properties": bytes(32768)}, PutStatus.PROPERTIES_SIZE_EXCEEDED),
        ({"flag": 1 << 40}, PutStatus.MESSAGE_ILLEGAL),
        ({"topic": "../../outside"}, PutStatus.MESSAGE_ILLEGAL),
    ],
)
def test_what_does_not_fit_is_refused_and_takes_no_offset(
    make_store: MakeStore, fields: dict[str, Any], status: PutStatus
) -> None:
    store = make_store(options=dataclasses.replace(TINY, commit_log_file_size_bytes=1 << 20))
    with pytest.raises(MessageRefused) as refused:
        put(store, **fields)
    assert refused.value.status is status
    appended = put(store)
    store.commit()
    assert (appended.log_offset, appended.queue_offset) == (0, 0)


def test_a_long_retry_topic_is_stored_as_version_2(make_store: MakeStore) -> None:
    store = make_store()
    topic = "%RETRY%" + "g" * 200
    appended = put(store, topic)
    store.commit()
    record = store.get_record(appended.log_offset)
    assert record is not None
    assert record[4:8].hex() == "daa320ab"
    assert decode_record_untrusted(record).topic == topic


def test_a_batch_is_one_run_of_records_in_one_file(make_store: MakeStore) -> None:
    store = make_store()
    for _ in range(3):
        put(store, body=bytes(1000))
    items = [BatchItem(number, b"item %d" % number * 20, b"TAGS\x01t\x02") for number in range(5)]
    first, offsets = store.append_batch("T", 0, 0, 1, HOST, HOST, 0, encode_batch(items))
    store.commit()
    assert (first.log_offset, first.queue_offset) == (4096, 3)
    messages = [decode_record_untrusted(record) for record in store.get("T", 0, 3, 32).records()]
    assert [message.log_offset for message in messages] == offsets
    assert [(message.flag, message.body) for message in messages] == [(item.flag, item.body) for item in items]


@pytest.mark.parametrize("sys_flag", [0x4, 0x8, 0xC])
def test_a_batch_in_a_transaction_is_refused(make_store: MakeStore, sys_flag: int) -> None:
    with pytest.raises(MessageRefused):
        make_store().append_batch("T", 0, sys_flag, 1, HOST, HOST, 0, encode_batch([BatchItem(0, b"a", b"")]))


# -- failures


class FailingDisk(OsDisk):
    """The disk of files that fail as they are told; ``fail`` names the methods. What else fills the real disk meanwhile
    is not seen: refusals tell how full it is, and two brokers are to refuse in the same words."""

    def __init__(self) -> None:
        self.fail: set[str] = set()

    def usage(self, path: str) -> DiskUsage:
        return DiskUsage(1 << 30, 1 << 40)

    def open(self, path: str, **more: Any) -> OsFile:
        disk, inner = self, super().open(path, **more)

        class Failing(OsFile):
            def pwrite(self, data: Any, at: int) -> None:
                disk.check("pwrite", path)
                super().pwrite(data, at)

            def fdatasync(self) -> None:
                disk.check("fdatasync", path)
                super().fdatasync()

        fd, inner.fd = inner.fd, -1
        return Failing(path, fd)

    def check(self, name: str, path: str) -> None:
        if name in self.fail and "commitlog" in path:
            raise OSError(errno.EIO, "device error", path)


def test_after_a_failed_write_nothing_is_acknowledged_or_taken_and_reads_go_on(make_store: MakeStore) -> None:
    disk = FailingDisk()
    store = make_store(disk=disk)
    put_many(store, 3)
    disk.fail.add("pwrite")
    put(store)
    with pytest.raises(StorageError, match="commitlog"):
        store.commit()
    disk.fail.clear()
    assert store.flags.refuses_writes
    assert "device error" in store.flags.reason
    assert not store.flags.has_only_lacked_room
    with pytest.raises(MessageRefused) as refused:
        put(store)
    assert refused.value.status is PutStatus.SERVICE_NOT_AVAILABLE
    assert len(store.get("T", 0, 0, 32).sizes) == store.max_offset("T", 0) == 3
    assert store.close() is False
    again = make_store()
    assert again.max_offset("T", 0) == 3


def test_a_failed_flush_is_never_tried_again(make_store: MakeStore) -> None:
    """The kernel marks pages clean after a failed fsync, so a second one would succeed without them."""
    disk = FailingDisk()
    store = make_store(disk=disk, options=TINY_SYNC)
    put(store)
    store.commit()
    disk.fail.add("fdatasync")
    store.flush()
    disk.fail.clear()
    store.flush()
    assert store.flags.refuses_writes
    assert store.max_offset("T", 0) == store.flushed_offset == 0
    assert store.close() is False


def test_a_store_in_use_is_refused_and_says_by_whom(make_store: MakeStore, tmp_path: Path) -> None:
    make_store()
    with pytest.raises(StorageError, match="in use by process"):
        make_store()
    assert open_read_only(tmp_path / "store", TINY).close()


def test_a_file_of_another_size_is_refused_with_the_setting_to_change(make_store: MakeStore) -> None:
    store = make_store()
    put_many(store, 1)
    store.close()
    with pytest.raises(StorageError, match=r"4096 bytes long; files here should have 8192") as refused:
        make_store(options=dataclasses.replace(TINY, commit_log_file_size_bytes=8192))
    assert "mappedFileSizeCommitLog" in (refused.value.hint or "")


def test_a_missing_file_in_the_middle_is_refused(make_store: MakeStore, tmp_path: Path) -> None:
    store = make_store()
    put_many(store, 100)
    store.close()
    (tmp_path / "store/commitlog/00000000000000004096").unlink()
    with pytest.raises(StorageError, match="4096 is missing"):
        make_store()


@pytest.mark.parametrize("content", [bytes(200), b"\xff" * 200], ids=["zeros", "garbage"])
def test_a_hole_in_a_queue_is_refused_after_a_clean_stop(make_store: MakeStore, tmp_path: Path, content: bytes) -> None:
    """The queue used to end there: what lay behind it was hidden, and its queue offsets went to new messages. The hint
    holds: without consumequeue/ all is made again."""
    store = make_store()
    put_many(store, 25)
    put_many(store, 1, topic="U")  # a start opens the queues of the log's end
    store.close()
    (tmp_path / "store/consumequeue/T/0/00000000000000000200").write_bytes(content)
    store = make_store()
    with pytest.raises(StorageError, match="00200: no unit of a message at queue offset 10,") as refused:
        store.max_offset("T", 0)
    assert "without the directory consumequeue/" in (refused.value.hint or "")
    store.close()
    shutil.rmtree(tmp_path / "store/consumequeue")
    store = make_store()
    assert (store.min_offset("T", 0), store.max_offset("T", 0)) == (0, 25)


def test_what_is_no_queue_is_named_to_those_who_look(make_store: MakeStore, tmp_path: Path) -> None:
    store = make_store()
    put_many(store, 1)
    store.close()
    (tmp_path / "store/consumequeue/stray").touch()
    with pytest.raises(StorageError, match="consumequeue/stray is a file"):
        open_read_only(tmp_path / "store", TINY)


def test_a_rocksdb_store_is_refused(make_store: MakeStore, tmp_path: Path) -> None:
    (tmp_path / "store/consumequeue").mkdir(parents=True)
    (tmp_path / "store/consumequeue/CURRENT").touch()
    with pytest.raises(StorageError, match="RocksDB"):
        make_store()


def test_a_store_with_extended_consume_queues_is_refused(make_store: MakeStore, tmp_path: Path) -> None:
    """The units of such queues hold addresses in place of tags."""
    (tmp_path / "store/consumequeue_ext/T/0").mkdir(parents=True)
    with pytest.raises(StorageError, match="enableConsumeQueueExt=true") as refused:
        make_store()
    assert "can be rebuilt from commitlog/" in (refused.value.hint or "")


# -- reading


def test_get_tells_where_to_go_on(make_store: MakeStore) -> None:
    store = make_store()
    assert store.get("T", 0, 0, 32).status is GetStatus.NO_MATCHED_LOGIC_QUEUE
    put_many(store, 3)
    assert store.get("T", 0, 3, 32).status is GetStatus.OFFSET_OVERFLOW_ONE
    badly = store.get("T", 0, 9, 32)
    assert (badly.status, badly.next_offset) == (GetStatus.OFFSET_OVERFLOW_BADLY, 3)
    small = store.get("T", 0, -1, 32)
    assert (small.status, small.next_offset) == (GetStatus.OFFSET_TOO_SMALL, 0)


def test_get_stops_at_its_limits_but_never_before_the_first_message(make_store: MakeStore) -> None:
    store = make_store()
    put_many(store, 40)
    assert len(store.get("T", 0, 0, 100).sizes) == 32
    assert len(store.get("T", 0, 0, 5).sizes) == 5
    assert len(store.get("T", 0, 0, 32, max_bytes=1).sizes) == 1


def test_get_of_interleaved_queues_returns_each_its_own(make_store: MakeStore) -> None:
    store = make_store(options=dataclasses.replace(TINY, commit_log_file_size_bytes=1 << 20))
    for number in range(60):
        put(store, "T", number % 3, b"%d" % number)
    store.commit()
    bodies = [decode_record_untrusted(record).body for record in store.get("T", 1, 0, 32).records()]
    assert bodies == [b"%d" % number for number in range(1, 60, 3)]
    filtered = store.get("T", 1, 0, 32, wanted=MessageFilter(lambda code: False))
    assert (filtered.status, filtered.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 20)


def test_a_cached_read_is_loaded_or_can_be_loaded_elsewhere(make_store: MakeStore) -> None:
    store = make_store()
    put_many(store, 5)
    result = store.get("T", 0, 0, 32, cached_only=True)
    if not result.is_loaded:
        store.load(result)
    assert len(result.records()) == 5


@pytest.mark.parametrize(
    ("timestamp", "lower", "upper"), [(0, 0, 0), (1000, 0, 1), (1500, 2, 1), (2000, 2, 3), (9000, 4, 3)]
)
def test_offset_for_time(make_store: MakeStore, clock: Clock, timestamp: int, lower: int, upper: int) -> None:
    store = make_store()
    for at_ms in (1000, 1000, 2000, 2000):
        clock.now_ms = at_ms
        put_many(store, 1)
    assert store.offset_for_time("T", 0, timestamp) == lower
    assert store.offset_for_time("T", 0, timestamp, Boundary.UPPER) == upper
    assert store.earliest_store_time("T", 0) == 1000
    assert store.earliest_store_time("T", 1) == -1


# -- housekeeping


def test_the_next_log_file_is_made_before_it_is_needed(tmp_path: Path) -> None:
    store = MessageStore(tmp_path, TINY)
    store.open()
    put(store)
    store.commit()
    assert store.close()
    assert sorted(path.name for path in (tmp_path / "commitlog").iterdir()) == [f"{0:020d}", f"{4096:020d}"]
    again = MessageStore(tmp_path, TINY)
    again.open()
    assert put_many(again, 50)[-1].queue_offset == 50
    assert again.close()


def test_a_thousand_queues_without_messages_make_no_file(make_store: MakeStore, tmp_path: Path) -> None:
    store = make_store()
    for queue_id in range(1024):
        assert store.get("BenchmarkTest", queue_id, 0, 32).status is GetStatus.NO_MATCHED_LOGIC_QUEUE
    assert list((tmp_path / "store/consumequeue").iterdir()) == []


def test_a_deleted_topic_is_gone_and_starts_anew(make_store: MakeStore, tmp_path: Path) -> None:
    store = make_store()
    put_many(store, 30, "Gone")
    put_many(store, 1, "Kept")
    store.flush()
    store.delete_topic("Gone")
    assert not (tmp_path / "store/consumequeue/Gone").exists()
    assert store.get("Gone", 0, 0, 32).status is GetStatus.NO_MATCHED_LOGIC_QUEUE
    assert put_many(store, 1, "Gone")[0].queue_offset == 0
    assert store.close()
    again = make_store()
    assert (again.max_offset("Gone", 0), again.max_offset("Kept", 0)) == (1, 1)


def test_options_that_may_change_take_effect_at_once(make_store: MakeStore) -> None:
    store = make_store()
    store.use_options(dataclasses.replace(TINY, message_size_max_bytes=10, commit_log_file_size_bytes=1 << 30))
    with pytest.raises(MessageRefused, match="maxMessageSize is 10"):
        put(store, body=bytes(11))
    assert store.options.commit_log_file_size_bytes == TINY.commit_log_file_size_bytes


def test_a_read_only_store_finds_file_sizes_and_the_newest_messages_itself(
    make_store: MakeStore, tmp_path: Path
) -> None:
    store = make_store()
    put_many(store, 50)
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "store", copy)
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    reader = open_read_only(copy, StoreOptions(index_slot_count=7, index_unit_count=20))
    assert reader.max_offset("T", 0) == 50
    assert reader.query("T", "k49", 10, 0, 1 << 60).records == store.query("T", "k49", 10, 0, 1 << 60).records
    assert reader.close()
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before


def test_what_the_round_has_written_is_read_without_the_disk(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A waiting consumer gets a message in the round in which it comes. Older messages are read from the file."""
    store = make_store()
    put_many(store, 2)
    offsets = [put(store, body=b"%d" % number).log_offset for number in range(3)]
    store.commit()
    read = OsFile.pread
    asked: list[int] = []
    monkeypatch.setattr(OsFile, "pread", lambda self, size, at: asked.append(at) or read(self, size, at))
    found = store.get("T", 0, 2, 32)
    assert [decode_record_untrusted(record).body for record in found.records()] == [b"0", b"1", b"2"]
    assert store.get_record(offsets[1]) == found.records()[1]
    assert not asked
    assert len(store.get("T", 0, 1, 32).records()) == 4
    assert asked or core.IS_NATIVE, "some lie before what the round has written"
