"""Idempotent writes at a real broker, as tasks make them, and the plan that they follow. Without Spark."""

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.servers import Fresh, topic_config

pytest.importorskip("pyarrow")

import msgspec
import pyarrow as pa

from rmqclient.admin import AdminClient
from rmqproto.errors import StorageError, UsageError
from rmqproto.message.record import decode_records_untrusted
from rmqreplay.sending.delivery import DeliveryError
from rmqreplay.source.live import LiveCluster
from rmqreplay.source.offset_ranges import OffsetRange
from rmqreplay.source.pulling import PullRules, pull_range
from spark_tools.source_options import WriteOptions, parse_write_options
from spark_tools.writing import plan as plans
from spark_tools.writing import tasks
from spark_tools.writing.idempotent import OtherRowsError
from spark_tools.writing.plan import FILE, StreamCheckpoint, WritePlan, make_plan
from spark_tools.writing.tasks import TaskSent, write_once
from tests.rmqreplay.replay_lab import wait_for_route
from tests.support.servers import Server

QUEUES = 3
FIRST_BATCH = 0
"""Its first row of task 0 goes to the first queue."""


@pytest.fixture
def cluster(server: Server) -> Iterator[LiveCluster]:
    with LiveCluster(server.namesrv_addr) as running:
        yield running


@pytest.fixture
def topic(server: Server, fresh: Fresh) -> str:
    name = fresh("Once")
    queues_of(server, name, QUEUES)
    return name


def queues_of(server: Server, topic: str, count: int) -> None:
    with AdminClient(server.namesrv_addr) as admin:
        admin.create_topic(server.broker_addr, topic_config(topic, count))
        wait_for_route(admin, topic)


def options(server: Server, topic: str, **more: str) -> WriteOptions:
    return parse_write_options({"nameServer": server.namesrv_addr, "topic": topic, "delivery": "idempotent", **more})


def frame(count: int, **columns: list[object]) -> Iterator[pa.RecordBatch]:
    bodies = [b"row %d" % number for number in range(count)]
    return iter([pa.RecordBatch.from_pydict({"body": bodies, **columns})])


def write(
    server: Server, cluster: LiveCluster, plan: WritePlan, batches: Iterator[pa.RecordBatch], **more: str
) -> TaskSent:
    return write_once(options(server, plan.topic, **more), plan, plan.write_id, cluster, 0, batches)


def stored(cluster: LiveCluster, topic: str) -> dict[int, list[bytes]]:
    cluster.forget_route(topic)
    found: dict[int, list[bytes]] = {}
    for queue in cluster.queues(topic):
        start, end = cluster.bounds(queue)
        pulled = pull_range(cluster, OffsetRange(queue, start, end), PullRules())
        found[queue.queue_id] = [each.body for body in pulled for each in decode_records_untrusted(body)]
    return found


def dealt(count: int, queues: int = QUEUES) -> dict[int, list[bytes]]:
    return {at: [b"row %d" % number for number in range(at, count, queues)] for at in range(queues)}


def test_a_repeated_task_stores_the_rest_though_queues_have_come(
    server: Server, cluster: LiveCluster, topic: str
) -> None:
    plan = make_plan(cluster, topic, FIRST_BATCH)
    interrupted = iter([*frame(700), *["no batch"]])
    with pytest.raises(AttributeError, match="to_pylist"):
        write(server, cluster, plan, interrupted)
    before = sum(map(len, stored(cluster, topic).values()))
    assert 0 < before <= 700
    queues_of(server, topic, 2 * QUEUES)
    for _ in range(2):
        done = write(server, cluster, plan, frame(1000))
        assert (done.stored, done.rejects.count) == (1000, 0)
        assert stored(cluster, topic) == dealt(1000) | {at: [] for at in range(QUEUES, 2 * QUEUES)}


