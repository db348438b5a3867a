"""The end of a wave's Spark job: every task takes its rows, turns them into messages, and delivers them under the
driver's permits. In a dry run the same tasks count the same messages and send none."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from rmqproto.bodies import MessageQueue
from rmqproto.signing import Credentials
from spark_tools.hints import hints_in_text
from spark_tools.replay.delivery import Delivery, Limits, Outcome, Outgoing, Place, Rejected
from spark_tools.replay.durable import replace_file
from spark_tools.replay.offsets import OffsetSet
from spark_tools.replay.permit_service import PermitClient
from spark_tools.replay.permits import Entered, Granted
from spark_tools.replay.redrive import Original, Redrive
from spark_tools.replay.target import ReplayTarget
from spark_tools.replay.user_function import RowTransform
from spark_tools.replay.wave_spec import (
    SAMPLE_BODY_MAX_BYTES,
    TaskReport,
    WaveSpec,
    failure,
    merge_reports,
)  # fmt: skip

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

FORMAT = "rocketmq_replay"
COLUMNS = (
    "topic", "brokerName", "queueId", "queueOffset", "storeTimestamp", "flag", "sysFlag", "offsetMsgId", "originTopic",
    "tags", "properties", "body", "corrupt",
)  # fmt: skip
"""What a wave reads; the body comes last but one, and possibly from an expression."""

UNPROTECTED_TTL_S = 3600.0


class ReplaySink(DataSource):
    """``df.write.format("rocketmq_replay")``: registered by the job, of no use to anybody else."""

    def __init__(self, options: Mapping[str, str]):
        super().__init__(dict(options))
        self._spec = msgspec.json.decode(options["spec"].encode(), type=WaveSpec)
        self._secret_key = options.get("secretKey", "")

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> ReplayWriter:
        return ReplayWriter(self._spec, self._secret_key)


@dataclass
class ReportMessage(WriterCommitMessage):
    """A task's report, encoded."""

    report: bytes


