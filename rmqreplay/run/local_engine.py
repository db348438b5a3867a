"""Reads and sends a job's messages in this process, without Spark: for some thousand dead letters, a Spark session
would take longer than the work. There is one task per wave. Plan, ledger, permits and audit are the same."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import UsageError
from rmqproto.filters.message_conditions import compile_conditions
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage, decode_records_untrusted
from rmqreplay.ledger.letters import Place
from rmqreplay.plans.plan import Plan
from rmqreplay.run.engine import TaskReport, WaveSpec
from rmqreplay.run.wave_task import WaveTask, deliver
from rmqreplay.sending.redrive import Original, origin_topic_of
from rmqreplay.source.live import PLAIN, ClusterAccess
from rmqreplay.source.offset_ranges import OffsetRange, OffsetSet, hulls
from rmqreplay.source.pulling import PullRules, pull_range

PARTITION, ATTEMPT = 0, 1
"""There is one task, which ends with its driver. A resumed job has a new driver."""

IN_FLIGHT = 16
"""Messages to a retry topic go one per request. This many share a flush of the broker."""


@dataclass(frozen=True, slots=True)
class SelectedMessage:
    """A selected message and its place."""

    stored: StoredMessage
    properties: dict[str, str]
    queue: MessageQueue

    @property
    def place(self) -> Place:
        return self.queue, self.stored.queue_offset

    @property
    def age_order(self) -> tuple[int, str, str, int, int]:
        """The sort key: oldest first, messages of one millisecond in the order of their places."""
        queue = self.queue
        return self.stored.store_timestamp_ms, queue.topic, queue.broker_name, queue.queue_id, self.stored.queue_offset


def spark_only(plan: Plan) -> str | None:
    """The option of the plan that needs Spark, as the user writes it; None if this engine can do the plan."""
    needs = {
        "--store and --archive": plan.source.path is not None,
        "--to file": plan.target.kind == "file",
        "--where": plan.selection.where is not None,
        "--body-expr": plan.transform.body_expression is not None,
        "--transform": plan.transform.function is not None,
    }
    return next((name for name, is_asked in needs.items() if is_asked), None)


class LocalEngine:
    """Reads from a live cluster and sends over one connection per broker. ``on_read`` is called with the number of
    messages in every answer. UsageError for a plan that needs Spark."""

    def __init__(
        self,
        plan: Plan,
        access: ClusterAccess = PLAIN,
        on_read: Callable[[int], None] = lambda count: None,
    ):
        needed = spark_only(plan)
        if needed is not None:
            raise UsageError(f"{needed} needs Spark", hint="rmqadmin spark-replay takes it")
        self._access = access
        self.open_cluster = access.cluster
        self._on_read = on_read
        self.permit_host = "127.0.0.1"
        self.in_flight = IN_FLIGHT

    def run(self, plan: Plan, ranges: Sequence[OffsetRange], spec: WaveSpec) -> TaskReport:
        task = WaveTask(spec)
        messages = task.messages(original(found) for found in self.read(plan, ranges) if task.takes(found.place))
        if spec.permits is None:
            for _ in messages:
                pass
        else:
            task.take(deliver(spec, messages, self._access, partition=PARTITION, attempt=ATTEMPT))
        return task.finished()

    def first_places(self, plan: Plan, limit: int, excluded: OffsetSet | None = None) -> OffsetSet:
        left_out = excluded or OffsetSet()
        orders = (found.age_order for found in self.read(plan, plan.ranges) if found.place not in left_out)
        return OffsetSet.of_offsets(_place(order) for order in heapq.nsmallest(limit, orders))

    def duplicates(self, plan: Plan) -> OffsetSet:
        key_of, better = DEDUP_KEYS[plan.dedup or "id"], max if plan.dedup_keep == "last" else min
        kept: dict[str | bytes, tuple[int, str, str, int, int]] = {}
        losers = []
        for found in self.read(plan, plan.ranges):
            key = key_of(found)
            if key is None:
                continue
            order = found.age_order
            best = better(kept.get(key, order), order)
            if key in kept:
                losers.append(order if best is kept[key] else kept[key])
            kept[key] = best
        return OffsetSet.of_offsets(map(_place, losers))

    def write_files(self, plan: Plan, ranges: Sequence[OffsetRange], excluded: OffsetSet, directory: str) -> TaskReport:
        raise UsageError("--to file needs Spark", hint="rmqadmin spark-replay takes it")

    def read(self, plan: Plan, ranges: Sequence[OffsetRange]) -> Iterator[SelectedMessage]:
        """The selected messages of the ranges, queue by queue."""
        wanted = OffsetSet(ranges)
        selection = plan.selection
        rules = PullRules(expression=selection.tags)
        takes = compile_conditions(selection)
        name_server = plan.source.name_server or ""
        with self.open_cluster(name_server) as cluster:
            for each in hulls(ranges):
                for body in pull_range(cluster, each, rules):
                    records = decode_records_untrusted(body)
                    self._on_read(len(records))
                    for stored in records:
                        if (each.queue, stored.queue_offset) in wanted:
                            found = SelectedMessage(stored, stored.properties, each.queue)
                            if takes(stored, found.properties):
                                yield found


def message_id(found: SelectedMessage) -> str:
    """The unique key, which people call a message's id; without one, the offset message id."""
    return found.properties.get(props.UNIQUE_KEY) or found.stored.message_id


def original(found: SelectedMessage) -> Original:
    stored, properties = found.stored, found.properties
    return Original(
        queue=found.queue, queue_offset=stored.queue_offset,
        origin_topic=origin_topic_of(properties, found.queue.topic), offset_message_id=stored.message_id,
        properties=properties, body=stored.body, flag=stored.flag, sys_flag=stored.sys_flag,
        store_timestamp_ms=stored.store_timestamp_ms, message_id=message_id(found),
    )  # fmt: skip


DEDUP_KEYS: dict[str, Callable[[SelectedMessage], str | bytes | None]] = {
    "id": message_id,
    "key": lambda found: found.properties.get(props.KEYS),
    "origin-id": lambda found: found.properties.get(props.ORIGIN_MESSAGE_ID) or found.stored.message_id,
    "body": lambda found: hashlib.sha256(found.stored.plain_body()).digest(),
}
"""The key that equal messages share; None for a message that equals no other."""


def _place(order: tuple[int, str, str, int, int]) -> Place:
    _, topic, broker_name, queue_id, queue_offset = order
    return MessageQueue(topic, broker_name, queue_id), queue_offset
