"""Fewer queues for a topic, without losing sight of messages.

Messages in queues that consumers no longer read reach nobody, and brokers count them in no lag. So first the write
queues go, and read queues only once every group has consumed what is left in them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from rmqadmin.core.topics.topic_config import read_topic
from rmqadmin.core.units import count
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import TopicConfig
from rmqproto.errors import NotFoundError, RocketMQError
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient

_TOLD_MAX = 8

OUT_OF_REACH = "out of consumers' reach"


# --- a warning -------------------------------------------------------------------------------------------------------


def shrink_warnings(admin: AdminClient, addr: str, before: TopicConfig | None, after: TopicConfig) -> list[str]:
    """What a change of a topic's queues on one broker would put out of reach, and how to do it safely. Empty if it puts
    nothing out of reach."""
    topic, reads = after.topic_name, after.read_queue_nums
    was_read = 0 if before is None else before.read_queue_nums
    was_open = before is not None and before.write_queue_nums > before.read_queue_nums
    was_any = 0 if before is None else max(was_read, before.write_queue_nums)
    told = [_lost_text(admin, addr, topic, range(reads, was_read), "would be")] if reads < was_read else []
    if reads != was_read or (before is not None and after.write_queue_nums != before.write_queue_nums):
        told.append(_lost_text(admin, addr, topic, range(max(reads, was_read), was_any), "are already"))
    if after.write_queue_nums > reads and (reads < was_read or not was_open):
        ids = _ids_text(range(reads, after.write_queue_nums))
        told.append(f"producers would send to {ids}, which no consumer reads")
    if not after.write_queue_nums and (before is None or before.write_queue_nums):
        told.append("nobody could send: producers would find no queue")
    told = [text for text in told if text]
    if not told:
        return []
    safely = ""
    if any(OUT_OF_REACH in text for text in told):
        safely = f". To do it in safe steps: rmqadmin updateTopic -b {addr} -t '{topic}' --shrink-to {max(1, reads)}"
    return [f"{topic} on {addr}: {'; '.join(told)}{safely}"]


def _lost_text(admin: AdminClient, addr: str, topic: str, queue_ids: range, state: str) -> str:
    """What these queues hold, of which consumers read none: ``state`` is "would be" or "are already"."""
    if not queue_ids:
        return ""
    try:
        table = admin.topic_stats(addr, topic).offset_table
    except RocketMQError as error:
        return f"the messages in {_ids_text(queue_ids)} {state} {OUT_OF_REACH}; how many there are is unknown: {error}"
    counts = {
        queue.queue_id: ends.max_offset - ends.min_offset
        for queue, ends in sorted(table.items())
        if queue.queue_id in queue_ids and ends.max_offset > ends.min_offset
    }
    if not counts:
        return ""
    which = _listed(f"queue {queue_id}: {count(number)}" for queue_id, number in counts.items())
    return f"{counted(sum(counts.values()), 'message')} {state} {OUT_OF_REACH} ({which})"


def _ids_text(queue_ids: range) -> str:
    return f"queue {queue_ids[0]}" if len(queue_ids) == 1 else f"the queues {queue_ids[0]} to {queue_ids[-1]}"


def _listed(texts: Iterable[str]) -> str:
    found = list(texts)
    more = [f"{len(found) - _TOLD_MAX} more"] if len(found) > _TOLD_MAX else []
    return ", ".join([*found[:_TOLD_MAX], *more])


# --- step by step ----------------------------------------------------------------------------------------------------


class Unconsumed(msgspec.Struct, frozen=True):
    """Messages of one queue that a group has not consumed; ``group`` is None if no group reads the topic."""

    broker_addr: str
    queue_id: int
    group: str | None
    message_count: int

    def __str__(self) -> str:
        who = self.group or "nobody reads the topic"
        return f"queue {self.queue_id} on {self.broker_addr}: {count(self.message_count)} ({who})"


def configs_on(admin: AdminClient, addrs: Iterable[str], topic: str) -> dict[str, TopicConfig]:
    """The topic's configuration on each broker that has it. NotFoundError if none has."""
    found = {addr: config for addr in addrs if (config := read_topic(admin, addr, topic)) is not None}
    if not found:
        raise NotFoundError(f"no broker that is meant has the topic {topic}")
    return found


def unconsumed(admin: AdminClient, addr: str, topic: str, queue_ids: Iterable[int]) -> list[Unconsumed]:
    """What is left to consume in these queues, of each group that reads the topic."""
    groups: list[str | None] = [*sorted(admin.groups_of_topic(addr, topic))]
    found = []
    for queue_id in queue_ids:
        ends = admin.queue_ends(addr, MessageQueue(topic, "", queue_id))
        if ends.max_offset <= ends.min_offset:
            continue
        for group in groups or [None]:
            committed = None if group is None else admin.consumer_offset(addr, group, topic, queue_id)
            left = ends.max_offset - max(ends.min_offset, committed or 0)
            if left > 0:
                found.append(Unconsumed(addr, queue_id, group, left))
    return found


def unconsumed_text(left: list[Unconsumed]) -> str:
    return _listed(map(str, left))
