"""Stores of a real broker, read as Spark reads them, by scan and by index: every message that the broker itself
serves."""

import itertools
import json
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import StorageError, UsageError
from rmqproto.message.record import StoredMessage, encode_record, host_bytes
from rmqproto.message.sys_flag import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from rmqreplay.ledger.ledger import Ledger
from rmqreplay.plans.plan import TargetRule, Transform
from rmqreplay.run.engine import WaveSpec
from rmqreplay.run.wave_task import WaveTask
from rmqreplay.sending.delivery import Outgoing
from rmqreplay.source.offset_ranges import OffsetRange
from rmqreplay.source.queue_ranges import DataLossError
from rmqreplay.source.store_view import StoreView
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import StoreOptions
from spark_tools.arrow_records import BatchMaker, BatchOptions
from spark_tools.located import locate_untrusted, record_starts
from spark_tools.part_reader import read_any
from spark_tools.partitions import IndexPart, ScanPart, plan_store
from spark_tools.read_rules import ReadRules
from spark_tools.source_options import parse_read_options
from spark_tools.store_reader import CHUNK_BYTES, OVERHANG_BYTES, read_part
from tests.rmqserver.store import golden

# A compacted, a write-only and a deleted topic: the log has messages that the broker does not serve from it.
ELSEWHERE = {"CompactTopic", "WriteOnlyTopic", "DeletedTopic"}
COLUMNS = ["topic", "queueId", "queueOffset", "logOffset", "storeSize", "tags", "keys", "msgId", "properties", "body"]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Unpacks a golden store. Tests that damage it get a fresh copy."""
    unpacked: dict[str, Path] = {}

    def unpack(name: str, *, fresh: bool = False) -> Path:
        if fresh or name not in unpacked:
            unpacked[name] = golden.unpack(name, tmp_path_factory.mktemp(name))
        return unpacked[name]

    return unpack


def read(root: Path, *, rules: dict | None = None, columns: list[str] = COLUMNS, **options: str) -> list[dict]:
    parsed = parse_read_options({"path": str(root), **options})
    with StoreView(str(root)) as view:
        parts = plan_store(view, parsed).parts
    maker = BatchMaker(BatchOptions(columns=columns, broker_name="broker-a"))
    keep = ReadRules(maker, parsed.tags, parsed.transaction_state, parsed.on_corrupt)
    if rules is not None:
        rules["skipped"] = keep.skipped
        rules["kinds"] = {type(part) for part in parts}
    rows = [
        row for part in parts for batch in read_part(part, keep) for row in batch.to_pylist(maps_as_pydicts="strict")
    ]
    return sorted(rows, key=lambda row: (row["topic"], row["queueId"], row["queueOffset"]))


def key(row: dict) -> tuple:
    return row["topic"], row["queueId"], row["queueOffset"]


@pytest.mark.parametrize("name", ["clean", "killed", "store-5.3.3"])
def test_a_scan_finds_what_the_broker_serves(store, name):
    wanted = {key(row): row for row in golden.messages(name) if row["topic"] not in ELSEWHERE}
    found = {key(row): row for row in read(store(name), includeInternalTopics="true") if row["topic"] not in ELSEWHERE}
    assert found.keys() == wanted.keys()
    for place, row in wanted.items():
        mine = found[place]
        assert mine["logOffset"] == row["commitLogOffset"], place
        assert mine["properties"] == row["properties"], place
        assert (mine["storeSize"], len(mine["body"])) == (row["storeSize"], row["bodyLength"]), place
        assert (mine["tags"], mine["keys"]) == (row["tag"], row["keys"]), place


@pytest.mark.parametrize("topic", ["NormalTopic", "%DLQ%RetryGroup", "PlainTopic"])
def test_scan_and_index_read_the_same(store, topic):
    """PlainTopic's last messages are in no consume queue file, because the broker was killed before it wrote them."""
    root = store("killed")
    by_scan, by_index = {}, {}
    scanned = read(root, rules=by_scan, subscribe=topic, mode="scan")
    assert scanned == read(root, rules=by_index, subscribe=topic, mode="index") == read(root, subscribe=topic)
    assert scanned
    assert by_scan["kinds"] == {ScanPart}
    assert IndexPart in by_index["kinds"]


