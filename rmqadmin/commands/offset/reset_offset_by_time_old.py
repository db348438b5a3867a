"""``resetOffsetByTimeOld``: writes a group's offsets for a time, as if no member were online. Apache's tools have this
class, but mqadmin does not list it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from rmqadmin.call import Call
from rmqadmin.core import targets
from rmqadmin.core.mqadmin_text import cut, hash_order, queue_hash
from rmqadmin.core.offsets.reset import Goal, QueueReset, is_online
from rmqadmin.core.offsets.reset_plan import Resets, act, plan_queues, say_if_unknown
from rmqadmin.options.command_options import Group, LmqParent, Topic, TrueFalse
from rmqproto.bodies.base import MessageQueue


class WrittenOffsets(Resets, frozen=True, kw_only=True):
    """Each queue before and after. ``offsets_by_time`` are those of the time, also where a group is not moved on."""

    offsets_by_time: dict[MessageQueue, int]

    def mqadmin_text(self) -> str:
        def line(*cells: object) -> str:
            return "  ".join(f"{cell!s:20}" for cell in cells) + "\n"

        titles = ("brokerName", "queueId", "brokerOffset", "consumerOffset", "timestampOffset", "resetOffset")
        text = f"{self.mqadmin_head}\n" + line(*(f"#{title}" for title in titles))
        by_queue = {one.queue: one for one in self.queues}
        has_offsets = any(one.old_offset is not None for one in self.queues)
        for queue in hash_order(by_queue, queue_hash) if has_offsets else sorted(by_queue):
            one = by_queue[queue]
            old_offset = one.min_offset if one.old_offset is None else one.old_offset
            offsets = (one.max_offset, old_offset, self.offsets_by_time[queue], one.new_offset)
            text += line(cut(queue.broker_name, 20), queue.queue_id, *offsets)
        return text


def reset_offset_by_time_old(
    call: Call,
    group: Group,
    topic: Topic,
    timestamp: Annotated[
        str, typer.Option("-s", "--timestamp", metavar="TIME", help="ms, yyyy-MM-dd#HH:mm:ss:SSS, now, -10m, ISO 8601.")
    ],
    force: Annotated[
        TrueFalse, typer.Option("-f", "--force", case_sensitive=False, help="false: move no queue forward.")
    ] = TrueFalse.TRUE,
    cluster: LmqParent = None,
) -> WrittenOffsets:
    """Only for a group with no member online: online members overwrite the new offsets with their own until they are
    restarted. resetOffsetByTime also moves online groups. -s -1 means the end of every queue.

    Examples:
      rmqadmin resetOffsetByTimeOld -g OrderGroup -t OrderTopic -s now --dry-run
      rmqadmin resetOffsetByTimeOld -g OrderGroup -t OrderTopic -s 2026-01-31#12:00:00:000 -f false
    """
    from rmqproto.times import END_OF_QUEUES, parse_mqadmin_time, understood

    group, topic, timestamp = group.strip(), topic.strip(), timestamp.strip()
    timestamp_ms = parse_mqadmin_time(timestamp, call.now_ms(), least=END_OF_QUEUES)
    what = f"to {understood(timestamp_ms)}" if timestamp_ms >= 0 else "to the end of every queue"
    call.notice(f"-s {timestamp} is {what.removeprefix('to ')}")
    goal = Goal(timestamp_ms=timestamp_ms)
    route = call.admin.topic_route((cluster or topic).strip())
    found = plan_queues(call.admin, route, group, topic, goal)
    say_if_unknown(call.admin, group, found, call.notice)
    addrs = sorted({one.broker_addr for one in found})
    if any(targets.ask_each(lambda addr: is_online(call.admin, addr, group), addrs)):
        call.notice(f"members of {group} are online, and will write their own offsets over these until a restart")
    head = f"reset consumer offset by specified consumerGroup[{group}], topic[{topic}], force[{force.value}], "
    result = WrittenOffsets(
        group,
        topic,
        found if force is TrueFalse.TRUE else _only_back(found),
        mqadmin_head=f"{head}timestamp(string)[{timestamp}], timestamp(long)[{timestamp_ms}]",
        offsets_by_time={one.queue: one.new_offset for one in found if one.new_offset is not None},
    )
    return call.ask_and_act(
        result,
        result.question(what),
        group,
        lambda: act(call.admin, result, goal, call.now_ms(), call.notice, only_writes=True),
    )


def _only_back(found: Sequence[QueueReset]) -> list[QueueReset]:
    """The resets that move a queue back. A group without an offset in a queue counts as being at its beginning, as in
    mqadmin."""

    def limited(one: QueueReset) -> QueueReset:
        old_offset = one.min_offset if one.old_offset is None else one.old_offset
        return msgspec.structs.replace(one, new_offset=min(old_offset, one.new_offset or 0))

    return [limited(one) for one in found]
