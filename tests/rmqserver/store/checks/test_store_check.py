"""A store without damage is clean, whichever broker wrote it. Each kind of damage is found at its place, with the loss
and the consequence."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rmqproto.errors import StorageError, UsageError
from rmqproto.message.record import RECORD_V4
from rmqproto.names import SCHEDULE_TOPIC
from rmqserver.store.checks import log_walk
from rmqserver.store.checks.finding import FINDINGS_OF_A_KIND_MAX, FindingKind, Severity, StoreFinding
from rmqserver.store.checks.index_check import IndexCheck
from rmqserver.store.checks.log_walk import LogStretch, walk, walk_in_use
from rmqserver.store.checks.queue_check import LEFT
from rmqserver.store.checks.store_check import check_store
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.found.found_files import commit_log_of
from rmqserver.store.found.survey import Queues, Writer, survey
from rmqserver.store.index.index_file import IndexFile, entries_of
from rmqserver.store.index.live_file import LiveIndexFile
from rmqserver.store.log.scan import FoundRecord, scan
from rmqserver.store.message_store import MessageStore, open_read_only
from rmqserver.store.options import StoreOptions
from rmqserver.store.timers.timer_check import NotedCopy, TimerCheckpoint
from rmqserver.store.timers.timer_store import LATEST_SLOTS_KEPT
from tests.rmqserver.store.checks.stores import NOW_MS, OPTIONS, Damaged, fill, put_timer, timers_of
from tests.rmqserver.store.conftest import put
from tests.rmqserver.store.golden import RECORDED_MS, manifest, unpack
from tests.support.clock import Clock
from tests.support.quick import first_is_quick

TORN_OFFSET = 1540707
"""The offset of the record that ``torn`` and ``torn-body`` have lost a part of."""

LOG = "commitlog/00000000000000000000"
SECOND_LOG = "commitlog/00000000000000004096"
QUEUE = "consumequeue/TopicA/0/00000000000000000000"


@pytest.fixture(scope="module")
def closed(tmp_path_factory: Any) -> Path:
    return fill(tmp_path_factory.mktemp("closed") / "store")


@pytest.fixture(scope="module")
def killed(tmp_path_factory: Any) -> Path:
    return fill(tmp_path_factory.mktemp("killed") / "store", is_closed=False)


@pytest.fixture(scope="module")
def records(closed: Path) -> list[FoundRecord]:
    store = open_read_only(closed, OPTIONS)
    found = list(scan(store.log.segments, 0))
    store.close()
    return found


def one(findings: list[StoreFinding], kind: FindingKind) -> StoreFinding:
    found = [finding for finding in findings if finding.kind is kind]
    assert len(found) == 1, findings
    return found[0]


# --- without damage --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["closed", "killed"])
def test_what_we_wrote_is_clean(request: pytest.FixtureRequest, name: str) -> None:
    report = Damaged.of(request.getfixturevalue(name)).check()
    assert [finding for finding in report.findings if finding.is_damage] == []
    assert report.record_count > 40
    assert report.unit_count > report.record_count  # light queues have units, too
    assert report.entry_count > 2 * 40
    assert report.table_count == 4  # two, and their copies
    kinds = {finding.kind for finding in report.findings}
    assert (FindingKind.UNCLEAN in kinds) == (name == "killed")
    assert (FindingKind.QUEUE_DIFFERS in kinds) == (name == "killed")  # the last message's, which a start makes


@pytest.mark.parametrize(
    ("name", "writer"),
    first_is_quick(
        [
            ("killed", Writer.APACHE),
            ("store-5.3.3", Writer.OLD_APACHE),
            ("clean", Writer.APACHE),
            ("lmq", Writer.APACHE),
        ],
        count=2,
    ),
)
def test_what_apache_wrote_is_clean(tmp_path: Path, name: str, writer: Writer) -> None:
    root = unpack(name, tmp_path)
    found = survey(str(root), OsDisk())
    assert found.writer is writer
    report = check_store(found, clock_ms=Clock(RECORDED_MS))
    assert [finding for finding in report.findings if finding.is_damage] == []
    assert report.log_bytes == int(manifest(name)["runtime"]["commitLogMaxOffset"])
    assert report.table_count == 17
    deleted = one(report.findings, FindingKind.TOPIC_DELETED)
    assert (deleted.topic, deleted.count) == ("DeletedTopic", 1)
    sizes = one(report.findings, FindingKind.SIZES)
    assert "mappedFileSizeCommitLog=1048576" in sizes.what
    assert "maxHashSlotNum=1000, maxIndexNum=2000" in sizes.what


def test_of_a_store_in_rocksdb_the_log_the_index_and_the_tables_are_checked(tmp_path: Path) -> None:
    found = survey(str(unpack("rocksdb", tmp_path)), OsDisk())
    assert found.queues is Queues.ROCKSDB
    report = check_store(found, clock_ms=Clock(RECORDED_MS))
    assert not report.is_damaged
    assert (report.record_count, report.unit_count) == (2287, 0)
    assert report.entry_count > 5000
    assert "consumequeue" in {finding.path for finding in report.findings if finding.kind is FindingKind.NOT_CHECKED}


def test_what_is_no_store_is_refused(tmp_path: Path, closed: Path) -> None:
    for path, words in ((tmp_path / "none", "no such directory"), (tmp_path, "holds no commitlog/")):
        with pytest.raises(UsageError, match=words):
            survey(str(path), OsDisk())
    with pytest.raises(UsageError, match="holds no commitlog/") as caught:
        survey(str(closed / "commitlog"), OsDisk())
    assert "name the directory above" in str(caught.value.hint)


# --- torn stores of a real broker ------------------------------------------------------------------------------------


def damage_of(root: Path) -> list[StoreFinding]:
    report = check_store(survey(str(root), OsDisk()), clock_ms=Clock(RECORDED_MS))
    return [each for each in report.findings if each.is_damage]


def test_a_record_torn_in_its_properties_is_found_though_both_brokers_take_it(tmp_path: Path) -> None:
    found = damage_of(unpack("torn", tmp_path))
    torn = one(found, FindingKind.RECORD_TORN)
    assert found == [torn]
    assert torn.severity is Severity.ERROR
    assert torn.log_offset == TORN_OFFSET
    assert (torn.path, torn.at) == ("commitlog/00000000000001048576", TORN_OFFSET - 1048576)
    assert (torn.topic, torn.queue_id, torn.queue_offset) == ("PlainTopic", 1, 84)
    assert torn.ours == torn.apache == "serves it as it is"


def test_a_record_torn_in_its_body_is_found_and_told_by_its_header(tmp_path: Path) -> None:
    found = damage_of(unpack("torn-body", tmp_path))
    torn = one(found, FindingKind.LOG_TAIL)
    assert found == [torn]
    assert torn.severity is Severity.ERROR
    assert torn.log_offset == int(manifest("torn-body")["runtime"]["commitLogMaxOffset"])
    assert torn.lost_messages == 1
    assert "most likely PlainTopic-1, offset 84" in torn.what
    assert torn.ours == torn.apache == "cuts the log off here"


# --- the log ---------------------------------------------------------------------------------------------------------


def test_a_log_that_is_being_written_ends_where_its_records_ended_unless_damage_ended_them(
    closed: Path, records: list[FoundRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged, end = Damaged.of(closed), records[5].log_offset
    log = commit_log_of(survey(str(closed), damaged.disk))
    assert list(walk_in_use(log, 0, end)) == [records[:5]], "the others were written since"
    body = end + RECORD_V4.size + 2
    damaged.flip(LOG, body, 4)
    whole = list(walk(log, 0))
    assert whole[0] == records[:5]
    assert isinstance(whole[1], LogStretch)
    assert list(walk_in_use(log, 0, end)) == whole
    damaged.flip(LOG, body, 4)
    monkeypatch.setattr(log_walk, "walk", lambda *_: iter(whole))
    assert list(walk_in_use(log, 0, end)) == [records[:5]], "the rest of the record came after the first look"


def test_a_body(closed: Path, records: list[FoundRecord]) -> None:
    damaged, record = Damaged.of(closed), records[5]
    damaged.flip(LOG, record.log_offset + RECORD_V4.size + 2, 4)
    found = one(damaged.found(), FindingKind.LOG_DAMAGE)
    assert found.what.startswith("the body does not have its checksum")
    assert (found.path, found.at, found.log_offset) == (LOG, record.log_offset, record.log_offset)
    assert (found.topic, found.queue_id, found.queue_offset) == (record.topic, record.queue_id, record.queue_offset)
    assert found.lost_messages == 1
    assert found.begin_ms == found.end_ms == record.store_timestamp_ms
    assert found.ours == "does not look so far back: it stays"
    assert found.apache == "does not look so far back: it stays"


def test_a_sector_of_zeros(closed: Path, records: list[FoundRecord]) -> None:
    """Queue units tell which messages were there."""
    damaged = Damaged.of(closed)
    damaged.write(LOG, bytes(512), 1024)
    gone = [each for each in records if each.log_offset < 1536 and each.log_offset + each.size_bytes > 1024]
    assert len(gone) > 2
    found = one(damaged.found(), FindingKind.LOG_DAMAGE)
    assert found.log_offset == gone[0].log_offset
    assert found.lost_messages == len(gone)
    for record in gone:
        assert f"{record.topic}-{record.queue_id}" in found.what or "more queue" in found.what
    before, behind = records[records.index(gone[0]) - 1], records[records.index(gone[-1]) + 1]
    assert (found.begin_ms, found.end_ms) == (before.store_timestamp_ms, behind.store_timestamp_ms)
    assert FindingKind.QUEUE_DIFFERS not in {each.kind for each in damaged.found()}  # they are right


def test_damage_in_the_last_file_costs_apaches_broker_all_that_is_behind(
    closed: Path, records: list[FoundRecord]
) -> None:
    damaged, record = Damaged.of(closed), next(each for each in records if each.log_offset > 4096)
    damaged.flip(SECOND_LOG, record.log_offset - 4096 + RECORD_V4.size, 1)
    found = one(damaged.found(), FindingKind.LOG_DAMAGE)
    assert found.ours == "does not look so far back: it stays"
    assert found.apache.startswith("cuts the log off here, with ")


def test_a_missing_log_file(tmp_path: Path) -> None:
    root = fill(tmp_path / "store", message_count=100)
    damaged = Damaged.of(root)
    damaged.remove(SECOND_LOG)
    found = damaged.found()
    missing, stretch = one(found, FindingKind.FILE_MISSING), one(found, FindingKind.LOG_DAMAGE)
    assert missing.path == "commitlog/00000000000000008192"
    assert missing.ours.startswith("refuses to start")
    assert stretch.what.startswith("the file is missing")
    assert stretch.lost_messages > 10
    assert stretch.apache == "does not look so far back: it stays"


def test_a_log_whose_end_is_gone(closed: Path, records: list[FoundRecord]) -> None:
    damaged = Damaged.of(closed)
    damaged.remove(SECOND_LOG)
    gone = [each for each in records if each.log_offset >= 4096]
    lost = [each for each in damaged.found() if each.kind is FindingKind.LOG_LOST]
    assert {each.path for each in lost} == {LOG, "checkpoint"}
    assert sum(each.lost_messages for each in lost) == len(gone)


def test_a_short_log_file(closed: Path) -> None:
    damaged = Damaged.of(closed)
    damaged.cut(LOG, 1000)
    found = one(damaged.found(), FindingKind.FILE_SIZE)
    assert (found.path, found.at) == (LOG, 1000)
    assert "is 1000 bytes long" in found.ours
    assert found.apache.startswith("refuses to start")


@pytest.mark.parametrize(
    ("place", "bits", "kind"),
    [
        (4, 1, FindingKind.LOG_DAMAGE),  # magic
        (0, 1, FindingKind.LOG_DAMAGE),  # size
        (15, 1, FindingKind.QUEUE_DIFFERS),  # queue id
        (27, 1, FindingKind.QUEUE_DIFFERS),  # queue offset
        (35, 1, FindingKind.LOG_DAMAGE),  # its own log offset
        (36, 64, FindingKind.RECORD_FLAGS),  # sysFlag
        (39, 4, FindingKind.QUEUE_DIFFERS),  # sysFlag: a prepared message has no unit
        (58, 1, FindingKind.RECORD_TIME),  # store time
    ],
)
def test_a_field_of_a_record(
    closed: Path, records: list[FoundRecord], place: int, bits: int, kind: FindingKind
) -> None:  # fmt: skip
    damaged = Damaged.of(closed)
    damaged.flip(LOG, records[7].log_offset + place, bits)
    assert kind in {finding.kind for finding in damaged.found()}


def test_a_tag_or_key_in_the_properties(closed: Path, records: list[FoundRecord]) -> None:
    data = Damaged.of(closed).read(LOG, 4096, 0)
    for name, kind in (
        (b"TAGS\x01T", FindingKind.QUEUE_DIFFERS),
        (b"KEYS\x01k", FindingKind.INDEX_DIFFERS),
        (b"UNIQ_KEY\x01", FindingKind.INDEX_DIFFERS),
    ):
        damaged = Damaged.of(closed)
        damaged.flip(LOG, data.index(name, 500) + len(name), 2)
        assert kind in {finding.kind for finding in damaged.found()}, name
    damaged = Damaged.of(closed)
    damaged.flip(LOG, data.index(b"TAGS\x01", 500) + 4, 2)
    assert one(damaged.found()[:1], FindingKind.RECORD_PROPERTIES).what == "separators in the properties do not pair"


def test_rubbish_behind_the_log(closed: Path, records: list[FoundRecord]) -> None:
    damaged, end = Damaged.of(closed), records[-1].log_offset + records[-1].size_bytes
    damaged.write(SECOND_LOG, b"rubbish", end - 4096 + 50)
    found = one(damaged.found(), FindingKind.LOG_TAIL)
    assert found.severity is Severity.WARNING
    assert (found.log_offset, found.lost_messages) == (end, 0)


# --- consume queues --------------------------------------------------------------------------------------------------


def test_a_hole_inside_a_queue_stays(closed: Path) -> None:
    damaged = Damaged.of(closed)
    damaged.write(QUEUE, bytes(20), 60)
    damaged.flip(QUEUE, 107, 1)
    found = one(damaged.found(), FindingKind.QUEUE_DIFFERS)
    assert (found.path, found.at, found.topic, found.queue_id, found.queue_offset) == (QUEUE, 60, "TopicA", 0, 3)
    assert found.severity is Severity.ERROR
    assert found.what.startswith("differs from the log, first here: no unit for the message at log offset ")
    assert found.ours == LEFT


@pytest.mark.parametrize("at", [7, 11, 19], ids=["log offset", "size", "tags code"])
def test_a_wrong_unit(closed: Path, at: int) -> None:
    damaged = Damaged.of(closed)
    damaged.flip(QUEUE, 40 + at, 1)
    found = one(damaged.found(), FindingKind.QUEUE_DIFFERS)
    assert (found.at, found.queue_offset) == (40, 2)
    assert "the unit is not that of the message" in found.what
    assert found.ours.startswith("leaves it")


def test_a_delay_level_that_was_longer_is_no_damage_and_a_single_due_time_is(tmp_path: Path) -> None:
    longer = tuple(1000 + each for each in OPTIONS.delay_levels_ms)
    store = MessageStore(tmp_path, replace(OPTIONS, delay_levels_ms=longer), clock_ms=Clock(), background=False)
    store.open()
    put(store, SCHEDULE_TOPIC, 0, b"alone", properties=b"DELAY\x011\x02REAL_TOPIC\x01TopicA\x02REAL_QID\x010\x02")
    for _ in range(3):
        put(store, SCHEDULE_TOPIC, 1, b"delayed", properties=b"DELAY\x012\x02REAL_TOPIC\x01TopicA\x02REAL_QID\x010\x02")
        store.commit()
    store.flush()
    store.close()
    damaged = Damaged.of(tmp_path)
    assert FindingKind.QUEUE_DIFFERS not in {each.kind for each in damaged.check().findings}
    damaged.flip(f"consumequeue/{SCHEDULE_TOPIC}/1/00000000000000000000", 20 + 19, 1)
    assert one(damaged.found(), FindingKind.QUEUE_DIFFERS).queue_offset == 1


def test_a_queue_counts_as_made_anew_only_if_all_of_it_is(tmp_path: Path) -> None:
    """A start makes the lost end of a queue again, but not what is wrong before."""
    damaged = Damaged.of(fill(tmp_path / "store", message_count=100))
    damaged.remove("consumequeue/TopicA/0/00000000000000000200")
    assert one(damaged.found(), FindingKind.QUEUE_DIFFERS).ours == "makes it anew from the log"
    damaged.write(QUEUE, bytes(20), 60)
    found = one(damaged.found(), FindingKind.QUEUE_DIFFERS)
    assert (found.severity, found.ours) == (Severity.ERROR, LEFT)


def test_a_unit_that_points_behind_the_log(closed: Path) -> None:
    damaged = Damaged.of(closed)
    last = damaged.disk.listdir(f"{closed}/consumequeue/TopicA/0")[-1]
    data = damaged.read(f"consumequeue/TopicA/0/{last}", 200, 0)
    at = len(data.rstrip(b"\0")) // 20 * 20 + 20
    damaged.write(f"consumequeue/TopicA/0/{last}", (1 << 20).to_bytes(8, "big") + (100).to_bytes(4, "big"), at % 200)
    (found,) = damaged.found()
    assert (found.kind, found.lost_messages, found.ours) == (FindingKind.LOG_LOST, 1, "forgets them")


def test_a_queue_that_is_gone_is_made_anew_from_the_log(closed: Path) -> None:
    """Our broker notices that queues are missing which were there when it stopped; after another broker's stop, only
    that the newest record's queue is missing."""
    damaged = Damaged.of(closed)
    damaged.remove("consumequeue")
    found = [each for each in damaged.found() if each.kind is FindingKind.QUEUE_DIFFERS]
    assert {each.topic for each in found} >= {"TopicA", "TopicB", "TopicC", "SCHEDULE_TOPIC_XXXX"}
    assert {each.ours for each in found} == {"makes it anew from the log"}
    assert {each.severity for each in found} == {Severity.WARNING}
    damaged = Damaged.of(closed)
    damaged.remove("consumequeue/TopicB")
    found = [each for each in damaged.found() if each.kind is FindingKind.QUEUE_DIFFERS]
    assert {(each.topic, each.ours) for each in found} == {("TopicB", "makes it anew from the log")}
    damaged.remove("queueEnds")
    found = [each for each in damaged.found() if each.kind is FindingKind.QUEUE_DIFFERS]
    assert {each.topic for each in found} == {"TopicB"}
    assert {each.ours for each in found} == {LEFT}
    assert all("and no file" in each.what for each in found)


