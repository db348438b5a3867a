"""``store start-plan`` predicts what a real start does, and changes nothing."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from rmqserver.store.message_store import MessageStore
from tests.rmqadmin.conftest import Rmqadmin
from tests.rmqserver.store.checks.stores import OPTIONS, fill
from tests.rmqserver.store.checks.test_dry_run import stamps
from tests.rmqserver.store.golden import unpack
from tests.support.clock import Clock


@pytest.fixture(scope="module")
def torn(tmp_path_factory: Any) -> Path:
    return unpack("torn-body", tmp_path_factory.mktemp("torn"))


def test_a_torn_record_and_what_hangs_on_it(run: Rmqadmin, torn: Path) -> None:
    before = stamps(torn)
    ran = run("-o", "json", "store", "start-plan", str(torn), status=0)
    assert stamps(torn) == before
    summary = ran.document["summary"]
    assert (summary["was_clean"], summary["log_end_offset"], summary["lost_messages"]) == (False, 1540707, 1)
    (cut,) = [item for item in ran.items if item["part"] == "commit log"]
    assert (cut["action"], cut["begin"], cut["count"], cut["size_bytes"]) == ("cut off", 1540707, 1, 92)
    assert cut["what"] == "1 torn record"
    assert "a start loses 1 message, and makes 0 units of consume queues and 189 entries of the index" in ran.err
    assert [item["action"] for item in ran.items if item["part"] == "index"] == ["remove", "make"]


def test_what_is_told_is_what_a_start_does(run: Rmqadmin, tmp_path: Path) -> None:
    root = fill(tmp_path / "store", is_closed=False)
    (root / "config/consumerOffset.json").write_text('{"offsetTable":{"TopicA@GroupA":{0:1000}}}')
    queue = root / "consumequeue/TopicA/0"
    unit_count = sum(map(units_in, queue.iterdir()))
    ran = run("-o", "json", "store", "start-plan", str(root), status=0)
    items = ran.items
    real = shutil.copytree(root, tmp_path / "real")
    store = MessageStore(real, OPTIONS, clock_ms=Clock(), background=False)
    recovered = store.open()
    store.flush()
    store.abandon()
    summary = ran.document["summary"]
    assert summary["log_end_offset"] == recovered.end_offset
    assert summary["records_read"] == recovered.replayed_count
    made = sum(item["count"] for item in items if item["path"].startswith("consumequeue/TopicA/0/"))
    assert made == sum(map(units_in, (real / "consumequeue/TopicA/0").iterdir())) - unit_count == 1
    (back,) = [item for item in items if item["action"] == "set back"]
    assert (back["begin"], back["what"]) == (1000, "what GroupA has committed in TopicA-0")
    assert back["end"] == unit_count + 1


def units_in(path: Path) -> int:
    return len(path.read_bytes().rstrip(b"\0")) // 20 + 1 if path.read_bytes().strip(b"\0") else 0


def test_records_that_could_be_read_are_counted_when_they_are_cut_off(run: Rmqadmin, tmp_path: Path) -> None:
    root = fill(tmp_path / "store", is_closed=False)
    total = run("-o", "json", "store", "verify", str(root)).document["summary"]["records"]
    log = root / "commitlog" / f"{4096:020d}"
    data = bytearray(log.read_bytes())
    data[4] ^= 1  # the magic of the file's first record
    log.write_bytes(data)
    (root / "checkpoint").unlink()
    shutil.rmtree(root / "consumequeue")
    ran = run("-o", "json", "store", "start-plan", str(root))
    (cut,) = [item for item in ran.items if item["part"] == "commit log" and item["action"] == "cut off"]
    summary = ran.document["summary"]
    assert summary["records_read"] + cut["count"] == total - 1  # all but the damaged one
    assert cut["lost_messages"] == summary["lost_messages"] == cut["count"] > 20
    assert cut["what"].startswith(f"{cut['count']} records that can be read: TopicC-0 offsets 4 to 6, ")
    assert cut["oldest_ms"] < cut["newest_ms"]
    found = run("-o", "json", "store", "verify", str(root)).items
    assert any(item["ours"].startswith("cuts the log off here, with ") for item in found)


def test_a_refusal_is_told_and_ends_with_1(run: Rmqadmin, tmp_path: Path) -> None:
    root = unpack("rocksdb", tmp_path)
    ran = run("store", "start-plan", str(root), status=1, err="a broker would refuse to start")
    assert "is a RocksDB database" in ran.err


def test_it_needs_no_word_to_say_that_it_only_reads(run: Rmqadmin, torn: Path) -> None:
    """It was called `store recover`, and refused to run without --dry-run."""
    before = stamps(torn)
    assert run("store", "start-plan", str(torn)).status == 0
    assert stamps(torn) == before
    assert run("store", "recover", str(torn)).status == 2