@pytest.mark.parametrize("next_batch", [False, True])
def test_a_zombie_that_goes_on_stores_nothing_more(
    server: Server, cluster: LiveCluster, topic: str, tmp_path: Path, next_batch: bool
) -> None:
    """It stands still in the middle of its rows, until another attempt has stored all of them, or until the next batch
    has begun."""
    checkpoint, is_half_sent, goes_on = StreamCheckpoint(str(tmp_path)), threading.Event(), threading.Event()
    begin_batch(tmp_path, 0)
    plan = checkpoint.plan(cluster, topic)

    def with_a_pause() -> Iterator[pa.RecordBatch]:
        (batch,) = frame(300)
        for number in range(0, 300, 10):
            if number == 150:
                is_half_sent.set()
                assert goes_on.wait(60)
            yield batch.slice(number, 10)

    def zombie() -> TaskSent:
        with LiveCluster(server.namesrv_addr) as own:
            return write_once(options(server, topic, batchSize="5"), plan, "query", own, 0, with_a_pause())

    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(zombie)
        assert is_half_sent.wait(60)
        write_once(options(server, topic), plan, "query", cluster, 0, frame(300), is_again=True)
        if next_batch:
            begin_batch(tmp_path, 1)
            later = checkpoint.plan(cluster, topic)
            write_once(options(server, topic), later, "query", cluster, 0, frame(3))
        goes_on.set()
        if next_batch:
            with pytest.raises(DeliveryError, match="epoch 0 has ended"):
                running.result(60)
        else:
            assert running.result(60).stored == 300
    found = Counter(body for bodies in stored(cluster, topic).values() for body in bodies)
    assert found == Counter([b"row %d" % number for number in [*range(300), *(range(3) if next_batch else ())]])


def begin_batch(checkpoint: Path, number: int) -> None:
    """As Spark notes it."""
    (checkpoint / "offsets").mkdir(exist_ok=True)
    (checkpoint / "offsets" / str(number)).touch()


def test_batches_and_tasks_of_one_row_go_to_all_queues(server: Server, cluster: LiveCluster, topic: str) -> None:
    """All of them went to the first one."""
    for batch_id in range(QUEUES):
        plan = make_plan(cluster, topic, batch_id)
        for _ in range(2):
            write(server, cluster, plan, frame(1))
    assert [len(bodies) for bodies in stored(cluster, topic).values()] == [1, 1, 1]
    plan = make_plan(cluster, topic)
    for task in range(QUEUES):
        write_once(options(server, topic), plan, plan.write_id, cluster, task, frame(1))
    assert [len(bodies) for bodies in stored(cluster, topic).values()] == [2, 2, 2]


def test_what_the_broker_changes_makes_no_other_row(server: Server, cluster: LiveCluster, topic: str) -> None:
    """It takes away the mark of a POP, and adds the queue of a lite topic."""
    plan = make_plan(cluster, topic)
    for _ in range(2):
        marks = [[("POP_CK", "1 2 3"), ("__LITE_TOPIC", "lite")]] * 6
        kinds = pa.schema([("body", pa.binary()), ("properties", pa.map_(pa.string(), pa.string()))])
        rows = pa.RecordBatch.from_pydict({"body": [b"row"] * 6, "properties": marks}, schema=kinds)
        sent = write(server, cluster, plan, iter([rows]), batchSize="1")
        assert (sent.stored, sent.rejects.count) == (6, 0)
    assert sum(map(len, stored(cluster, topic).values())) == 6


def test_other_rows_are_refused(server: Server, cluster: LiveCluster, topic: str) -> None:
    plan = make_plan(cluster, topic, FIRST_BATCH)
    write(server, cluster, plan, frame(5, keys=["a", "b", "c", "d", "e"]))
    with pytest.raises(OtherRowsError, match="row 3 of this task"):
        write(server, cluster, plan, frame(5, keys=["a", "b", "c", "X", "e"]))
    with pytest.raises(OtherRowsError, match=r"stored 2 rows in queue 1 .* and this one has 1"):
        write(server, cluster, plan, frame(4, keys=["a", "b", "c", "d"]))
    assert write(server, cluster, plan, frame(5, keys=["a", "b", "c", "d", "e"]), compressOver="1").stored == 5
    assert stored(cluster, topic) == dealt(5)


def test_a_rejected_row_takes_no_number(server: Server, cluster: LiveCluster, topic: str) -> None:
    plan = make_plan(cluster, topic, FIRST_BATCH)
    bodies: list[object] = [b"0", b"", b"x" * (plan.body_max_bytes + 1), b"3", b"4"]
    columns = {"body": bodies, "properties": [[("DELAY", "3")] if at == 4 else [] for at in range(5)]}
    schema = pa.schema([("body", pa.binary()), ("properties", pa.map_(pa.string(), pa.string()))])
    for _ in range(2):
        done = write(server, cluster, plan, iter([pa.RecordBatch.from_pydict(columns, schema)]))
        assert done.stored == 2
        assert [row.row for row in done.rejects.rows] == [1, 2, 4]
        assert done.rejects.rows[1].remark == (
            f"its body has {plan.body_max_bytes + 1} bytes, more than maxMessageSize ({plan.body_max_bytes}) allows"
        )
        assert "no delay" in done.rejects.rows[2].remark
    assert stored(cluster, topic) == {0: [b"0", b"3"], 1: [], 2: []}


