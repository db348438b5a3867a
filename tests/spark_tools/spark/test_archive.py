"""The archive of topics: each message once, whatever ends a run, and nothing for a second one."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers import Fresh, topic_config

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import NotFoundError, StorageError
from rmqreplay.ledger.audit import AuditResult
from rmqreplay.plans.plan import Selection
from rmqreplay.plans.request import ReplayRequest
from rmqreplay.run.entry import Runner
from rmqreplay.run.job import Hooks, ReplayProgress
from rmqreplay.source.archive_manifest import commit_batch, load_manifest
from rmqreplay.source.archive_view import ArchiveView
from rmqreplay.source.offset_ranges import OffsetRange
from rmqreplay.source.queue_ranges import DataLossError
from spark_tools.archive import archive_run, batches
from spark_tools.archive.archive_run import ArchiveHooks, ArchiveRequest, archive
from spark_tools.replay.entry import replay
from spark_tools.replay.spark_engine import SparkJobError
from tests.rmqreplay.replay_lab import wait_for_route
from tests.spark_tools.spark.streamed import Sender, each_once
from tests.support import servers
from tests.support.servers import Server, until

pytestmark = pytest.mark.spark


class Archive(Sender):
    """A topic of two queues on the shared broker, and where it is archived."""

    def __init__(self, server: Server, admin: AdminClient, topic: str, directory: Path):
        super().__init__(admin, topic)
        self.address = server.broker_addr
        self.directory = directory
        self.request = ArchiveRequest(
            name_server=server.namesrv_addr, directory=str(directory), topics=[topic], batch_messages=30
        )

    def more(self, count: int) -> None:
        self.send(count, self.address)

    def bodies(self, spark: Any) -> Counter[str]:
        """As anybody reads a table of Parquet."""
        found = spark.read.parquet(str(self.directory)).selectExpr("cast(body as string) body")
        return Counter(row.body for row in found.collect())

    def holds(self) -> int:
        return sum(each.messages for batch in load_manifest(str(self.directory)).batches for each in batch.ranges)


@pytest.fixture
def kept(server: Server, fresh: Fresh, tmp_path: Path) -> Iterator[Archive]:
    with AdminClient(server.namesrv_addr) as admin:
        made = Archive(server, admin, fresh("Archived"), tmp_path / "archive")
        admin.create_topic(server.broker_addr, topic_config(made.topic, 2))
        wait_for_route(admin, made.topic)
        yield made


def test_what_is_there_is_archived_once_and_the_next_run_goes_on(spark, kept: Archive, monkeypatch) -> None:
    kept.more(50)
    first = archive(kept.request, spark=spark)
    assert [sum(each.messages for each in batch.ranges) for batch in first.manifest.batches] == [30, 20]
    with monkeypatch.context() as patch:
        patch.setattr(
            archive_run, "spark_session", lambda *_: pytest.fail("there is nothing new, and Spark is started")
        )
        assert archive(kept.request).manifest.next_number == 2
    message = Message(kept.topic, b"50", tags="a", properties={"colour": "red"})
    kept.admin.send_message(kept.address, MessageQueue(kept.topic, "broker-a", 0), message)
    second = archive(kept.request, spark=spark)
    assert second.manifest.ends() == {MessageQueue(kept.topic, "broker-a", at): 26 - at for at in (0, 1)}
    assert kept.bodies(spark) == each_once(51)
    row = spark.read.parquet(str(kept.directory)).where("queueOffset = 25").first()
    assert (row.body, row.sysFlag, row.tags, row.properties["colour"]) == (b"50", 0, "a", "red")
    assert row.date == row.storeTimestamp.date()
    (folder,) = kept.directory.glob("topic=*/date=*")
    assert folder.relative_to(kept.directory).as_posix() == f"topic={kept.topic}/date={row.date}"


def test_a_run_that_follows_takes_what_comes_and_the_next_one_goes_on(spark, kept: Archive) -> None:
    """It waits where there is nothing new, and is ended there."""
    looks = []

    def look(*_: object) -> None:
        if kept.holds() == kept.count:
            looks.append(kept.count)
            if len(looks) == 2:
                kept.more(10)
            elif len(looks) == 3:
                raise KeyboardInterrupt

    kept.more(10)
    with pytest.raises(KeyboardInterrupt):
        archive(replace(kept.request, every_s=0.01), ArchiveHooks(on_look=look), spark=spark)
    assert looks == [10, 10, 20]
    kept.more(10)
    archive(kept.request, spark=spark)
    assert kept.bodies(spark) == each_once(30)


@pytest.mark.parametrize("point", ["written", "at its place", "committed"])
def test_a_batch_that_ended_anywhere_is_done_once(spark, kept: Archive, monkeypatch, point: str) -> None:
    kept.more(20)

    def end(*given: Any) -> None:
        if point == "committed":
            commit_batch(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(batches, "_counted" if point == "written" else "commit_batch", end)
        with pytest.raises(KeyboardInterrupt):
            archive(kept.request, spark=spark)
    assert kept.holds() == (20 if point == "committed" else 0)
    archive(kept.request, spark=spark)
    assert kept.holds() == 20
    assert kept.bodies(spark) == each_once(20)
    assert sorted(path.name for path in kept.directory.glob("*")) == ["_lock", "_manifest", f"topic={kept.topic}"]


def test_an_archive_is_replayed_once_though_the_replay_is_interrupted(spark, kept: Archive, fresh, tmp_path) -> None:
    """In waves of ten; the first attempt ends after the second."""
    kept.more(20)
    for number, tag in ((20, "a"), (21, "b")):
        message = Message(kept.topic, b"%d" % number, tags=tag, keys="k", properties={"colour": "red"})
        kept.admin.send_message(kept.address, MessageQueue(kept.topic, "broker-a", 0), message)
    archive(kept.request, spark=spark)
    target = fresh("Restored")
    kept.admin.create_topic(kept.address, topic_config(target))
    wait_for_route(kept.admin, target)
    request = ReplayRequest(
        path=str(kept.directory), to=f"topic:{target}", target_name_server=kept.request.name_server, wave_messages=10
    )

    def end(progress: ReplayProgress) -> None:
        if progress.wave == 2:
            raise KeyboardInterrupt

    runner = Runner(ledger_root=str(tmp_path / "ledgers"), hooks=Hooks(on_progress=end))
    with pytest.raises(KeyboardInterrupt):
        replay(request, runner, execute=True, job="restore", spark=spark)
    runner = replace(runner, hooks=Hooks())
    done = replay(None, runner, resume=True, job="restore", spark=spark)
    assert (done.result.delivered_total, done.result.audit) == (22, AuditResult(expected=22, found=22))
    restored = kept.admin.pull_message(kept.address, MessageQueue(target, "broker-a", 0), 0).messages
    assert Counter(message.body.decode() for message in restored) == each_once(22)
    (red,) = (message for message in restored if message.body == b"21")
    assert {name: red.properties[name] for name in ("TAGS", "KEYS", "colour")} == {
        "TAGS": "b", "KEYS": "k", "colour": "red",
    }  # fmt: skip

    some = replace(request, selection=Selection(tags="a"), start_ms=red.store_timestamp_ms - 3_600_000)
    planned = replay(some, runner, job="tagged", spark=spark).plan
    assert (planned.shown["selected"], planned.offset_count) == (1, 22)
    with pytest.raises(NotFoundError, match="no message in this range"):
        replay(replace(request, start_ms=red.store_timestamp_ms), runner, job="later", spark=spark)
    (file,) = kept.directory.glob("topic=*/date=*/*.parquet")
    sound = file.read_bytes()
    file.write_bytes(changed_in_silence(sound))
    with pytest.raises(SparkJobError, match=r"CRC|checksum|Could not read page"):
        replay(None, runner, execute=True, job="tagged", spark=spark)
    with ArchiveView(request.path) as view, pytest.raises(StorageError, match=f"read {file}"):
        view.rows(OffsetRange(MessageQueue(kept.topic, "broker-a", 0), 0, 12), ["body"])
    assert len(kept.admin.pull_message(kept.address, MessageQueue(target, "broker-a", 0), 0).messages) == 22
    file.unlink()
    with pytest.raises(StorageError, match=f"read {file}"):
        replay(None, runner, execute=True, job="tagged", spark=spark)


def changed_in_silence(data: bytes) -> bytes:
    """The Parquet file with another byte, by which bodies are others without an error."""
    bodies = pq.read_table(pa.BufferReader(data), columns=["body"])
    (chunk,) = (each for each in chunks_of(data) if each.path_in_schema == "body")
    for at in range(chunk.data_page_offset, chunk.data_page_offset + chunk.total_compressed_size):
        other = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with contextlib.suppress(OSError, pa.ArrowException):
            found = pq.read_table(pa.BufferReader(other), columns=["body"])
            if found.num_rows == bodies.num_rows and found != bodies:
                return other
    raise AssertionError("each change is noticed")


def chunks_of(data: bytes) -> list[Any]:
    group = pq.read_metadata(pa.BufferReader(data)).row_group(0)
    return [group.column(at) for at in range(group.num_columns)]


def test_only_one_process_writes(spark, kept: Archive) -> None:
    kept.more(4)
    with pytest.raises(StorageError, match="is being written by another process"):
        archive(kept.request, ArchiveHooks(on_look=lambda *_: archive(kept.request, spark=spark)), spark=spark)


def test_what_retention_took_is_told_and_passed_over_only_when_allowed(spark, tmp_path: Path) -> None:
    settings = ("--set", "mappedFileSizeCommitLog=65536", "--set", "fileReservedTime=0")
    with servers.standalone(tmp_path, *settings) as server, AdminClient(server.namesrv_addr) as admin:
        queue, addr = MessageQueue("ShortKept", "broker-a", 0), server.broker_addr
        admin.create_topic(addr, topic_config(queue.topic))
        wait_for_route(admin, queue.topic)
        kept = Archive(server, admin, queue.topic, tmp_path / "archive")
        admin.send_message(addr, queue, Message(queue.topic, b"0"))
        archive(kept.request, spark=spark)
        for _ in range(40):
            admin.send_message(addr, queue, Message(queue.topic, bytes(4000)))

        def is_deleted() -> bool:
            admin.delete_expired_commit_log(addr)
            return admin.min_offset(addr, queue.topic, 0) > 1

        until(is_deleted)
        with pytest.raises(DataLossError, match="offset 1 is gone"):
            archive(kept.request, spark=spark)
        first = admin.min_offset(addr, queue.topic, 0)
        outcome = archive(replace(kept.request, batch_messages=99, allow_loss=True), spark=spark)
    ranges = outcome.manifest.ranges[queue]
    assert [(each.start, each.end, each.missing) for each in ranges] == [(0, 1, 0), (1, 41, first - 1)]
    assert kept.holds() == 1 + 41 - first


def test_a_topic_that_was_made_anew_is_not_mixed_with_the_one_before(spark, kept: Archive) -> None:
    kept.more(20)
    archive(kept.request, spark=spark)
    kept.admin.delete_topic_in_broker(kept.address, kept.topic)
    with pytest.raises(DataLossError, match="is gone, which was read to 10") as lost:
        archive(kept.request, spark=spark)
    assert "--allow-loss" in str(lost.value.hint)
    kept.admin.create_topic(kept.address, topic_config(kept.topic, 2))
    wait_for_route(kept.admin, kept.topic)
    kept.more(2)
    with pytest.raises(StorageError, match="was made anew: it is at 0, and"):
        archive(replace(kept.request, allow_loss=True), spark=spark)
    kept.more(30)
    with pytest.raises(StorageError, match="was made anew after it was read to 10") as mixed:
        archive(kept.request, spark=spark)
    assert mixed.value.hint == archive_run.OTHER_DIRECTORY
    with pytest.raises(StorageError, match="was made anew"):
        archive(replace(kept.request, allow_loss=True), spark=spark)