@pytest.mark.parametrize("mode", ["scan", "index"])
def test_rows_are_chosen_by_their_properties(store, mode):
    """The expression is that of the store's SqlGroup. In a live cluster the broker filters; here the reader does."""
    root = str(store("clean"))
    options = parse_read_options(
        {"path": root, "subscribe": "NormalTopic", "mode": mode, "sql92": "a is not null and a > 5 or name = '三'"}
    )
    with StoreView(root) as view:
        parts = plan_store(view, options).parts
    batches = [batch for part in parts for batch in read_any(part, options, ["topic", "queueId", "queueOffset"])]
    found = {key(row) for batch in batches for row in batch.to_pylist()}
    wanted = {
        key(row)
        for row in read(store("clean"), subscribe="NormalTopic")
        if int(row["properties"].get("a", 0)) > 5 or row["properties"].get("name") == "三"
    }
    assert 0 < len(wanted) < len(read(store("clean"), subscribe="NormalTopic"))
    assert found == wanted


def test_an_expression_that_does_not_compile_is_told_before_anything_is_read():
    with pytest.raises(UsageError, match=r'sql92: Encountered "<EOF>" at line 1, column 3'):
        parse_read_options({"path": "/no/store", "sql92": "a >"})


def test_a_cut_at_any_place_loses_and_doubles_nothing(store):
    root = store("clean")
    whole = read(root)
    for split in (9973, 100_000):
        assert read(root, splitSize=str(split)) == whole


def test_records_longer_than_what_is_read_at_a_time_are_read_whole(tmp_path):
    """A split is read in chunks, plus a little of what follows it. A record may be longer than either."""
    sizes = [100, OVERHANG_BYTES + 1, 50, CHUNK_BYTES + 1, CHUNK_BYTES - 1, 10, OVERHANG_BYTES * 3, 20]
    host = host_bytes("127.0.0.1", 10911)
    log = MessageStore(str(tmp_path), StoreOptions(index_enabled=False))
    log.open()
    for number, size in enumerate(sizes):
        log.append("T", 0, 0, 0, 0, host, host, 0, b"%d" % number * size, b"")
    log.commit()
    log.close()
    for split in (70_000, 1 << 20, 1 << 30):
        rows = read(tmp_path, columns=["topic", "queueId", "queueOffset", "body"], splitSize=str(split), mode="scan")
        assert [row["body"] for row in rows] == [b"%d" % number * size for number, size in enumerate(sizes)]


def test_offsets_and_times_choose_exactly(store):
    root = store("clean")
    everything = [row for row in read(root, subscribe="PlainTopic") if row["queueId"] == 1]
    first = everything[0]["queueOffset"]
    table = json.dumps({"PlainTopic": {"broker-a": {"1": first + 1}}})
    end = json.dumps({"PlainTopic": {"broker-a": {"1": first + 3}}})
    assign = json.dumps({"PlainTopic": {"broker-a": [1]}})
    for mode in ("scan", "index"):
        assert read(root, assign=assign, startingOffsets=table, endingOffsets=end, mode=mode) == everything[1:3]
    assert read(root, subscribe="PlainTopic", endingTimestamp="1000000000000") == []
    with pytest.raises(DataLossError, match="asked for"):
        read(root, assign=assign, endingOffsets=json.dumps({"PlainTopic": {"broker-a": {"1": 10**6}}}))


