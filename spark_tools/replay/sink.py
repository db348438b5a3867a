"""The end of a wave's Spark job: every task takes its rows, turns them into messages, and delivers them under the
driver's permits. In a dry run the same tasks count the same messages and send none."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from rmqproto.bodies.base import MessageQueue
from spark_tools.hints import hints_in_text
from spark_tools.replay.delivery import DeliveryReport, Outgoing, Place
from spark_tools.replay.durable import replace_file
from spark_tools.replay.redrive import Original
from spark_tools.replay.user_function import RowTransform
from spark_tools.replay.wave_spec import TaskReport, WaveSpec, merge_reports
from spark_tools.replay.wave_task import WaveTask, deliver

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

FORMAT = "rocketmq_replay"
COLUMNS = (
    "topic", "brokerName", "queueId", "queueOffset", "storeTimestamp", "flag", "sysFlag", "offsetMsgId", "originTopic",
    "tags", "properties", "body", "corrupt",
)  # fmt: skip
"""The columns that a wave reads; the body is the last but one, and may come from an expression."""


class ReplaySink(DataSource):
    """``df.write.format("rocketmq_replay")``: registered by the job, and of no use elsewhere."""

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
        messages = task.messages(originals(iterator, self._spec, task))
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
        """The wave stays open in the ledger; the run that goes on with it looks at the target first."""

    def _deliver(self, messages: Iterator[Outgoing]) -> DeliveryReport:
        context = TaskContext.get()
        assert context is not None
        with hints_in_text():
            return deliver(
                self._spec, messages, partition=context.partitionId(), attempt=context.taskAttemptId(),
                secret_key=self._secret_key,
            )  # fmt: skip


def originals(batches: Iterator[pa.RecordBatch], spec: WaveSpec, task: WaveTask) -> Iterator[Original]:
    """The wave's messages in the batches, as the user's function leaves them."""
    function = spec.transform.function
    transform = RowTransform(function, is_rehearsal=spec.permits is None) if function else None
    for batch in batches:
        rows, kept = [], []
        for index, row in enumerate(batch.to_pylist(maps_as_pydicts="lossy")):
            if task.takes(_place(row)):
                rows.append(row)
                kept.append(index)
        if transform is not None:
            rows = _transformed(transform, batch.take(kept), rows, task.report)
        yield from map(_original, rows)


def _transformed(
    transform: RowTransform, batch: pa.RecordBatch, rows: list[dict[str, Any]], report: TaskReport
) -> list[dict[str, Any]]:
    """The function does not get damaged records: they will be rejected by name, whatever it would make of them."""
    whole = [index for index, row in enumerate(rows) if not row["corrupt"]]
    made = transform.rows(batch.take(whole), [rows[index] for index in whole])
    report.skipped += len(whole) - len(made)
    return [*(row for row in rows if row["corrupt"]), *made]


def _place(row: dict[str, Any]) -> Place:
    return MessageQueue(row["topic"], row["brokerName"] or "", row["queueId"]), row["queueOffset"]


def _original(row: dict[str, Any]) -> Original:
    queue, queue_offset = _place(row)
    return Original(
        queue=queue, queue_offset=queue_offset, origin_topic=row["originTopic"], offset_message_id=row["offsetMsgId"],
        properties=row["properties"] or {}, body=row["body"] or b"", flag=row["flag"], sys_flag=row["sysFlag"],
        corrupt=row.get("corrupt"), store_timestamp_ms=round(row["storeTimestamp"].timestamp() * 1000),
    )  # fmt: skip


def remove_result(path: str) -> None:
    """Called before a wave starts, so that an old report is never taken for its own."""
    if os.path.exists(path):
        os.unlink(path)
