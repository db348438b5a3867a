"""``df.write.format("rocketmq")``: at least once. A request without an answer is sent again, and a task that Spark
restarts sends its rows again. Use a replay with its ledger if that is not good enough."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import NotFoundError, RocketMQError, UsageError
from rmqproto.message import properties as props
from rmqproto.message.message_id import UniqueIds
from rmqproto.names import RETRY_PREFIX, topic_problem
from rmqproto.perm import PERM_WRITE
from rmqreplay.sending.delivery import Batch, BatchOutcome, Limits, Outgoing, Rejected, TaskDelivery, too_large
from rmqreplay.sending.permits import Entered, Granted, PermitBook, Wait
from rmqreplay.sending.sender import BatchSender, compress, round_robin
from rmqreplay.source.live import LiveCluster
from spark_tools.hints import hints_in_text
from spark_tools.source_options import WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa

INPUT_COLUMNS = {
    "body": ("binary", "string"), "topic": ("string",), "tags": ("string",), "keys": ("string",),
    "properties": ("map<string,string>",), "queueId": ("int",), "brokerName": ("string",), "shardingKey": ("string",),
    "delayTimeLevel": ("int",), "deliverTimestamp": ("timestamp", "bigint"), "flag": ("int",),
}  # fmt: skip
_NO_END = float("inf")


class RejectedError(RocketMQError):
    """The broker will never accept one of the messages."""


@dataclass
class WriteReport(WriterCommitMessage):
    """The result of one task."""

    sent: int
    weak: int
    doubtful: int
    rejected: int


class RocketMQWriter(DataSourceArrowWriter):
    """Checks the columns when the query is planned, and sends in each task."""

    def __init__(self, options: WriteOptions, columns: Sequence[tuple[str, str]]):
        check_input(columns, options)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriteReport:
        """Returns when every message of the task is acknowledged, or rejected as ``onReject`` allows."""
        context = TaskContext.get()
        assert context is not None
        options = self._options
        source = MessageQueue("", "", context.partitionId())
        cluster_of = partial(LiveCluster, tls=options.tls, address_map=options.address_map)
        with hints_in_text(), cluster_of(options.name_server, options.credentials) as cluster:
            task = WriteTask(options, cluster, source)
            try:
                done = TaskDelivery(task, task, time.monotonic, time.sleep, task.limits).run(task.messages(iterator))
            finally:
                task.close()
        self._report_rejected([*task.rejected, *done.rejected], context.taskAttemptId())
        return WriteReport(
            len(done.stored), done.weak_count, done.doubtful_count, len(done.rejected) + len(task.rejected)
        )  # fmt: skip

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Does nothing: every task has sent all its messages."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Does nothing: sent messages stay sent."""

    def _report_rejected(self, rejected: list[Rejected], attempt: int) -> None:
        if not rejected:
            return
        if self._options.on_reject == "fail":
            first = rejected[0]
            raise RejectedError(f"row {first.place[1]} for {first.topic}: {first.remark} ({first.code})")
        lines = [
            msgspec.json.encode({"row": each.place[1], "topic": each.topic, "code": each.code, "remark": each.remark})
            for each in rejected
        ]
        with open(f"{self._options.reject_path}.{attempt}.jsonl", "wb") as file:
            file.write(b"\n".join(lines) + b"\n")


def check_input(columns: Sequence[tuple[str, str]], options: WriteOptions) -> None:
    """UsageError for a missing body or topic, and for columns that would be ignored or are of another type."""
    kinds = dict(columns)
    for name, kind in kinds.items():
        allowed = INPUT_COLUMNS.get(name)
        if allowed is None:
            raise UsageError(f"column {name} has no meaning here", hint="known: " + ", ".join(INPUT_COLUMNS))
        if kind.replace(" ", "") not in allowed:
            raise UsageError(f"column {name} is {kind} and should be {' or '.join(allowed)}")
    if "body" not in kinds:
        raise UsageError("a column body is needed")
    if "topic" not in kinds and options.topic is None:
        raise UsageError("a column topic, or the option topic, is needed")
    if options.queue_selector == "source" and not {"queueId", "brokerName"} <= kinds.keys():
        raise UsageError("queueSelector=source needs the columns brokerName and queueId")
    if "brokerName" in kinds and "queueId" not in kinds:
        raise UsageError("the column brokerName needs the column queueId", hint="together they name a queue")
    if options.queue_selector == "key":
        if "shardingKey" not in kinds:
            raise UsageError("queueSelector=key needs the column shardingKey")
        if "queueId" in kinds:
            raise UsageError(
                "queueSelector=key chooses the queue, and so does the column queueId: leave one of them out"
            )