def interleaved(directory: Path, *, topics: int, rounds: int, **options: int) -> Path:
    """A store whose topics T0, T1, … take turns, a message of 8 KiB each: nearer ones are read as one piece."""
    host = host_bytes("127.0.0.1", 10911)
    store = MessageStore(str(directory), StoreOptions(index_enabled=False, **options))
    store.open()
    for number in range(rounds):
        for topic in range(topics):
            store.append(f"T{topic}", 0, 0, 0, number, host, host, 0, b"x" * 8192, b"")
    store.commit()
    store.close()
    return directory


def test_far_records_of_a_sparse_topic_come_in_large_batches(tmp_path):
    """Each record was a batch of its own, which took ten times as long as scanning the whole log."""
    root = str(interleaved(tmp_path, topics=16, rounds=100))
    options = parse_read_options({"path": root, "subscribe": "T3"})
    with StoreView(root) as view:
        (part,) = plan_store(view, options).parts
    assert isinstance(part, IndexPart)
    batches = list(read_any(part, options, ["topic", "queueOffset", "body"]))
    assert [batch.num_rows for batch in batches] == [100]
    assert batches[0]["queueOffset"].to_pylist() == list(range(100))
    assert set(batches[0]["body"].to_pylist()) == {b"x" * 8192}


@pytest.mark.parametrize("mode", ["scan", "index"])
@pytest.mark.parametrize("folder", ["commitlog", "consumequeue/T0/0"])
def test_a_file_that_retention_takes_after_the_plan_fails_the_read_or_is_left_out(tmp_path, mode, folder):
    sizes = {"commit_log_file_size_bytes": 1 << 20, "consume_queue_file_size_bytes": 20 * 200}
    root = interleaved(tmp_path, topics=1, rounds=400, **sizes)
    for fails in ("true", "false"):
        options = parse_read_options({"path": str(root), "subscribe": "T0", "mode": mode, "failOnDataLoss": fails})
        with StoreView(str(root)) as view:
            parts = plan_store(view, options).parts
        taken = min((root / folder).iterdir())
        kept = taken.rename(tmp_path / "taken")

        def offsets(parts=parts, options=options) -> list[int]:
            batches = [batch for part in parts for batch in read_any(part, options, ["queueOffset"])]
            return [offset for batch in batches for offset in batch["queueOffset"].to_pylist()]

        if mode == "scan" and folder != "commitlog":
            assert offsets() == list(range(400))  # a scan needs no queue
        elif fails == "true":
            with pytest.raises(DataLossError, match=f"{taken} is gone: retention took it"):
                offsets()
        else:
            left = offsets()
            assert left == list(range(left[0], 400))
            assert 0 < left[0] < 400
        kept.rename(taken)


def test_prepared_and_rolled_back_records_are_left_out_unless_asked_for():
    host = host_bytes("10.0.0.1", 10911)
    data = np.frombuffer(b"".join(
        encode_record(StoredMessage(0, 0, 0, 0, at, 0, kind, 0, host, 0, host, 0, 0, b"x", "T", b""))
        for at, kind in enumerate((0, TRANSACTION_PREPARED, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK))
    ), np.uint8)  # fmt: skip
    maker = BatchMaker(BatchOptions(columns=["queueOffset"]))
    for state, kept in (("committed", [0, 2]), ("all", [0, 1, 2, 3])):
        batch = ReadRules(maker, transaction_state=state).batch(locate_untrusted(data, record_starts(data)[0]))
        assert batch is not None
        assert batch["queueOffset"].to_pylist() == kept


def test_a_queue_is_cut_into_as_many_pieces_as_asked_for(store):
    root = store("clean")
    whole = read(root, subscribe="SpanTopic", mode="index")
    for options, count in (({"minPartitions": "7"}, 7), ({"maxRecordsPerPartition": "500"}, 5)):
        with StoreView(str(root)) as view:
            parts = plan_store(
                view, parse_read_options({"path": str(root), "subscribe": "SpanTopic", "mode": "index", **options})
            ).parts
        assert len(parts) >= count
        assert read(root, subscribe="SpanTopic", mode="index", **options) == whole


