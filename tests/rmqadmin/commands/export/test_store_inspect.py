"""``store inspect`` reports what is in a store, both as a real broker wrote it and as ours does."""

from pathlib import Path
from typing import Any

import pytest

from tests.rmqadmin.conftest import Rmqadmin
from tests.rmqserver.store.checks.stores import fill
from tests.rmqserver.store.checks.test_dry_run import stamps
from tests.rmqserver.store.golden import RECORDED_MS, manifest, unpack


@pytest.fixture(scope="module")
def killed(tmp_path_factory: Any) -> Path:
    return unpack("killed", tmp_path_factory.mktemp("killed"))


@pytest.fixture(scope="module")
def ours(tmp_path_factory: Any) -> Path:
    return fill(tmp_path_factory.mktemp("ours") / "store")


def test_queues_have_the_offsets_that_the_broker_said(
    run: Rmqadmin, killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqserver.store.message_store.time.time_ns", lambda: RECORDED_MS * 1_000_000)
    before = stamps(killed)
    ran = run("-o", "json", "store", "inspect", str(killed), "--queues", status=0)
    found = {(item["topic"], item["queue_id"]): (item["min_offset"], item["max_offset"]) for item in ran.items}
    said = {
        (topic, int(queue_id)): (queue["minOffset"], queue["maxOffset"])
        for topic, about in manifest("killed")["topics"].items()
        for queue_id, queue in about["queues"].items()
    }
    assert len(found) > 40
    other = {key: (said[key], found[key]) for key in found.keys() & said.keys() if said[key] != found[key]}
    assert other.keys() <= {("CompactTopic", 0)}  # its broker reports the offsets of its compacted log
    summary = ran.document["summary"]
    assert summary["written_by"] == "Apache RocketMQ 5.4 or newer"
    assert summary["state"].startswith("not stopped cleanly (process ")
    assert (summary["log_begin_offset"], summary["log_files"]) == (0, 2)
    assert summary["messages"] == sum(item["messages"] for item in ran.items)
    assert (summary["delayed"], summary["timers"], summary["dead_letters"]) == (5, 2, 5)
    assert (summary["half_messages"], summary["pop_entries"]) == (0, 4)
    assert summary["tables"]["topics.json"] > 50
    assert stamps(killed) == before


def test_topics_are_those_of_the_queues(run: Rmqadmin, ours: Path) -> None:
    ran = run("-o", "json", "store", "inspect", str(ours))
    by_topic = {item["topic"]: item["messages"] for item in ran.items}
    assert by_topic == {
        "SCHEDULE_TOPIC_XXXX": 1, "TopicA": 15, "TopicB": 13, "TopicC": 13, "rmq_sys_wheel_timer": 5,
        "%LMQ%one": 1, "%LMQ%two": 1,
    }  # fmt: skip
    summary = ran.document["summary"]
    assert (summary["state"], summary["written_by"]) == ("stopped cleanly", "rmqserver")
    assert (summary["topics"], summary["light_queues"], summary["messages"]) == (5, 2, 47)
    assert summary["said"] is None


def test_groups_have_their_lag_behind_the_queues(run: Rmqadmin, ours: Path) -> None:
    (item,) = run("-o", "json", "store", "inspect", str(ours), "--groups").items
    queues = run("-o", "json", "store", "inspect", str(ours), "--queues").items
    ends = {row["queue_id"]: row["max_offset"] for row in queues if row["topic"] == "TopicA"}
    assert (item["group"], item["topic"], item["offsets"]) == ("GroupA", "TopicA", {"0": 3, "1": 2})
    assert item["lag_count"] == ends[0] - 3 + ends[1] - 2
    assert not item["known"]


def test_files_say_what_they_hold(run: Rmqadmin, killed: Path) -> None:
    ran = run("-o", "json", "store", "inspect", str(killed), "--files")
    found = {item["path"]: item for item in ran.items}
    assert found.keys() == {str(path.relative_to(killed)) for path in killed.rglob("*") if path.is_file()}
    log = found["commitlog/00000000000001048576"]
    assert (log["begin_offset"], log["end_offset"], log["size_bytes"]) == (1 << 20, 2 << 20, 1 << 20)
    assert 0 < log["on_disk_bytes"] < log["size_bytes"]  # sparse after its end
    assert log["oldest_ms"] > found["commitlog/00000000000000000000"]["oldest_ms"]
    index = [item for path, item in found.items() if path.startswith("index/")]
    assert all(item["begin_offset"] < item["end_offset"] and item["oldest_ms"] <= item["newest_ms"] for item in index)


def test_one_damaged_queue_hides_no_other(run: Rmqadmin, tmp_path: Path) -> None:
    root = fill(tmp_path / "store")
    (root / "consumequeue/TopicA/0" / f"{0:020d}").write_bytes(b"short")
    ran = run("-o", "json", "store", "inspect", str(root), "--queues", status=0)
    found = {(item["topic"], item["queue_id"]): item for item in ran.items}
    assert "is 5 bytes long" in found["TopicA", 0]["problem"]
    assert found["TopicA", 1]["messages"] > 5
    assert found["TopicA", 1]["problem"] is None


def test_a_store_with_queues_in_rocksdb_says_so(run: Rmqadmin, tmp_path: Path) -> None:
    ran = run("-o", "json", "store", "inspect", str(unpack("rocksdb", tmp_path)), status=0)
    assert "is a RocksDB database" in ran.document["summary"]["problem"]
    assert ran.document["summary"]["log_files"] == 3


def test_what_the_log_says_of_damage_is_in_the_answer_alone(run: Rmqadmin, tmp_path: Path) -> None:
    root = fill(tmp_path / "store")
    (root / "commitlog" / f"{4096:020d}").write_bytes(bytes(4096))
    ran = run("-o", "json", "store", "inspect", str(root))
    text, *about_timers = ran.document["summary"]["said"]
    assert [line.split()[0] for line in about_timers] == ["event=timers-read-again", "event=timer-slots-mended"]
    assert text.startswith("the log ends at 4030, before the record at ")
    assert ran.err == ""


def test_one_table_at_a_time(run: Rmqadmin, ours: Path) -> None:
    run("store", "inspect", str(ours), "--queues", "--files", status=2, err="three tables")
