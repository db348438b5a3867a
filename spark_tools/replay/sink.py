"""The end of a wave's Spark job: every task takes its rows, turns them into messages, and delivers them under the
driver's permits. In a dry run the same tasks count the same messages and send none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark import TaskContext

from rmqproto.bodies.base import MessageQueue
from rmqreplay.ledger.letters import Place
from rmqreplay.plans.user_function import RowTransform
from rmqreplay.run.engine import TaskReport, WaveSpec
from rmqreplay.run.wave_task import WaveTask, deliver
from rmqreplay.sending.delivery import DeliveryReport, Outgoing
from rmqreplay.sending.redrive import Original
from rmqreplay.source.live import ClusterAccess
from spark_tools.spark_worker import hints_in_text

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = (
    "topic", "brokerName", "queueId", "queueOffset", "storeTimestamp", "flag", "sysFlag", "msgId", "offsetMsgId",
    "originTopic", "tags", "properties", "body", "corrupt",
)  # fmt: skip
"""The columns that a wave reads; the body is the last but one, and may come from an expression."""


REPORT_SCHEMA = "report binary"


@dataclass(frozen=True, slots=True)
class WaveSink:
    """The last step of a wave's query. It yields each task's encoded TaskReport as the only row of REPORT_SCHEMA."""

    spec: WaveSpec
    access: ClusterAccess

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Runs once per attempt of a task. An error fails the attempt; Spark may start another."""
        import pyarrow as pa

        task = WaveTask(self.spec)
        messages = task.messages(originals(batches, self.spec, task))
        if self.spec.permits is None:
            for _ in messages:
                pass
        else:
            task.take(self._deliver(messages))
        yield pa.RecordBatch.from_pydict({"report": pa.array([msgspec.json.encode(task.finished())], pa.binary())})

    def _deliver(self, messages: Iterator[Outgoing]) -> DeliveryReport:
        context = TaskContext.get()
        assert context is not None
        with hints_in_text():
            return deliver(
                self.spec, messages, self.access, partition=context.partitionId(), attempt=context.taskAttemptId()
            )


def originals(batches: Iterator[pa.RecordBatch], spec: WaveSpec, task: WaveTask) -> Iterator[Original]:
    """The wave's messages in the batches, as the user's function returns them."""
    function = spec.transform.function
    transform = RowTransform(function, is_rehearsal=spec.permits is None) if function else None
    for batch in batches:
        rows, kept = [], []
        for index, row in enumerate(batch.to_pylist(maps_as_pydicts="lossy")):
            if row["corrupt"] and not row["topic"]:
                task.reject_unnamed(row["corrupt"])
            elif task.takes(_place(row)):
                rows.append(row)
                kept.append(index)
        if transform is not None:
            rows = _transformed(transform, batch.take(kept), rows, task.report)
        yield from map(_original, rows)


def _transformed(
    transform: RowTransform, batch: pa.RecordBatch, rows: list[dict[str, Any]], report: TaskReport
) -> list[dict[str, Any]]:
    """The rows as the user's function returns them. It does not get damaged records, which are rejected later with a
    reason."""
    whole = [index for index, row in enumerate(rows) if not row["corrupt"]]
    made = transform.rows(batch.take(whole), [rows[index] for index in whole])
    report.skipped += len(whole) - len(made)
    return [*(row for row in rows if row["corrupt"]), *made]


def _place(row: dict[str, Any]) -> Place:
    return MessageQueue(row["topic"], row["brokerName"] or "", row["queueId"]), row["queueOffset"]


def _original(row: dict[str, Any]) -> Original:
    queue, queue_offset = _place(row)
    stored = row["storeTimestamp"]  # None for a number that is no date
    return Original(
        queue=queue, queue_offset=queue_offset, origin_topic=row["originTopic"], offset_message_id=row["offsetMsgId"],
        properties=row["properties"] or {}, body=row["body"] or b"", flag=row["flag"], sys_flag=row["sysFlag"],
        corrupt=row.get("corrupt"), store_timestamp_ms=round(stored.timestamp() * 1000) if stored else 0,
        message_id=row["msgId"] or "",
    )  # fmt: skip