def test_tags_are_compared_themselves_and_not_only_their_hashes(store):
    root = store("clean")
    tagged = [row for row in read(root) if row["tags"]]
    wanted = tagged[0]["tags"]
    topic = tagged[0]["topic"]
    expected = [row for row in tagged if row["tags"] == wanted and row["topic"] == topic]
    for mode in ("scan", "index"):
        assert read(root, subscribe=topic, tags=f"{wanted} || NoSuchTag", mode=mode) == expected


def test_a_topic_whose_queue_is_gone_is_found_in_the_log(store):
    import shutil

    root = store("clean", fresh=True)
    expected = read(root, subscribe="NormalTopic")
    shutil.rmtree(root / "consumequeue" / "NormalTopic")
    assert read(root, subscribe="NormalTopic") == expected
    shutil.rmtree(root / "consumequeue")
    assert read(root, subscribe="NormalTopic") == expected


def test_damage_is_refused_or_passed_over_and_named(store):
    root = store("clean", fresh=True)
    whole = read(root, mode="scan")
    victim = whole[len(whole) // 2]
    log = sorted((root / "commitlog").iterdir())[0]
    size = log.stat().st_size
    base = int(log.name)
    with open(log, "r+b") as file:
        file.seek(victim["logOffset"] - base)
        file.write(b"\xff" * 60)
    assert victim["logOffset"] < base + size
    with pytest.raises(StorageError, match=str(victim["logOffset"])):
        read(root, mode="scan")
    report: dict = {}
    assert read(root, rules=report, mode="scan", onCorrupt="skip") == [row for row in whole if row != victim]
    assert [str(victim["logOffset"]) in place for place in report["skipped"]] == [True]


def a_log(directory: Path) -> None:
    """A store with a hundred messages in one queue."""
    host = host_bytes("127.0.0.1", 10911)
    log = MessageStore(str(directory), StoreOptions(index_enabled=False))
    log.open()
    for number in range(100):
        log.append("T", 0, 0, 0, number, host, host, 0, b"x" * 20, b"TAGS\x01a\x02")
    log.commit()
    log.close()


def test_a_damaged_record_is_named_by_its_place_and_not_by_what_it_says(tmp_path):
    """The consume queue knows which message it was, so a replay rejects and names it. Its fields named another one, or
    none, and a time that is no date failed the whole job."""
    a_log(tmp_path)
    victim = read(tmp_path, subscribe="T")[50]
    with open(next((tmp_path / "commitlog").iterdir()), "r+b") as file:
        file.seek(victim["logOffset"] + 8)
        file.write(b"\x7f" * 60)
    for mode in ("index", "scan"):
        with pytest.raises(StorageError, match=f"record at log offset {victim['logOffset']} is damaged"):
            read(tmp_path, mode=mode, subscribe="T")
    columns = [*COLUMNS, "brokerName", "storeTimestamp", "originTopic", "offsetMsgId", "sysFlag", "flag", "corrupt"]
    rows = read(tmp_path, mode="index", subscribe="T", onCorrupt="column", columns=columns)
    assert [row["queueOffset"] for row in rows if row["corrupt"]] == [50]
    pytest.importorskip("pyspark")
    task, made = sent_from(rows, columns)
    assert len(made) == 99
    (failure,) = task.finished().failures
    assert (failure.queue, failure.queue_offset) == ("T/broker-a/0", 50)
    assert "damaged at its origin" in failure.remark


@pytest.mark.parametrize(("at", "size", "reason"), [(0, 60, "no record starts here"), (8, 60, "length does not fit")])
def test_a_scan_names_damage_by_its_file_and_bytes(tmp_path, at, size, reason):
    """Only the consume queue knows which message it was, so a replay that scans cannot name it; it left it out without
    a word. The damage is rejected now, once, however many waves find it."""
    a_log(tmp_path)
    victim, following = read(tmp_path, subscribe="T")[50:52]
    file_path = next((tmp_path / "commitlog").iterdir())
    with open(file_path, "r+b") as file:
        file.seek(victim["logOffset"] + at)
        file.write(b"\x7f" * size)
    columns = [*COLUMNS, "brokerName", "storeTimestamp", "originTopic", "offsetMsgId", "sysFlag", "flag", "corrupt"]
    rows = read(tmp_path, mode="scan", subscribe="T", onCorrupt="column", columns=columns)
    place = f"(bytes {victim['logOffset']} to {following['logOffset']} of {file_path})"
    (damaged,) = [row for row in rows if row["corrupt"]]
    assert (damaged["topic"], damaged["logOffset"]) == ("", victim["logOffset"])
    assert reason in damaged["corrupt"]
    assert damaged["corrupt"].endswith(place)
    pytest.importorskip("pyspark")
    task, made = sent_from(rows, columns)
    assert len(made) == 99
    (failure,) = task.finished().failures
    assert (failure.queue, failure.queue_offset) == ("", -1)
    assert place in failure.remark
    with Ledger(str(tmp_path / "job")) as ledger:
        assert [ledger.reject([{"wave": wave, **msgspec.to_builtins(failure)}]) for wave in range(2)] == [1, 0]
    assert len((tmp_path / "job" / "failures.jsonl").read_bytes().splitlines()) == 1


def sent_from(rows: list[dict], columns: list[str]) -> tuple[WaveTask, list[Outgoing]]:
    """The task of a replay of queue 0 of T, and the messages that it sends of the rows."""
    from spark_tools.replay.sink import originals

    queue = MessageQueue("T", "broker-a", 0)
    target = TargetRule(kind="topic", name="U", topics=["U"])
    spec = WaveSpec(job="j", wave=0, wanted=[OffsetRange(queue, 0, 100)], target=target, transform=Transform())
    task = WaveTask(spec)
    schema = BatchMaker(BatchOptions(columns=columns)).schema
    batch = pa.RecordBatch.from_pylist([row | {"properties": list(row["properties"].items())} for row in rows], schema)
    return task, list(task.messages(originals(iter([batch]), spec, task)))


def test_a_log_whose_last_record_is_damaged_too_is_not_taken_for_a_short_one(tmp_path):
    """A start cuts the log at the first damage. The read ended there as well, and said so only in Spark's log."""
    a_log(tmp_path)
    whole = read(tmp_path)
    with open(next((tmp_path / "commitlog").iterdir()), "r+b") as file:
        for victim in (whole[50], whole[99]):
            file.seek(victim["logOffset"])
            file.write(b"\xff" * 60)
    with pytest.raises(StorageError, match=f"damaged at log offset {whole[50]['logOffset']}"):
        read(tmp_path)
    assert read(tmp_path, onCorrupt="skip") == whole[:50]


@pytest.mark.parametrize(("damage", "whole_records"), [(b"\0" * 60, 1), (b"\0" * 400, 4), (b"\xff" * 60, 1)])
def test_damage_in_the_middle_of_a_file_hides_nothing_behind_it(tmp_path, damage, whole_records):
    """Zeros, as of a lost page, were taken for the end of the file: a read that should fail returned the rows before
    them. With sysFlag overwritten, a record was dropped without a word as one of a transaction that had not ended."""
    a_log(tmp_path)
    columns = ["topic", "queueId", "queueOffset", "logOffset"]
    whole = read(tmp_path, columns=columns, subscribe="T")
    victims = whole[50 : 50 + whole_records]
    with open(next((tmp_path / "commitlog").iterdir()), "r+b") as file:
        file.seek(victims[0]["logOffset"])
        file.write(damage)
    for mode, tags in itertools.product(("scan", "index"), ("*", "a")):
        options = {"mode": mode, "subscribe": "T", "tags": tags, "columns": columns}
        with pytest.raises(StorageError):
            read(tmp_path, **options)
        assert read(tmp_path, onCorrupt="skip", **options) == [row for row in whole if row not in victims]