def test_more_tasks_than_a_broker_remembers_are_refused(
    server: Server, cluster: LiveCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "PRODUCERS_MAX", 5)
    plan = make_plan(cluster, topic, FIRST_BATCH)
    with pytest.raises(UsageError, match="more than 1 tasks write to 3 queues of a broker"):
        write_once(options(server, topic), plan, plan.write_id, cluster, 1, frame(1))
    assert write(server, cluster, plan, frame(1)).stored == 1


def test_a_broker_that_does_not_know_numbers_is_refused_in_words(
    cluster: LiveCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Apache's, which lacks the setting."""
    monkeypatch.setattr(plans, "OWN_SETTING", "noSuchSetting")
    with pytest.raises(UsageError, match="needs rmqserver, and broker-a is another"):
        make_plan(cluster, topic)


def test_a_batch_keeps_its_plan_for_the_next_driver(
    server: Server, cluster: LiveCluster, topic: str, tmp_path: Path
) -> None:
    location = tmp_path / "checkpoint"
    first = StreamCheckpoint(str(location)).plan(cluster, topic)
    assert (first.batch_id, len(first.queues)) == (0, QUEUES)
    queues_of(server, topic, 2 * QUEUES)
    cluster.forget_route(topic)
    (location / "offsets").mkdir()
    (location / "offsets" / "0").touch()
    again = msgspec.structs.replace(first, is_repeated=True)
    assert StreamCheckpoint(f"file:{location}").plan(cluster, topic) == again
    assert StreamCheckpoint(f"file://{location}").plan(cluster, topic) == again
    (location / "offsets" / "10").touch()
    (location / "offsets" / ".10.crc").touch()
    later = StreamCheckpoint(str(location)).plan(cluster, topic)
    assert (later.batch_id, len(later.queues)) == (10, 2 * QUEUES)
    assert {each.name for each in location.iterdir()} == {"offsets", FILE}


def test_a_batch_that_cannot_be_repeated_is_refused(cluster: LiveCluster, topic: str, tmp_path: Path) -> None:
    checkpoint = StreamCheckpoint(str(tmp_path))
    kept = checkpoint.plan(cluster, topic)
    with pytest.raises(UsageError, match=f"begun for the topic {topic}, and not for Other"):
        checkpoint.plan(cluster, "Other")
    older = msgspec.structs.replace(kept, begun_ms=kept.begun_ms - 21 * 3_600_000)
    (tmp_path / FILE).write_bytes(msgspec.json.encode(older))
    with pytest.raises(UsageError, match="begun 21 hours ago"):
        checkpoint.plan(cluster, topic)


def test_a_plan_that_cannot_be_read_is_refused_in_words(cluster: LiveCluster, topic: str, tmp_path: Path) -> None:
    checkpoint = StreamCheckpoint(str(tmp_path))
    whole = msgspec.json.encode(checkpoint.plan(cluster, topic))
    no_queues = msgspec.json.encode(msgspec.json.decode(whole) | {"queues": []})
    halves = [whole[:at] for at in range(0, len(whole), 7)]
    for data in (*halves, no_queues, b"\xff" + whole, whole.replace(topic.encode(), b"\xff\xfe"), bytes(len(whole))):
        (tmp_path / FILE).write_bytes(data)
        with pytest.raises(StorageError) as caught:
            checkpoint.plan(cluster, topic)
        assert str(caught.value).startswith(f"{FILE} in the checkpoint {tmp_path} is damaged ({len(data):,} byte")
        assert "new checkpoint" in (caught.value.hint or "")
    (tmp_path / FILE).write_bytes(whole)
    (tmp_path / f"{FILE}.part").write_bytes(whole[:9])  # of a driver that was killed before the batch began
    assert checkpoint.plan(cluster, topic).is_repeated
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).mkdir()
    with pytest.raises(StorageError, match=f"{FILE} .* {tmp_path} cannot be read: "):
        checkpoint.plan(cluster, topic)
    in_a_file = tmp_path / "file"
    in_a_file.touch()
    with pytest.raises(StorageError, match=r"cannot be (read|written): "):
        StreamCheckpoint(str(in_a_file)).plan(cluster, topic)


def test_what_cannot_be_written_once_is_refused_before_it_begins(server: Server) -> None:
    with pytest.raises(UsageError, match="needs the option topic"):
        parse_write_options({"nameServer": "h:1", "delivery": "idempotent"})
    with pytest.raises(UsageError, match="none of at-least-once, idempotent"):
        parse_write_options({"nameServer": "h:1", "topic": "T", "delivery": "effectively-once"})
    with pytest.raises(UsageError, match=r"checkpointLocation .* cannot be used with delivery=idempotent"):
        StreamCheckpoint("nosuch://host/path")
