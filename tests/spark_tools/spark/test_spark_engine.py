"""The options of a plan, tested in one session: store files, limits, duplicates, expressions, a file as the target."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.servers import topic_config

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import UsageError
from rmqproto.message.record import host_bytes
from rmqreplay.plans.plan import Plan, Selection, Transform
from rmqreplay.plans.planning import plan_replay
from rmqreplay.plans.request import ReplayRequest, freeze
from rmqreplay.plans.user_function import UserFunction
from rmqreplay.run.job import run_replay
from rmqreplay.run.local_engine import LocalEngine
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import StoreOptions
from spark_tools.replay.spark_engine import SparkEngine, first_cause
from tests.rmqreplay.replay_lab import wait_for_route
from tests.support.servers import Server

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def engine(spark) -> SparkEngine:
    return SparkEngine(spark, 2)


@pytest.fixture(scope="module")
def request_of_store(store: str, server: Server) -> ReplayRequest:
    """A request that reads SpanTopic (2,100 messages) from a store that a real broker wrote, and sends to our
    broker."""
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_topic(server.broker_addr, topic_config("WaveTarget"))
        wait_for_route(admin, "WaveTarget")
    return ReplayRequest(
        path=store, topics=["SpanTopic"], to="topic:WaveTarget", target_name_server=server.namesrv_addr
    )


def planned(engine: SparkEngine, directory: Path, request: ReplayRequest) -> tuple[Plan, str]:
    plan = freeze(request)
    assert plan.source.broker_name == "broker-a", "as the store itself says"
    ledger = str(directory / plan.job)
    return plan_replay(plan, engine, ledger, wave_messages=1000, sample=2), ledger


def test_store_files_are_sent_in_waves_with_a_new_body(engine, request_of_store, server, tmp_path) -> None:
    request = replace(
        request_of_store, transform=Transform(body_expression="concat('again-', queueOffset)"), limit=None
    )
    plan, ledger = planned(engine, tmp_path, request)
    assert plan.wave_count == 3
    assert len(plan.shown["samples"]) == 2
    result = run_replay(plan, ledger, engine)
    assert (result.delivered_total, result.waves) == (2100, 3)
    assert result.audit.is_good
    assert run_replay(plan, ledger, engine).stored == 0, "an ended job sends nothing more"
    with AdminClient(server.namesrv_addr) as admin:
        first = admin.pull_message(server.broker_addr, MessageQueue("WaveTarget", "broker-a", 0), 0).messages[0]
    assert first.body.startswith(b"again-")


ONE_IN_THREE = """
import pyarrow.compute as pc

def change(batch):
    wanted = pc.equal(pc.subtract(batch["queueOffset"], pc.multiply(pc.divide(batch["queueOffset"], 3), 3)), 0)
    kept = batch.filter(wanted)
    lengths = pc.cast(pc.binary_length(kept["body"]), "string")
    return kept.set_column(kept.schema.get_field_index("body"), "body", pc.cast(lengths, "binary"))
"""


def test_a_users_function_changes_bodies_and_leaves_messages_out(engine, request_of_store, server, tmp_path) -> None:
    """The function runs in Spark's workers from the plan, since they do not have its file."""
    function = UserFunction("mine:change", ONE_IN_THREE)
    request = replace(request_of_store, transform=Transform(function=function))
    plan, ledger = planned(engine, tmp_path, request)
    assert plan.shown["selected"] + plan.shown["skipped"] == 2100
    with AdminClient(server.namesrv_addr) as admin:
        queue = MessageQueue("WaveTarget", "broker-a", 0)
        end = admin.max_offset(server.broker_addr, queue.topic, 0)
        result = run_replay(plan, ledger, engine)
        first = admin.pull_message(server.broker_addr, queue, end).messages[0]
    assert (result.stored, result.skipped) == (plan.shown["selected"], plan.shown["skipped"])
    assert 0 < result.stored < result.skipped
    assert first.body.isdigit()
    assert result.audit.is_good


def test_a_limit_takes_the_first_by_store_time(engine, request_of_store, tmp_path) -> None:
    plan, _ = planned(engine, tmp_path, replace(request_of_store, limit=7))
    assert sum(each.count for each in plan.ranges) == plan.shown["selected"] == 7