def test_a_table_of_topics_that_is_missing_is_told(closed: Path) -> None:
    """Nothing was said, and a broker that starts there serves no message of any topic."""
    damaged = Damaged.of(closed)
    damaged.remove("config/topics.json")
    damaged.remove("config/topics.json.bak")
    found = one(damaged.found(), FindingKind.TABLE_TOPIC)
    assert (found.path, found.severity, found.count) == ("config/topics.json", Severity.WARNING, 3)
    assert "of 3 topics: TopicA, TopicB, TopicC" in found.what
    assert found.ours == found.apache == "serves them when the topics are made again"
    damaged.remove("consumequeue")
    damaged.remove("commitlog")
    damaged.disk.mkdir(f"{closed}/commitlog")
    assert not [each for each in damaged.found() if each.kind is FindingKind.TABLE_TOPIC]


def test_units_that_a_killed_broker_did_not_write_are_no_damage(killed: Path) -> None:
    report = Damaged.of(killed).check()
    missing = [each for each in report.findings if each.kind is FindingKind.QUEUE_DIFFERS]
    assert {each.severity for each in missing} == {Severity.NOTE}
    assert {each.ours for each in missing} == {"makes it anew from the log"}


def test_bytes_that_a_crash_left_behind_missing_units_are_no_damage(killed: Path) -> None:
    damaged = Damaged.of(killed)
    (missing,) = [each for each in damaged.check().findings if each.path == QUEUE]
    assert missing.at is not None
    damaged.write(QUEUE, b"rubbish", missing.at + 20)
    (told,) = [each for each in damaged.check().findings if each.path == QUEUE]
    assert (told.severity, told.at, told.ours) == (Severity.NOTE, missing.at, "makes it anew from the log")


