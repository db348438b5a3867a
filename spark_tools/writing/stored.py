"""What the target has of a numbered write: read back from the plan's fences on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from rmqproto.bodies.base import MessageQueue
from rmqproto.message.properties import PRODUCER_SEQ, find_bytes
from rmqproto.message.record import StoredMessage, decode_records_untrusted
from rmqproto.wording import counted
from rmqreplay.sending.delivery import DeliveryError
from rmqreplay.source.live import LiveCluster
from rmqreplay.source.offset_ranges import OffsetRange
from rmqreplay.source.pulling import PullRules, persist, pull_range
from rmqreplay.source.queue_ranges import DataLossError
from rmqserver.store.sequences.sequence_table import LINES_MAX
from spark_tools.writing.idempotent import SAME_INPUT, OtherRowsError
from spark_tools.writing.plan import WritePlan

READ_MESSAGES = 256
TASKS_NAMED = 5
_GO_ON = "all rows of this batch are stored: begin behind it with a new checkpoint"
_NUMBER = PRODUCER_SEQ.encode() + b"\x01"


def end_of(cluster: LiveCluster, queue: MessageQueue) -> int:
    def ask() -> int:
        address = cluster.master(queue.topic, queue.broker_name)
        return cluster.admin.max_offset(address, queue.topic, queue.queue_id)

    return persist(ask, partial(cluster.forget_route, queue.topic), PullRules().read_timeout_s)


def numbered(cluster: LiveCluster, wanted: OffsetRange) -> Iterator[tuple[bytes, StoredMessage]]:
    """The messages of a range, each with its number, which is empty for those of other producers."""
    for body in pull_range(cluster, wanted, PullRules(batch_size=READ_MESSAGES)):
        for message in decode_records_untrusted(body):
            if message.queue_offset < wanted.end:
                yield find_bytes(message.properties_raw, _NUMBER), message


@dataclass(slots=True)
class StoredTally:
    """The rows of one task in one queue. ``count``: one more than the highest number; ``seen``: all, also those that
    are there twice."""

    count: int = 0
    seen: int = 0

    def add(self, sequence: int) -> None:
        self.count = max(self.count, sequence + 1)
        self.seen += 1

    @property
    def doubled(self) -> int:
        return max(0, self.seen - self.count)


def check_doubled(count: int, topic: str) -> None:
    """DeliveryError if a broker has stored rows again under their numbers."""
    if count:
        raise DeliveryError(
            f"{counted(count, 'row')} of {topic} {'is' if count == 1 else 'are'} stored twice: a broker had forgotten "
            f"that an earlier attempt stored them, for it remembers {LINES_MAX:,} pairs of a producer and a queue",
            hint="let fewer tasks and queues be written at a time; a stream goes on with a new checkpoint",
        )


def check_nothing_else(
    cluster: LiveCluster, plan: WritePlan, producer: str, tasks: Mapping[int, Sequence[int]]
) -> None:
    """OtherRowsError if an earlier attempt of the batch stored rows under numbers that this one has not used: its tasks
    cannot see them, because they only meet their own numbers. DeliveryError if rows are stored twice under theirs, or
    if that cannot be known. ``tasks``: how many rows each has in each queue of the plan, all of which are stored."""
    others, doubled = Counter[int](), 0
    for at, (queue, fence) in enumerate(zip(plan.message_queues, plan.queues, strict=True)):
        try:
            tallies = _tallies(cluster, queue, fence.queue_offset, producer, plan.batch_id or 0)
        except DataLossError as error:
            raise DeliveryError(
                f"it cannot be told whether an earlier attempt of batch {plan.batch_id} stored other rows: {error}",
                hint=_GO_ON,
            ) from None
        doubled += sum(tally.doubled for tally in tallies.values())
        for task, tally in tallies.items():
            own = tasks[task][at] if task in tasks else 0
            if tally.count > own:
                others[task] += tally.count - own
    if others:
        raise OtherRowsError(
            f"rows of batch {plan.batch_id} may be twice in {plan.topic}: an earlier attempt stored rows that this "
            f"one, with {counted(len(tasks), 'task')}, does not have in their places ({_by_task(others)}): "
            f"{SAME_INPUT}",
            hint=_GO_ON,
        )
    check_doubled(doubled, plan.topic)


def _tallies(
    cluster: LiveCluster, queue: MessageQueue, start: int, producer: str, epoch: int
) -> dict[int, StoredTally]:
    """By task. One pass over what the queue got since ``start``."""
    form = re.compile(b"%b-([0-9]{1,18}):%d:([0-9]{1,18})" % (re.escape(producer.encode()), epoch))
    tallies: dict[int, StoredTally] = {}
    for number, _ in numbered(cluster, OffsetRange(queue, start, end_of(cluster, queue))):
        found = form.fullmatch(number)
        if found is not None:
            tallies.setdefault(int(found[1]), StoredTally()).add(int(found[2]))
    return tallies


def _by_task(counts: Mapping[int, int]) -> str:
    ordered = sorted(counts.items())
    texts = [f"{count:,} of task {task}" for task, count in ordered[:TASKS_NAMED]]
    rest = ordered[TASKS_NAMED:]
    if rest:
        texts.append(f"{sum(count for _, count in rest):,} of {counted(len(rest), 'other task')}")
    return ", ".join(texts)