class WriteTask:
    """Turns rows into messages and sends them, for one task. It also serves as the target, which is never looked at,
    and as the permits, which only limit this task's rate."""

    def __init__(self, options: WriteOptions, cluster: LiveCluster, source: MessageQueue):
        self._options = options
        self._cluster = cluster
        self._source = source
        self._queues: dict[str, list[MessageQueue]] = {}
        self._addresses: dict[str, str] = {}
        self._unique_ids = UniqueIds()
        self._book = PermitBook(time.monotonic, settle_s=0.0, rate=options.rate_max, byte_rate=options.byte_rate_max)
        self._book.open_wave(0, recovering=False)
        self._book.enter(0, 0, 0)
        self._choosers: dict[str, Any] = {}
        self._sender = BatchSender(
            self._addresses, self._choose, producer_group=options.producer_group,
            send_timeout_s=options.send_timeout_ms / 1000, credentials=options.credentials, tls=options.tls,
            address_map=options.address_map,
        )  # fmt: skip
        self.limits = Limits(options.batch_size, options.in_flight_max)
        self.rejected: list[Rejected] = []

    # -- rows

    def messages(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Outgoing]:
        number = 0
        for batch in batches:
            for row in batch.to_pylist(maps_as_pydicts="lossy"):
                made = self._message(row, number)
                number += 1
                if isinstance(made, Rejected):
                    self.rejected.append(made)
                else:
                    yield made

    def _message(self, row: Mapping[str, Any], number: int) -> Outgoing | Rejected:
        place = (self._source, number)
        topic = self._options.topic or row["topic"] or ""
        body = row["body"] or b""
        raw = body.encode() if isinstance(body, str) else body
        problem = topic_problem(topic) or (None if raw else "its body is empty, which no broker takes")
        if problem is not None:
            return Rejected(place, topic, 0, problem)
        properties = self._properties(row)
        try:
            text = props.render(properties)
        except ValueError as error:
            return Rejected(place, topic, 0, str(error))
        if len(text.encode()) > props.PROPERTIES_SIZE_MAX_BYTES:
            return Rejected(place, topic, 0, f"its properties take {len(text.encode())} bytes")
        message = Outgoing(
            replay_id="", queue=self._source, queue_offset=number, topic=topic, body=raw, properties=text,
            flag=row.get("flag") or 0, target=self._target(topic, row),
            alone=topic.startswith(RETRY_PREFIX) or props.DELAY in properties or props.TIMER_DELIVER_MS in properties,
        )  # fmt: skip
        message = compress(message, self._options.compress_over_bytes)
        problem = too_large(message.body)
        return message if problem is None else Rejected(place, topic, 0, problem)

    def _properties(self, row: Mapping[str, Any]) -> dict[str, str]:
        found = {name: value for name, value in (row.get("properties") or {}).items() if value}
        for column, name in (("tags", props.TAGS), ("keys", props.KEYS), ("shardingKey", props.SHARDING_KEY)):
            if row.get(column):
                found[name] = row[column]
        if row.get("delayTimeLevel"):
            found[props.DELAY] = str(row["delayTimeLevel"])
        deliver = row.get("deliverTimestamp")
        if deliver is not None:
            deliver_ms = deliver if isinstance(deliver, int) else round(deliver.timestamp() * 1000)
            found[props.TIMER_DELIVER_MS] = str(deliver_ms)
        found.setdefault(props.UNIQUE_KEY, self._unique_ids.next())
        return found

    def _target(self, topic: str, row: Mapping[str, Any]) -> MessageQueue | None:
        self._know(topic)
        if self._options.queue_selector == "key" and row.get("shardingKey"):
            queues = self._queues[topic]
            return queues[zlib.crc32(row["shardingKey"].encode()) % len(queues)]
        queue_id, broker_name = row.get("queueId"), row.get("brokerName")
        if queue_id is None and broker_name is None and self._options.queue_selector != "source":
            return None
        if queue_id is None:
            raise UsageError(f"a row for {topic} has no queueId", hint="brokerName and queueId together name a queue")
        return self._named_queue(topic, broker_name, queue_id)

    def _named_queue(self, topic: str, broker_name: str | None, queue_id: int) -> MessageQueue:
        """The queue that a row names. Without a broker it must be of the only broker that has the topic."""
        names = sorted({queue.broker_name for queue in self._queues[topic]})
        if broker_name is None and len(names) > 1:
            raise UsageError(
                f"a row for {topic} has queueId {queue_id} and no brokerName, and {', '.join(names)} have the topic"
            )
        queue = MessageQueue(topic, broker_name or names[0], queue_id)
        if queue not in self._queues[topic]:
            raise NotFoundError(f"there is no queue {queue_id} of {topic} on {queue.broker_name} that can be written")
        return queue

    def _know(self, topic: str) -> None:
        if topic in self._queues:
            return
        route = self._cluster.route(topic)
        queues = [
            MessageQueue(topic, name, queue_id)
            for name, (queue, _) in sorted(route.items())
            if queue.perm & PERM_WRITE
            for queue_id in range(queue.write_queue_nums)
        ]
        if not route:
            raise NotFoundError(f"no name server knows the topic {topic}", hint="create it, or start its brokers")
        if not queues:
            raise NotFoundError(
                f"the topic {topic} cannot be written: no broker has a queue of it with write permission",
                hint=f"rmqadmin topicRoute -t {topic} shows its permissions",
            )
        self._queues[topic] = queues
        self._choosers[topic] = round_robin(queues)
        for name in route:
            self._addresses[name] = self._cluster.master(topic, name)

    def _choose(self, batch: Batch) -> MessageQueue:
        chosen: MessageQueue = self._choosers[batch.messages[0].topic](batch)
        return chosen

    # -- target and permits

    def enter(self) -> Entered:
        return Entered(must_look=False)

    def ask(self, count: int, size_bytes: int) -> Granted | Wait:
        answer = self._book.ask(0, 0, 0, count, size_bytes)
        assert not isinstance(answer, Entered)
        return answer if isinstance(answer, Wait) else Granted(getattr(answer, "count", count), _NO_END)

    def extend(self) -> Granted:
        return Granted(0, _NO_END)

    def put(self, batch: Batch, not_after: float, extend: Callable[[], float]) -> bool:
        return self._sender.put(batch, not_after, extend)

    def outcomes(self) -> list[BatchOutcome]:
        return self._sender.outcomes()

    def settle(self) -> None:
        """Waits for nothing: messages in doubt are sent again."""

    def look(self) -> set[str]:
        return set()

    def close(self) -> None:
        self._sender.close()
