"""``--canary N``: the first messages of a replay are sent alone. Before the rest follows, their consumers are watched:
the lag of every reading group on these messages, and how many became dead letters."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

from rmqproto.bodies.base import MessageQueue
from rmqproto.names import dlq_topic, retry_topic
from rmqreplay.ledger.ledger import Fence
from rmqreplay.plans.plan import Plan
from rmqreplay.sending.target import read_fences, replay_ids_since
from rmqreplay.source.live import LiveCluster

WAIT_S_DEFAULT = 30.0
"""Consumers of every language store their offsets every five seconds."""

POLL_S = 0.5
CLOCK_SKEW_MS = 60_000
"""Dead letters are searched from the job's beginning on. The brokers' clocks may differ from ours by this much."""


class CanaryReport(msgspec.Struct, frozen=True):
    """Messages by group: those not consumed yet (0 if all are), and those that are dead letters."""

    lag: dict[str, int] = {}
    dead: dict[str, int] = {}

    @property
    def is_good(self) -> bool:
        """Whether every group has consumed all messages. True if no group reads the target."""
        return not any(self.lag.values()) and not any(self.dead.values())

    def __str__(self) -> str:
        if not self.lag:
            return "no group reads the target"
        return ", ".join(
            f"{group}: {lag or 'none'} behind" + (f", {self.dead[group]} dead" if self.dead.get(group) else "")
            for group, lag in sorted(self.lag.items())
        )


def watch_canary(
    plan: Plan,
    cluster: LiveCluster,
    fences: Sequence[Fence],
    began_ms: int,
    wait_s: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> CanaryReport:
    """Watches until every group has consumed the messages above ``fences``, one message is a dead letter, or the time
    is up."""
    ends = read_fences(cluster, plan.target.topics)
    reached = {(each.topic, each.broker_name, each.queue_id): each.queue_offset for each in ends}
    sent = [(each, reached.get((each.topic, each.broker_name, each.queue_id), 0)) for each in fences]
    readers = {topic: set(cluster.groups(topic)) for topic in plan.target.topics}
    if plan.target.kind == "group":
        readers.setdefault(retry_topic(plan.target.name), set()).add(plan.target.name)
    groups = sorted(set().union(*readers.values()))
    deadline = clock() + wait_s
    while True:
        report = CanaryReport(
            {
                group: _lag(cluster, group, [each for each in sent if group in readers[each[0].topic]])
                for group in groups
            },
            {group: _dead_count(cluster, group, plan.replay_job, began_ms) for group in groups},
        )
        if report.is_good or any(report.dead.values()) or clock() >= deadline:
            return report
        sleep(POLL_S)


def _lag(cluster: LiveCluster, group: str, sent: Sequence[tuple[Fence, int]]) -> int:
    """The count of messages between the fences and the ends that the group has not committed."""
    behind = 0
    for fence, end in sent:
        if end <= fence.queue_offset:
            continue
        committed = cluster.committed(group, MessageQueue(fence.topic, fence.broker_name, fence.queue_id))
        behind += end - min(end, max(committed or 0, fence.queue_offset))
    return behind


def _dead_count(cluster: LiveCluster, group: str, job: str, began_ms: int) -> int:
    """The count of the job's messages among the group's dead letters; 0 if these cannot be read."""
    cluster.forget_route(dlq_topic(group))  # the first dead letter creates the topic
    queues = cluster.queues(dlq_topic(group))
    fences = []
    for queue in queues:
        start = cluster.offset_for_time(queue, began_ms - CLOCK_SKEW_MS)
        fences.append(Fence(queue.topic, queue.broker_name, queue.queue_id, max(start, cluster.bounds(queue)[0])))
    addresses = {queue.broker_name: cluster.master(queue.topic, queue.broker_name) for queue in queues}
    return sum(1 for _ in replay_ids_since(fences, addresses.__getitem__, job, cluster.connections))