def test_bytes_behind_a_queue_are_no_damage_for_nobody_reads_them(closed: Path) -> None:
    damaged = Damaged.of(closed)
    damaged.write(
        f"consumequeue/TopicC/0/{damaged.disk.listdir(f'{closed}/consumequeue/TopicC/0')[-1]}", b"rubbish", 190
    )
    assert not damaged.found()


def test_a_queue_file_that_is_short_missing_or_a_stray(closed: Path) -> None:
    damaged = Damaged.of(closed)
    damaged.cut(QUEUE, 30)
    assert (
        one([each for each in damaged.found() if each.kind is FindingKind.FILE_SIZE], FindingKind.FILE_SIZE).path
        == QUEUE
    )
    damaged = Damaged.of(closed)
    damaged.disk.open(f"{closed}/{QUEUE}.orig", create_size_bytes=5)
    assert one(damaged.found(), FindingKind.FILE_STRAY).path == f"{QUEUE}.orig"


# --- the index -------------------------------------------------------------------------------------------------------


def index_names(root: Path) -> list[str]:
    return [f"index/{path.name}" for path in sorted((root / "index").iterdir())]


UNITS_AT = 40 + 7 * 4


@pytest.mark.parametrize(
    ("at", "words"),
    [
        (UNITS_AT + 5 * 20 + 3, "does not lead to the one before it"),  # hash
        (UNITS_AT + 5 * 20 + 11, "the entries are not those of the message"),  # log offset
        (UNITS_AT + 5 * 20 + 15, "has another time than its message"),  # seconds
        (UNITS_AT + 30 * 20 + 19, "does not lead to the one before it"),  # the previous unit
        (40 + 3, "a slot does not lead to its newest entry"),
        *((at, "its header is not that of its entries") for at in (7, 15, 23, 31, 35, 39)),
    ],
)
def test_a_byte_of_an_index_file(closed: Path, at: int, words: str) -> None:
    damaged, (first, *_) = Damaged.of(closed), index_names(closed)
    damaged.flip(first, at, 1)
    found = one(damaged.found(), FindingKind.INDEX_DIFFERS)
    assert words in found.what
    assert (found.path, found.ours) == (first, "leaves it: look-ups by key miss messages")


