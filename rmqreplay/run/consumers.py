"""The consumers of what a replay sends. With ``--canary N`` the first messages are sent alone, and before the rest
follows, their consumers are watched: the lag of every reading group on these messages, and how many became dead
letters. A redrive to the failed group must not add to its dead letters: a broker turns a send to a retry topic into one
while the group holds queue locks, as orderly consumers do."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from rmqproto.errors import RefusedError, RequestTimeoutError, UsageError
from rmqproto.names import dlq_topic, retry_topic
from rmqreplay.ledger.ledger import Fence
from rmqreplay.plans.plan import Plan
from rmqreplay.sending.target import read_fences, replay_ids_in
from rmqreplay.source.live import LiveCluster

CANARY_WAIT_S_DEFAULT = 30.0
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
    reached = {each.queue: each.queue_offset for each in ends}
    sent = [(each, reached.get(each.queue, 0)) for each in fences]
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
        committed = cluster.committed(group, fence.queue)
        behind += end - min(end, max(committed or 0, fence.queue_offset))
    return behind


def _dead_count(cluster: LiveCluster, group: str, job: str, began_ms: int) -> int:
    """The count of the job's messages among the group's dead letters; 0 if these cannot be read."""
    cluster.forget_route(dlq_topic(group))  # the first dead letter creates the topic
    fences = []
    for queue in cluster.queues(dlq_topic(group)):
        start = cluster.offset_for_time(queue, began_ms - CLOCK_SKEW_MS)
        fences.append(Fence(queue.topic, queue.broker_name, queue.queue_id, max(start, cluster.bounds(queue)[0])))
    return sum(1 for _ in replay_ids_in(cluster, fences, job))


# --- redrives to the failed group ------------------------------------------------------------------------------------

TO_SAME = "--to same sends to the origin topic, which reaches every group that reads it"


def refuse_orderly_group(cluster: LiveCluster, group: str) -> None:
    """UsageError if the group, or a member of it, consumes orderly. A broker that does not show its groups and a member
    that does not answer are passed over; if it consumes orderly, what comes back will show it."""
    for broker in cluster.admin.cluster_info().broker_addr_table.values():
        address = broker.master_addr
        if address is None:
            continue
        with suppress(RefusedError, RequestTimeoutError):
            config = cluster.admin.all_groups(address).subscription_group_table.get(group)
            if config is not None and config.consume_message_orderly:
                raise UsageError(
                    f"group {group} consumes orderly (consumeMessageOrderly): its retry topic does not keep the order",
                    hint=TO_SAME,
                )
        with suppress(RefusedError, RequestTimeoutError):
            for client_id in cluster.admin.consumer_ids(address, group):
                if cluster.admin.consumer_running_info(address, group, client_id).is_orderly:
                    raise UsageError(
                        f"group {group} consumes orderly: its retry topic leads back to its dead letters", hint=TO_SAME
                    )


def dead_letter_fences(cluster: LiveCluster, group: str) -> list[Fence]:
    """The current ends of the group's dead-letter topic; none if it has no such topic."""
    return read_fences(cluster, [dlq_topic(group)]) if cluster.route(dlq_topic(group)) else []
