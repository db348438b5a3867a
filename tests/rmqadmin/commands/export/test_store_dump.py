"""``store dump`` shows every piece of a store's files, and damage where it is."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.rmqadmin.conftest import Rmqadmin
from tests.rmqserver.store.checks.stores import fill
from tests.rmqserver.store.checks.test_dry_run import stamps
from tests.rmqserver.store.golden import messages, unpack


@pytest.fixture(scope="module")
def killed(tmp_path_factory: Any) -> Path:
    return unpack("killed", tmp_path_factory.mktemp("killed"))


@pytest.fixture(scope="module")
def ours(tmp_path_factory: Any) -> Path:
    return fill(tmp_path_factory.mktemp("ours") / "store", is_closed=False)


def dump(run: Rmqadmin, root: Path, *args: str) -> list[dict[str, Any]]:
    ran = run("-o", "jsonl", "store", "dump", str(root), *args, status=0)
    return [json.loads(line) for line in ran.out.splitlines()]


def test_the_log_has_every_message_that_the_broker_served(run: Rmqadmin, killed: Path) -> None:
    before = stamps(killed)
    rows = {row["log_offset"]: row for row in dump(run, killed, "log")}
    served = [
        message for message in messages("killed") if message["topic"] in ("NormalTopic", "PlainTopic", "SpanTopic")
    ]
    assert len(served) > 2000
    for message in served[:: len(served) // 200]:
        row = rows[message["commitLogOffset"]]
        assert (row["topic"], row["queue_id"], row["queue_offset"]) == (
            message["topic"], message["queueId"], message["queueOffset"],
        )  # fmt: skip
        assert (row["size_bytes"], row["stored_ms"]) == (message["storeSize"], message["storeTimestamp"])
    assert stamps(killed) == before


def test_a_part_of_the_log_by_offsets_topic_and_limit(run: Rmqadmin, ours: Path) -> None:
    whole = dump(run, ours, "log")
    assert [row["problem"] for row in whole] == [None] * len(whole)
    first, end = whole[7]["log_offset"], whole[20]["log_offset"]
    assert dump(run, ours, "log", "--from", str(first), "--to", str(end)) == whole[7:20]
    mine = [row for row in whole if (row["topic"], row["queue_id"]) == ("TopicA", 1)]
    assert dump(run, ours, "log", "--topic", "TopicA", "--queue", "1") == mine != []
    ran = run("-o", "jsonl", "store", "dump", str(ours), "log", "--limit", "3")
    assert len(ran.out.splitlines()) == 3
    assert "stopped by --limit" in ran.err


def test_an_offset_amid_a_record_leads_to_the_next_one(run: Rmqadmin, ours: Path) -> None:
    whole = dump(run, ours, "log")
    ran = run("-o", "jsonl", "store", "dump", str(ours), "log", "--from", str(whole[3]["log_offset"] + 1))
    assert json.loads(ran.out.splitlines()[0])["log_offset"] == whole[4]["log_offset"]
    assert f"the next one is at {whole[4]['log_offset']}" in ran.err


def test_damage_of_the_log_is_in_its_place_with_its_bytes(run: Rmqadmin, tmp_path: Path) -> None:
    root = unpack("torn-body", tmp_path)
    *_, before, row = dump(run, root, "log")
    assert before["problem"] is None
    assert row["log_offset"] == before["log_offset"] + before["size_bytes"] == 1540707
    assert row["problem"]
    assert (row["path"], row["at_byte"]) == ("commitlog/00000000000001048576", 492131)
    log = (root / row["path"]).read_bytes()
    assert base64.b64decode(row["raw_base64"]) == log[row["at_byte"] :][: row["size_bytes"]]
    assert dump(run, root, "log", "--from", "1540707") == [row]


def test_units_of_a_queue_lead_to_their_messages(run: Rmqadmin, ours: Path) -> None:
    logged = {row["log_offset"]: row for row in dump(run, ours, "log", "--topic", "TopicB")}
    rows = dump(run, ours, "queue", "--topic", "TopicB")
    assert {row["log_offset"] for row in rows} == set(logged)
    for row in rows:
        assert logged[row["log_offset"]]["queue_offset"] == row["queue_offset"]
        assert (row["size_bytes"], row["problem"]) == (logged[row["log_offset"]]["size_bytes"], None)
    part = dump(run, ours, "queue", "--topic", "TopicB", "--queue", "0", "--from", "2", "--to", "4")
    assert [(row["queue_id"], row["queue_offset"]) for row in part] == [(0, 2), (0, 3)]


def test_a_unit_that_leads_elsewhere_says_where(run: Rmqadmin, tmp_path: Path) -> None:
    root = fill(tmp_path / "store")
    units, others = (root / f"consumequeue/{name}/0" / f"{0:020d}" for name in ("TopicA", "TopicB"))
    data = units.read_bytes()
    units.write_bytes(data[:20] + others.read_bytes()[:20] + bytes(20) + data[60:])
    rows = dump(run, root, "queue", "--topic", "TopicA", "--queue", "0")
    assert [row["queue_offset"] for row in rows if row["problem"]] == [1, 2]
    assert rows[1]["problem"] == "the record there is of TopicB-0 offset 0"
    assert rows[2]["problem"] == "no unit is here"


def test_index_entries_have_the_keys_of_their_messages(run: Rmqadmin, killed: Path) -> None:
    logged = {row["log_offset"]: row for row in dump(run, killed, "log")}
    rows = dump(run, killed, "index")
    assert len(rows) == run("-o", "json", "store", "inspect", str(killed)).document["summary"]["index_entries"]
    assert {row["problem"] for row in rows} == {None}
    for row in rows[::50]:
        message = logged[row["log_offset"]]
        keys = [message["message_id"], *(message["keys"] or "").split(), f"T#{message['tags']}"]
        assert row["key"] in keys
        assert abs(row["indexed_ms"] - message["stored_ms"]) < 1000
    late = dump(run, killed, "index", "--from", "1048576", "--limit", "2")
    assert len(late) == 2
    assert min(row["log_offset"] for row in late) >= 1048576


def test_timers_and_the_slots_that_lead_to_them(run: Rmqadmin, killed: Path) -> None:
    units = {row["position"]: row for row in dump(run, killed, "timers")}
    slots = dump(run, killed, "wheel")
    assert {row["problem"] for row in units.values()} == {None}
    assert {row["kind"] for row in units.values()} == {"timer", "timer, rolled", "recall"}
    assert "TimerTopic" in {row["topic"] for row in units.values()}
    for slot in slots:
        assert units[slot["last_position"]]["due_ms"] // 1000 == slot["due_ms"] // 1000
        assert slot["delivered"] == units[slot["last_position"]]["delivered"]


def test_checkpoints_field_by_field(run: Rmqadmin, ours: Path) -> None:
    rows = {(row["path"], row["field"]): row for row in dump(run, ours, "checkpoint")}
    offset = rows["checkpoint", "queues_log_offset"]["value"]
    assert offset in {row["log_offset"] for row in dump(run, ours, "log")}
    assert rows["checkpoint", "own_log_offset"]["value"] == offset
    newest = rows["checkpoint", "log_timestamp_ms"]
    assert newest["told_ms"] == newest["value"] > 0
    assert rows["config/timercheck", "queue_offset"]["told_ms"] is None


def test_tables_entry_by_entry(run: Rmqadmin, killed: Path, tmp_path: Path) -> None:
    (row,) = [row for row in dump(run, killed, "tables", "--table", "topics.json") if row["entry"] == "OrderTopic"]
    assert json.loads(row["value"])["topicName"] == "OrderTopic"
    assert len({row["table"] for row in dump(run, killed, "tables")}) == 8
    ran = run("store", "dump", str(killed), "tables", "--table", "nothing")
    assert (ran.status, "there is no table nothing" in ran.err) == (2, True)
    root = fill(tmp_path / "store")
    table = root / "config/topics.json"
    table.with_suffix(".json.bak").write_bytes(table.read_bytes())
    table.write_text('{"topicConfigTable":{"Top')
    rows = [row for row in dump(run, root, "tables") if row["table"].startswith("topics")]
    assert rows[0]["problem"]
    assert {row["table"] for row in rows[1:]} == {"topics.json.bak"}


def test_options_that_say_nothing_about_a_part_are_refused(run: Rmqadmin, ours: Path) -> None:
    for args in (["index", "--topic", "TopicA"], ["tables", "--from", "1"], ["log", "--table", "topics.json"]):
        ran = run("store", "dump", str(ours), *args, status=2, err=f"{args[1]} does not apply to {args[0]}")
    ran = run("store", "dump", str(ours), "queue", "--topic", "Nope", "--queue", "3")
    assert (ran.status, "there is no consume queue of Nope-3" in ran.err) == (2, True)