@pytest.mark.parametrize("later", [UNITS_AT + 30 * 20 + 19, 40 + 3, 39])
def test_of_an_index_file_the_first_difference_is_told(closed: Path, later: int) -> None:
    damaged, (first, *_) = Damaged.of(closed), index_names(closed)
    for at in (UNITS_AT + 5 * 20 + 15, later):
        damaged.flip(first, at, 1)
    assert "has another time than its message" in one(damaged.found(), FindingKind.INDEX_DIFFERS).what


@pytest.mark.parametrize("at", [UNITS_AT + 20 * unit + byte for unit in (5, 40) for byte in (3, 11, 15, 19)])
def test_many_messages_are_compared_with_the_index_as_each_alone(
    closed: Path, records: list[FoundRecord], at: int
) -> None:
    found, counts = survey(str(closed), OsDisk()), (OPTIONS.index_slot_count, OPTIONS.index_unit_count)
    for name in ("", *index_names(closed)[:1]):
        damaged = Damaged.of(closed)
        if name:
            damaged.flip(name, at, 1)
        told = []
        for count in (1, 2, len(records)):
            index = IndexCheck(found.paths.index_paths(), counts, damaged.disk, 0)
            for first in range(0, len(records), count):
                index.take(entries_of(records[first : first + count], {}))
            index.take(b"")
            index.finish()
            told.append(([file.problem for file in index.files], index.outside.count, index.behind.count))
        assert told[0] == told[1] == told[2]
        assert (told[0][0][0] is not None) == bool(name)