def test_duplicates_are_left_out_once_and_for_all(engine, request_of_store, tmp_path) -> None:
    """Each distinct body is selected once; its duplicates are excluded for good."""
    everything, _ = planned(engine, tmp_path / "a", request_of_store)
    plan, _ = planned(engine, tmp_path / "b", replace(request_of_store, dedup="body"))
    assert plan.shown["selected"] + plan.shown["duplicates"] == everything.shown["selected"]
    assert plan.shown["excluded"] == plan.shown["duplicates"]


def test_a_file_gets_what_was_selected(engine, request_of_store, tmp_path) -> None:
    target = tmp_path / "out"
    request = replace(
        request_of_store, to=f"file:{target}", target_name_server=None, selection=Selection(where="queueOffset % 2 = 0")
    )
    plan, ledger = planned(engine, tmp_path, request)
    result = run_replay(plan, ledger, engine)
    assert result.stored == plan.shown["selected"] > 0
    assert sorted(os.listdir(target)) == [f"wave={wave:05d}" for wave in range(plan.wave_count)]


@pytest.mark.parametrize("selection", [Selection(properties={"KEYS": "k7"}), Selection(where="keys = 'k7'")])
def test_no_filter_drops_a_damaged_message_and_a_file_names_it(engine, request_of_store, tmp_path, selection) -> None:
    """Its properties cannot be read, so it may be one of those that are meant."""
    log = MessageStore(str(tmp_path / "store"), StoreOptions(index_enabled=False))
    log.open()
    host = host_bytes("127.0.0.1", 10911)
    for number in range(100):
        log.append("T", 0, 0, 0, number + 1, host, host, 0, b"x", f"KEYS\x01k{number}\x02".encode())
    log.commit()
    log.close()
    with open(next((tmp_path / "store" / "commitlog").iterdir()), "r+b") as file:
        size = int.from_bytes(file.read(4), "big")
        file.seek(size * 50 + 8)
        file.write(b"\x7f" * 60)
    request = ReplayRequest(
        path=str(tmp_path / "store"), broker_name="b", topics=["T"], to=f"file:{tmp_path / 'out'}", selection=selection
    )
    plan = plan_replay(freeze(request), engine, str(tmp_path / "job"), wave_messages=1000)
    assert (plan.shown["selected"], plan.shown["would_reject"]) == (2, 1)
    result = run_replay(plan, str(tmp_path / "job"), engine)
    assert (result.stored, result.rejected) == (1, 1)
    (listed,) = (tmp_path / "job" / "failures.jsonl").read_text().splitlines()
    assert "damaged at its origin" in listed


@pytest.mark.parametrize("where", ["rand() > 0.5", "storeTimestamp < current_timestamp()", "nosuchcolumn = 1", "a ("])
def test_conditions_that_cannot_be_kept_are_refused(engine, request_of_store, tmp_path, where) -> None:
    with pytest.raises(UsageError):
        planned(engine, tmp_path, replace(request_of_store, selection=Selection(where=where)))


def test_an_expression_that_is_no_sql_is_named(engine, request_of_store, tmp_path) -> None:
    with pytest.raises(UsageError, match=r"--where: \S"):
        planned(engine, tmp_path, replace(request_of_store, selection=Selection(where="a (")))
    with pytest.raises(UsageError, match=r"--body-expr: \S"):
        planned(engine, tmp_path, replace(request_of_store, transform=Transform(body_expression="concat(")))


def test_store_files_need_no_source_and_the_users_sql_picks_the_same_rows(engine, request_of_store) -> None:
    """A source costs one process for each thing that Spark asks of it, and the SQL must not drop damaged rows."""

    def read(selection: Selection) -> tuple[str, dict[tuple[int, int], dict[str, Any]]]:
        plan = msgspec.structs.replace(freeze(request_of_store), selection=selection)
        frame = engine.read(plan, plan.ranges)
        rows = [row.asDict() for row in frame.collect()]
        (explained,) = frame.sparkSession.sql("EXPLAIN SELECT * FROM {frame}", frame=frame).collect()
        return explained[0], {(row["queueId"], row["queueOffset"]): row for row in rows}

    by_step, all_rows = read(Selection())
    by_sql, same_rows = read(Selection(where="1 = 1"))
    assert ("MapInArrow" in by_step, "MapInArrow" in by_sql) == (True, True)
    assert len(all_rows) == 2100
    assert all_rows == same_rows
    times_ms = sorted(int(row["storeTimestamp"].timestamp() * 1000) for row in all_rows.values())
    first_ms, last_ms = times_ms[0], times_ms[-1]
    assert read(Selection(start_time_ms=first_ms, end_time_ms=last_ms + 1))[1] == all_rows
    sql = f"storeTimestamp < timestamp_millis({last_ms})"
    assert read(Selection(end_time_ms=last_ms))[1] == read(Selection(where=sql))[1] != all_rows
    assert read(Selection(end_time_ms=first_ms))[1] == read(Selection(start_time_ms=last_ms + 1))[1] == {}
    assert read(Selection(reconsume_times_min=1))[1] == {}