class ReplayWriter(DataSourceArrowWriter):
    def __init__(self, spec: WaveSpec, secret_key: str):
        self._spec = spec
        self._secret_key = secret_key

    def write(self, iterator: Iterator[pa.RecordBatch]) -> ReportMessage:
        """Runs once per attempt of a task. An error fails the attempt; Spark may start another."""
        task = WaveTask(self._spec)
        messages = task.messages(iterator)
        if self._spec.permits is None:
            for _ in messages:
                pass
        else:
            task.report.take(self._deliver(messages))
        return ReportMessage(msgspec.json.encode(task.finished()))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver's host, once every task has succeeded: leaves the wave's report where the driver finds it."""
        reports = [
            msgspec.json.decode(each.report, type=TaskReport) for each in messages if isinstance(each, ReportMessage)
        ]
        replace_file(self._spec.result_path, msgspec.json.encode(merge_reports(reports)))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """The wave stays open in the ledger; whoever goes on with it looks at the target first."""

    def _deliver(self, messages: Iterator[Outgoing]) -> Any:
        spec = self._spec
        context = TaskContext.get()
        assert context is not None
        assert spec.permits is not None
        permits = PermitClient(spec.permits, spec.wave, context.partitionId(), context.taskAttemptId())
        target = ReplayTarget(
            spec.name_server, spec.fences, spec.job, keep_order=spec.keep_order,
            send_timeout_s=spec.send_timeout_ms / 1000,
            credentials=Credentials(spec.access_key, self._secret_key) if spec.access_key else None,
        )  # fmt: skip
        limits = Limits(spec.batch_messages, 1 if spec.keep_order else spec.in_flight)
        try:
            with hints_in_text():
                if not spec.protected:
                    plain = _Unprotected(target)
                    return Delivery(plain, plain, time.monotonic, time.sleep, limits).run(messages)
                return Delivery(target, permits, time.monotonic, time.sleep, limits).run(messages)
        finally:
            target.close()
            permits.close()


class _Unprotected:
    """Target and permits of a sender that believes nothing but acknowledgements."""

    def __init__(self, target: ReplayTarget):
        self._target = target

    def enter(self) -> Entered:
        return Entered(must_look=False)

    def ask(self, count: int, size_bytes: int) -> Granted:
        return Granted(count, UNPROTECTED_TTL_S)

    def put(self, batch: Any, not_after: float) -> bool:
        return self._target.put(batch, not_after)

    def outcomes(self) -> list[Outcome]:
        return self._target.outcomes()

    def settle(self) -> None:
        return None

    def look(self) -> set[str]:
        return set()


class WaveTask:
    """Rows in, messages out, and the report of it."""

    def __init__(self, spec: WaveSpec):
        self._spec = spec
        self._wanted = OffsetSet(spec.wanted)
        self._excluded = OffsetSet.from_json(spec.excluded)
        self._redrive = Redrive(spec.job, spec.target, spec.transform)
        function = spec.transform.function
        self._transform = RowTransform(function, is_rehearsal=spec.permits is None) if function else None
        self._topics: Counter[str] = Counter()
        self._tags: Counter[str] = Counter()
        self.report = TaskReport()

    def messages(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Outgoing]:
        """The messages to send; what is left out or rejected is noted."""
        report = self.report
        for batch in batches:
            for row in self._rows(batch):
                report.selected += 1
                made = self._redrive.outgoing(_original(row))
                if isinstance(made, Rejected):
                    report.failures.append(failure(made))
                    continue
                self._tally(row, made)
                yield made

    def _rows(self, batch: pa.RecordBatch) -> list[dict[str, Any]]:
        """What the batch holds of the wave's messages, as the user's function leaves them."""
        rows, kept = [], []
        for index, row in enumerate(batch.to_pylist(maps_as_pydicts="lossy")):
            place = _place(row)
            if place not in self._wanted:
                continue
            if place in self._excluded:
                self.report.excluded += 1
                continue
            rows.append(row)
            kept.append(index)
        return rows if self._transform is None else self._transformed(self._transform, batch.take(kept), rows)

    def _transformed(
        self, transform: RowTransform, batch: pa.RecordBatch, rows: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Damaged records are kept from the function: they will be rejected by name, whatever it would make of them."""
        whole = [index for index, row in enumerate(rows) if not row["corrupt"]]
        made = transform.rows(batch.take(whole), [rows[index] for index in whole])
        self.report.skipped += len(whole) - len(made)
        return [*(row for row in rows if row["corrupt"]), *made]

    def finished(self) -> TaskReport:
        self.report.topics, self.report.tags = dict(self._topics), dict(self._tags)
        return self.report

    def _tally(self, row: dict[str, Any], made: Outgoing) -> None:
        report = self.report
        report.size_bytes += made.size_bytes
        self._topics[made.topic] += 1
        self._tags[row["tags"] or ""] += 1
        stored_ms = int(row["storeTimestamp"].timestamp() * 1000)
        report.oldest_ms = stored_ms if report.oldest_ms is None else min(report.oldest_ms, stored_ms)
        report.newest_ms = stored_ms if report.newest_ms is None else max(report.newest_ms, stored_ms)
        if len(report.samples) < self._spec.sample:
            report.samples.append(sample(row, made))


def _place(row: dict[str, Any]) -> Place:
    return MessageQueue(row["topic"], row["brokerName"] or "", row["queueId"]), row["queueOffset"]


def _original(row: dict[str, Any]) -> Original:
    queue, queue_offset = _place(row)
    return Original(
        queue=queue, queue_offset=queue_offset, origin_topic=row["originTopic"], offset_message_id=row["offsetMsgId"],
        properties=row["properties"] or {}, body=row["body"] or b"", flag=row["flag"], sys_flag=row["sysFlag"],
        corrupt=row.get("corrupt"),
    )  # fmt: skip


def sample(row: dict[str, Any], made: Outgoing) -> dict[str, Any]:
    """A message before and after, for eyes."""
    from rmqproto import properties as props

    return {
        "from": f"{row['topic']}/{row['brokerName']}/{row['queueId']}@{row['queueOffset']}",
        "to": made.topic,
        "properties_before": row["properties"] or {},
        "properties_after": props.parse(made.properties),
        "body": made.body[:SAMPLE_BODY_MAX_BYTES].decode("utf-8", "replace"),
        "body_size_bytes": len(made.body),
    }


def remove_result(path: str) -> None:
    """Before a wave starts, so that an old report is never taken for its own."""
    if os.path.exists(path):
        os.unlink(path)