def test_the_last_index_file_of_a_closed_store_is_made_anew(closed: Path) -> None:
    damaged = Damaged.of(closed)
    damaged.remove(index_names(closed)[-1])
    found = one(damaged.found(), FindingKind.INDEX_DIFFERS)
    assert (found.severity, found.ours) == (Severity.WARNING, "makes it anew from the log")


def test_entries_that_apaches_broker_made_again_after_a_kill_are_no_damage(tmp_path: Path) -> None:
    root = fill(tmp_path / "store")
    path, found = f"{root}/{index_names(root)[-1]}", survey(str(root), OsDisk())
    (last,) = [each for each in scan(commit_log_of(found), 0) if each.log_offset == index_end(path)]
    live = LiveIndexFile(OsDisk().open(path), OPTIONS.index_slot_count, OPTIONS.index_unit_count)
    live.put(entries_of([last], {}))
    snapshot = live.snapshot()
    snapshot.write()
    assert not Damaged.of(root).found()


def index_end(path: str) -> int:
    return IndexFile(OsDisk().open(path), OPTIONS.index_slot_count, OPTIONS.index_unit_count).header.end_log_offset


def test_files_of_our_broker_alone_are_no_strangers(tmp_path: Path) -> None:
    for is_closed, name in ((True, "queueEnds"), (False, "queueFiles")):
        root = fill(tmp_path / name, is_closed=is_closed)
        assert (root / name).is_file()
        assert not [each for each in Damaged.of(root).check().findings if each.kind is FindingKind.STRANGER]