BODIES = (
    b'{"a":"x"}', b'{"a":1}', b'{"a":1.50}', b'{"a":1e3}', b'{"a":-0}', b'{"a":true}', b'{"a":null}', b'{"a":{"b":1}}',
    b'{"a":[1]}', b'{"a":"y","a":"x"}', b'{"a":"\xe9"}', b'{"a":"x"} and more', b"{'a':'x'}", b'{"a":"x"}{"a":"y"}',
    b'[{"a":"x"}]', b"plain",
)  # fmt: skip


@pytest.mark.parametrize(
    ("selection", "count"),
    [
        (Selection(json_values={"$.a": "x"}), 2),
        (Selection(json_values={"$.a": "1.50"}), 1),
        (Selection(json_values={"$.a": "1e3"}), 1),
        (Selection(json_values={"$.a": "[1]"}), 0),
        (Selection(json_values={"$[0].a": "x"}), 1),
        (Selection(body_pattern=r"^\{.a.:\D|\\xe9"), 11),
    ],
)
def test_bodies_are_selected_as_they_are_without_spark(engine, server: Server, selection, count: int) -> None:
    """Spark's own get_json_object took 1.50 for 1.5, and found values in bodies that are not JSON."""
    topic = "OddBodies"
    with AdminClient(server.namesrv_addr) as admin:
        if topic not in admin.topic_list():
            admin.create_topic(server.broker_addr, topic_config(topic))
            wait_for_route(admin, topic)
            for body in BODIES:
                admin.send_message(server.broker_addr, MessageQueue(topic, "broker-a", 0), Message(topic, body))
    request = ReplayRequest(name_server=server.namesrv_addr, topics=[topic], to="topic:Elsewhere")
    plan = freeze(replace(request, selection=selection))
    with_spark = sorted(row["queueOffset"] for row in engine.read(plan, plan.ranges).collect())
    without = sorted(found.stored.queue_offset for found in LocalEngine(plan).read(plan, plan.ranges))
    assert with_spark == without
    assert len(without) == count


WORKER_DIED = """An exception was thrown from the Python worker:
  File "/spark_tools/source.py", line 136, in read
%s

  JVM stacktrace: org.apache.spark.api.python.PythonException: Traceback
    at org.apache.spark.api.python.BasePythonRunner.handlePythonException"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (WORKER_DIED % "rmqproto.errors.StorageError: the record is damaged", "the record is damaged"),
        (WORKER_DIED % "rmqreplay.source.queue_ranges.DataLossError: T: it is gone", "T: it is gone"),
        (WORKER_DIED % "ImportError: cannot import name 'x'", "ImportError: cannot import name 'x'"),
        ("An error occurred while calling o1.save.\n: org.apache.spark.SparkException: Job aborted\n\tat a.b",
         "org.apache.spark.SparkException: Job aborted"),
        ("o1.save.\n: a.SparkException: [TASK_WRITE_FAILED]\n\tat a.b\nCaused by: a.FSError: x\n\tat a.c\n\t\t"
         "Caused by: java.io.IOException: No space left on device\n\tat a.d",
         "a.SparkException: [TASK_WRITE_FAILED] (java.io.IOException: No space left on device)"),
        ("[PARSE_SYNTAX_ERROR] Syntax error\nat line 1", "[PARSE_SYNTAX_ERROR] Syntax error"),
        ("", "Spark failed without saying why"),
    ],
)  # fmt: skip
def test_a_failure_is_told_in_the_words_of_what_failed(text: str, cause: str) -> None:
    """Except for our own errors, the text used to be 'An exception was thrown from the Python worker:'."""
    assert first_cause(text) == cause