def test_an_index_file_that_is_gone(closed: Path) -> None:
    damaged, names = Damaged.of(closed), index_names(closed)
    assert len(names) > 2
    for name in names[1::-1]:
        damaged.remove(name)
        assert "before the entries of a file" in one(damaged.found(), FindingKind.INDEX_DIFFERS).what


# --- marks and tables ------------------------------------------------------------------------------------------------


def test_a_checkpoint_that_is_missing_short_or_wrong(closed: Path) -> None:
    for act, words in (
        (lambda damaged: damaged.remove("checkpoint"), "there is none"),
        (lambda damaged: damaged.cut("checkpoint", 30), "30 bytes, where it has 4,096"),
        (lambda damaged: damaged.flip("checkpoint", 43, 1), "was flushed, and the log ends at"),
        (lambda damaged: damaged.flip("checkpoint", 47, 1), "no record begins"),
        (lambda damaged: damaged.flip("checkpoint", 2, 64), "is later than the last message's"),
        (lambda damaged: damaged.flip("checkpoint", 500, 1), "bytes behind its fields"),
    ):
        assert_says(closed, act, words, {"checkpoint"})


def assert_says(root: Path, act: Callable[[Damaged], object], words: str, paths: set[str]) -> None:
    damaged = Damaged.of(root)
    act(damaged)
    found = damaged.found()
    assert any(words in each.what for each in found), (words, found)
    assert {each.path for each in found} <= paths


def test_tables(closed: Path) -> None:
    topics, offsets = "config/topics.json", "config/consumerOffset.json"
    for act, words, path in (
        (lambda damaged: damaged.flip(topics, 0, 1), "JSON at character", topics),
        (lambda damaged: damaged.write(topics, bytes(10), 30), "zeros at byte 30", topics),
        (lambda damaged: empty_without_copy(damaged, topics), "empty, and without a copy", topics),
        (lambda damaged: rename(damaged, topics, b'"TopicA"', b'"TopicX"'), "another name in it", topics),
        (
            lambda damaged: rename(damaged, offsets, b"0:3", b"0:9999"),
            "has committed 9999, and the queue ends",
            offsets,
        ),
    ):
        assert_says(closed, act, words, {path, "consumequeue/TopicA/0", "consumequeue/TopicA/1"})


def rename(damaged: Damaged, name: str, old: bytes, new: bytes) -> None:
    data = damaged.disk.read_bytes(f"{damaged.root}/{name}").replace(old, new, 1)
    damaged.cut(name, 0)
    damaged.write(name, data, 0)


def empty_without_copy(damaged: Damaged, name: str) -> None:
    damaged.cut(name, 0)
    damaged.disk.unlink(f"{damaged.root}/{name}.bak")


def test_a_table_whose_copy_is_whole(tmp_path: Path) -> None:
    damaged = Damaged.of(unpack("clean", tmp_path))
    damaged.cut("config/topics.json", 100)
    found = one(damaged.found(), FindingKind.TABLE_DAMAGED)
    assert (found.severity, found.ours, found.apache) == (
        Severity.WARNING, "takes topics.json.bak", "takes topics.json.bak",
    )  # fmt: skip
    damaged.cut("config/topics.json.bak", 100)
    tables = [each for each in damaged.found() if each.kind is FindingKind.TABLE_DAMAGED]
    assert [(each.severity, each.ours, each.apache) for each in tables] == [
        (Severity.ERROR, "refuses to start", "refuses to start")
    ] * 2


def test_an_empty_table_without_a_copy_keeps_our_broker_alone_from_starting(closed: Path) -> None:
    for kept in ("topics.json", "topics.json.bak"):
        damaged = Damaged.of(closed)
        for name in ("topics.json", "topics.json.bak"):
            damaged.disk.unlink(f"{closed}/config/{name}")
        damaged.disk.open(f"{closed}/config/{kept}", create_size_bytes=0)
        with pytest.raises(StorageError, match="the file is empty"):
            ConfigFiles(f"{closed}/config", damaged.disk, background=False).load("topics.json")
        found = one(damaged.found(), FindingKind.TABLE_DAMAGED)
        assert (found.path, found.severity, found.ours, found.apache) == (
            f"config/{kept}", Severity.ERROR, "refuses to start", "begins with an empty table",
        )  # fmt: skip


def test_a_failed_flush_is_told(closed: Path) -> None:
    damaged = Damaged.of(closed)
    damaged.disk.open(f"{closed}/failed_flush", create_size_bytes=0).pwrite(b"%020d" % 0, 0)
    assert one(damaged.found(), FindingKind.FLUSH_FAILED).path == "failed_flush"


# --- timers ----------------------------------------------------------------------------------------------------------


def test_timers(closed: Path) -> None:
    log, check = "timerlog/00000000000000000000", "config/timercheck"
    missing, again = "no slot of the wheel leads to the message", "event=timers-read-again"
    for act, words, severity in (
        (lambda damaged: damaged.flip(log, 3, 1), again, Severity.WARNING),
        (lambda damaged: damaged.flip(log, 52 + 35, 1), missing, Severity.ERROR),  # the message's log offset
        (
            lambda damaged: damaged.flip(log, 52 + 39, 1),
            "1 timer that no message calls for",
            Severity.ERROR,
        ),  # its size
        (lambda damaged: damaged.flip("timerwheel", slot_at(damaged) + 23, 1), missing, Severity.ERROR),
        (lambda damaged: damaged.flip(check, 23, 8), again, Severity.WARNING),
        (lambda damaged: damaged.remove("timerwheel"), "made-anew path=timerwheel messages=5", Severity.WARNING),
        (lambda damaged: damaged.remove("timerlog"), again, Severity.WARNING),
        (lambda damaged: [damaged.remove(name) for name in ("timerlog", "timerwheel")], again, Severity.WARNING),
    ):
        damaged = Damaged.of(closed)
        act(damaged)
        found = one(damaged.found()[:1], FindingKind.TIMERS_DIFFER)
        assert (found.severity, found.path) == (severity, "timerwheel")
        assert words in found.what


def test_timers_delivered_before_the_clock_went_back_are_no_damage(closed: Path) -> None:
    damaged = Damaged.of(closed)
    saved = TimerCheckpoint.read(damaged.disk, f"{closed}/config/timercheck")
    saved.version_timestamp_ms -= 1_800_000
    for later_ms, count in ((0, 0), (120_000, 1)):
        saved.read_time_ms += later_ms
        saved.write(damaged.disk, f"{closed}/config/timercheck")
        assert [each.kind for each in damaged.found()].count(FindingKind.TIMER_CHECK) == count


def test_timers_that_have_been_due_for_days_are_no_damage(closed: Path) -> None:
    report = Damaged.of(closed).check(NOW_MS + 1000 * (LATEST_SLOTS_KEPT + 3600))
    assert FindingKind.TIMERS_DIFFER not in {each.kind for each in report.findings}


def test_timers_that_were_called_delivered_are_told_as_a_start_tells_them(closed: Path) -> None:
    damaged = Damaged.of(closed)
    saved = TimerCheckpoint.read(damaged.disk, f"{closed}/config/timercheck")
    saved.read_time_ms += 120_000
    saved.version_timestamp_ms += 120_000
    saved.write(damaged.disk, f"{closed}/config/timercheck")
    (found,) = damaged.found()
    assert (found.severity, found.ours) == (Severity.WARNING, "delivers them")
    assert "event=timers-held-back messages=5 " in found.what


def test_a_recalled_timer_is_no_damage_though_nothing_was_stored_since(tmp_path: Path) -> None:
    clock = Clock(NOW_MS)
    store = MessageStore(tmp_path, OPTIONS, OsDisk(), clock, background=False)
    store.open()
    timers = timers_of(tmp_path, store)
    for is_delete in (False, True):
        put_timer(store, timers, NOW_MS + 60_000, NOW_MS, unique="T", is_delete=is_delete)
    clock.now_ms += 300_000
    (slot,) = timers.due(clock.now_ms)
    slot.walk()
    (unit,), slot.recalled = slot.portion(2), {"T"}
    slot.passed(unit.position)
    timers.due(clock.now_ms)
    timers.stop(NOW_MS)
    timers.prepare_checkpoint(clock.now_ms)()
    assert store.close()
    assert not Damaged.of(tmp_path).found()


def test_timers_delivered_before_a_clean_stop_amid_their_slot_are_no_damage(tmp_path: Path) -> None:
    clock = Clock(NOW_MS)
    store = MessageStore(tmp_path, OPTIONS, OsDisk(), clock, background=False)
    store.open()
    timers = timers_of(tmp_path, store)
    for number in range(6):
        put_timer(store, timers, NOW_MS + 60_000 + 1000 * (number // 4), NOW_MS, unique=f"T{number}")
    clock.now_ms += 90_000
    for slot in timers.due(clock.now_ms):
        slot.walk()
        slot.passed(slot.portion(2)[-1].position)
    timers.stop(NOW_MS)
    timers.prepare_checkpoint(clock.now_ms)()
    assert store.close()
    damaged = Damaged.of(tmp_path)
    assert not damaged.found()
    damaged.flip("timerwheel", slot_at(damaged) + 23, 1)
    assert one(damaged.found()[:1], FindingKind.TIMERS_DIFFER).lost_messages == 2


def test_a_broker_that_was_killed_while_it_delivered_lost_no_timer(tmp_path: Path) -> None:
    clock = Clock(NOW_MS)
    store = MessageStore(tmp_path, OPTIONS, OsDisk(), clock, background=False)
    store.open()
    timers = timers_of(tmp_path, store)
    for number in range(4):
        put_timer(store, timers, NOW_MS + 60_000, NOW_MS, unique=f"T{number}")
    timers.prepare_checkpoint(NOW_MS)()
    clock.now_ms += 62_000
    (slot,) = timers.due(clock.now_ms)
    slot.walk()
    (unit,) = slot.portion(1)
    appended = put(store, "TopicA", 0, b"timer", unique="T0")
    timers.note([NotedCopy(appended.log_offset, slot.time, unit.position + 1)])
    store.commit()
    store.abandon()
    assert FindingKind.TIMERS_DIFFER not in {each.kind for each in Damaged.of(tmp_path).check().findings}


def test_a_note_of_deliveries_that_a_power_cut_tore_is_no_damage(closed: Path, killed: Path) -> None:
    for root, severity in ((closed, Severity.WARNING), (killed, Severity.NOTE)):
        damaged = Damaged.of(root)
        damaged.write("config/timercheck", b"torn", 600)
        found = one(damaged.check().findings, FindingKind.TIMER_CHECK)
        assert (found.severity, found.ours) == (severity, "makes it anew")


def slot_at(damaged: Damaged) -> int:
    """Where the first slot is that holds something."""
    file, at = damaged.disk.open(f"{damaged.root}/timerwheel"), 0
    while not any(file.pread(32, at)):
        at = max(file.next_data(at) // 32 * 32, at + 32)
    return at


# --- too many --------------------------------------------------------------------------------------------------------


def test_findings_of_a_kind_are_counted_when_they_are_too_many(tmp_path: Path) -> None:
    root = fill(tmp_path / "store")
    for number in range(FINDINGS_OF_A_KIND_MAX + 5):
        (root / "consumequeue/TopicA/0" / f"stray-{number}").touch()
    report = Damaged.of(root).check()
    assert sum(each.kind is FindingKind.FILE_STRAY for each in report.findings) == FINDINGS_OF_A_KIND_MAX
    assert report.left_out == {FindingKind.FILE_STRAY: 5}


def test_nothing_is_written(tmp_path: Path) -> None:
    from tests.rmqserver.store.checks.test_dry_run import stamps

    root = fill(tmp_path / "store", is_closed=False)
    before = stamps(root)
    check_store(survey(str(root), OsDisk(), StoreOptions()))
    assert stamps(root) == before
