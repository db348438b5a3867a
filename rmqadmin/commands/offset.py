"""Moving groups: ``resetOffsetByTime`` and ``skipAccumulatedMessage`` as mqadmin has them, and ``resetOffset``, which
can go anywhere and back.

All show what they will do to each queue, ask on a terminal, leave an undo file and read the offsets back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec
import typer

from rmqadmin import reset, undo
from rmqadmin.call import Call
from rmqadmin.mqadmin_text import copied_capacity, cut, hash_order, queue_hash
from rmqadmin.options import IgnoredForce, LmqParent, Topic, TrueFalse
from rmqadmin.reset import BEGIN, END, Goal, QueueReset
from rmqadmin.results import Result, Row, doc
from rmqproto.bodies import TopicRoute
from rmqproto.errors import NotFoundError, RocketMQError, UsageError

Group = Annotated[str, typer.Option("-g", "--group", metavar="GROUP", help="Consumer group.")]
_COLUMN = 40


class ResetRow(Row, frozen=True):
    broker_name: Annotated[str, doc("broker name", key=True)]
    queue_id: Annotated[int, doc("queue id", key=True)]
    min_offset: Annotated[int, doc("queue offset of the oldest message", wide=True)]
    max_offset: Annotated[int, doc("queue offset that the next message will get", wide=True)]
    old_offset: Annotated[int | None, doc("where the group stood; unknown where it had no offset")]
    new_offset: Annotated[int | None, doc("where it stands then; unknown where nothing is done")]
    old_lag_count: Annotated[int | None, doc("messages to consume before")]
    new_lag_count: Annotated[int | None, doc("messages to consume then")]
    done: Annotated[bool, doc("false under --dry-run, and where it failed")]
    error: Annotated[str | None, doc("why it failed", sparse=True)]


class ResetTotals(Row, frozen=True):
    group: Annotated[str, doc("consumer group")]
    topic: Annotated[str, doc("topic name")]
    old_lag_count: Annotated[int, doc("messages to consume before, where that is known")]
    new_lag_count: Annotated[int, doc("messages to consume then")]
    undo_file: Annotated[str | None, doc("what `resetOffset --undo` takes back; none under --dry-run")]


class Resets(Result, frozen=True):
    """Each queue before and after."""

    row_type: ClassVar[type[Row]] = ResetRow
    group: str
    topic: str
    queues: list[QueueReset]
    undo_file: str | None = None
    mqadmin_head: str | None = None
    is_one_queue: bool = False

    def rows(self) -> Sequence[ResetRow]:
        return [
            ResetRow(
                broker_name=one.queue.broker_name,
                queue_id=one.queue.queue_id,
                min_offset=one.min_offset,
                max_offset=one.max_offset,
                old_offset=one.old_offset,
                new_offset=one.new_offset,
                old_lag_count=None if one.old_offset is None else one.max_offset - one.old_offset,
                new_lag_count=None if one.new_offset is None else one.max_offset - one.new_offset,
                done=one.done,
                error=one.error,
            )
            for one in self.queues
        ]

    def summary(self) -> ResetTotals:
        rows = self.rows()
        return ResetTotals(
            group=self.group,
            topic=self.topic,
            old_lag_count=sum(row.old_lag_count or 0 for row in rows),
            new_lag_count=sum(row.new_lag_count or 0 for row in rows),
            undo_file=self.undo_file,
        )

    def problem(self) -> str | None:
        failed = [one for one in self.queues if one.error is not None]
        return f"{len(failed)} of {len(self.queues)} queues: {failed[0].error}" if failed else None

    def mqadmin_text(self) -> str | None:
        if self.mqadmin_head is None:
            return None
        if self.is_one_queue:
            return f"{self.mqadmin_head}\nreset consumer offset to {self.queues[0].new_offset}\n"

        def line(*cells: object) -> str:
            return "  ".join(f"{cell!s:{_COLUMN}}" for cell in cells) + "\n"

        moved = {one.queue: one.new_offset for one in self.queues}
        text = (self.mqadmin_head and f"{self.mqadmin_head}\n") + line("#brokerName", "#queueId", "#offset")
        # mqadmin puts each broker's answer, a map, into one of its own; the first decides how large that begins.
        first_count = sum(queue.broker_name == self.queues[0].queue.broker_name for queue in moved)
        for queue in hash_order(moved, queue_hash, copied_capacity(first_count)):
            text += line(cut(queue.broker_name, 32), queue.queue_id, moved[queue])
        return text


def act_on(call: Call, result: Resets, what: str, goal: Goal | None) -> Resets:
    """Shows the plan, asks, leaves the undo file, acts, and reads back."""
    if call.dry_run:
        return result
    call.confirm(f"This moves the group {result.group} in {result.topic} {what}.", result.group, preview=result)
    path = undo.write(result.group, result.topic, call.admin.namesrv_addrs, result.queues, call.now_ms())
    try:
        moved = reset.carry_out(call.admin, result.group, result.queues, goal)
    except RocketMQError:
        path.unlink()  # nothing was changed
        raise
    call.notice(f"to undo this: rmqadmin resetOffset --undo {path}")
    return msgspec.structs.replace(result, queues=moved, undo_file=str(path))


def _planned(call: Call, route: TopicRoute, group: str, topic: str, goal: Goal) -> list[QueueReset]:
    found = reset.plan(call.admin, route, group, topic, reset.target_of(call.admin, goal))
    if not found:
        raise NotFoundError(f"the topic {topic} has no queues")
    return found


# --- resetOffset -----------------------------------------------------------------------------------------------------


def reset_offset(
    call: Call,
    group: Annotated[str | None, typer.Option("-g", "--group", metavar="GROUP", help="Consumer group.")] = None,
    topic: Annotated[str | None, typer.Option("-t", "--topic", metavar="TOPIC", help="Topic name.")] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="begin|end|OFFSET|TIME", help="Where to. TIME: now, -10m, @epoch, ISO 8601."),
    ] = None,
    undo_file: Annotated[
        Path | None, typer.Option("--undo", metavar="FILE", help="Take back the reset that left this file.")
    ] = None,
) -> Resets:
    """For groups that are online and for those that are not. An OFFSET is brought into the limits of each queue.

    Examples:
      rmqadmin resetOffset -g OrderGroup -t OrderTopic --to -10m --dry-run
      rmqadmin resetOffset -g OrderGroup -t OrderTopic --to 2026-01-31T12:00:00Z --yes
      rmqadmin resetOffset -g OrderGroup -t OrderTopic --to end
    """
    if undo_file is not None:
        if group or topic or to:
            raise UsageError("--undo FILE stands alone: the file names group and topic")
        return _undo(call, undo_file)
    missing = [name for name, value in (("-g", group), ("-t", topic), ("--to", to)) if value is None]
    if missing:
        raise UsageError(f"Missing required options: {', '.join(missing)}", hint="Or --undo FILE.")
    assert group is not None
    assert topic is not None
    assert to is not None
    goal, what = _goal(call, to.strip())
    group, topic = group.strip(), topic.strip()
    route = call.admin.topic_route(topic)
    return act_on(call, Resets(group, topic, _planned(call, route, group, topic, goal)), what, goal)


def _goal(call: Call, to: str) -> tuple[Goal, str]:
    """What ``--to`` means, and how to say it."""
    from rmqadmin.times import parse_time, understood

    if to.lower() in (BEGIN, END):
        return Goal(edge=to.lower()), f"to the {to.lower()} of every queue"
    if re.fullmatch(r"\d{1,18}", to):
        return Goal(queue_offset=int(to)), f"to queue offset {to}"
    timestamp_ms = parse_time(to, call.now_ms())
    said = understood(timestamp_ms)
    call.notice(f"--to {to} is {said}")
    return Goal(timestamp_ms=timestamp_ms), f"to {said}"


def _undo(call: Call, path: Path) -> Resets:
    record = undo.read_untrusted(path)
    route = call.admin.topic_route(record.topic)
    queues = reset.plan(
        call.admin, route, record.group, record.topic, lambda _addr, queue, _ends: record.committed_offset(queue)
    )
    unknown = sum(one.new_offset is None for one in queues)
    if unknown:
        call.notice(f"{unknown} queues stay as they are: the group had no offset there")
    return act_on(call, Resets(record.group, record.topic, queues), f"back to where {path.name} found it", None)


# --- resetOffsetByTime -----------------------------------------------------------------------------------------------


def reset_offset_by_time(
    call: Call,
    group: Group,
    topic: Topic,
    timestamp: Annotated[
        str, typer.Option("-s", "--timestamp", metavar="TIME", help="now, ms, yyyy-MM-dd#HH:mm:ss:SSS, -10m, ISO 8601.")
    ],
    force: IgnoredForce = None,
    broker: Annotated[
        str | None, typer.Option("-b", "--broker", metavar="HOST:PORT", help="With -q: one queue of this broker.")
    ] = None,
    queue: Annotated[int | None, typer.Option("-q", "--queue", help="With -b: queue id.")] = None,
    offset: Annotated[
        int | None, typer.Option("-o", "--offset", help="With -b and -q: this offset instead of a time.")
    ] = None,
    cluster: LmqParent = None,
) -> Resets:
    """For groups that are online and for those that are not. A negative timestamp means the end of every queue.

    Examples:
      rmqadmin resetOffsetByTime -g OrderGroup -t OrderTopic -s now
      rmqadmin resetOffsetByTime -g OrderGroup -t OrderTopic -s 2026-01-31#12:00:00:000 --dry-run
      rmqadmin resetOffsetByTime -g OrderGroup -t OrderTopic -s -1 -b 127.0.0.1:10911 -q 0 -o 5
    """
    from rmqadmin.times import parse_mqadmin_time, understood

    group, topic, timestamp = group.strip(), topic.strip(), timestamp.strip()
    timestamp_ms = parse_mqadmin_time(timestamp, call.now_ms())
    what = f"to {understood(timestamp_ms)}" if timestamp_ms >= 0 else "to the end of every queue"
    goal = Goal(timestamp_ms=timestamp_ms)
    route = call.admin.topic_route((cluster or topic).strip())
    one_queue = broker is not None and queue is not None and queue >= 0
    if one_queue and offset is not None:
        goal, what = Goal(queue_offset=offset, is_exact=True), f"to queue offset {offset}"
    elif timestamp_ms >= 0:
        call.notice(f"-s {timestamp} is {understood(timestamp_ms)}")
    planned = _planned(call, route, group, topic, goal)
    times = f"timestamp(string)[{timestamp}], timestamp(long)[{timestamp_ms}]"
    head = f"start reset consumer offset by specified, group[{group}], topic[{topic}], "
    if one_queue:
        planned = [one for one in planned if one.broker_addr == broker and one.queue.queue_id == queue]
        if not planned:
            raise NotFoundError(f"the topic {topic} has no queue {queue} on {broker}")
        head += f"queueId[{queue}], broker[{broker}], {times}"
    else:
        head += f"force[{'false' if force is TrueFalse.FALSE else 'true'}], {times}"
    result = Resets(group, topic, planned, mqadmin_head=head, is_one_queue=one_queue)
    return act_on(call, result, what, goal)


# --- skipAccumulatedMessage ------------------------------------------------------------------------------------------


def skip_accumulated_message(
    call: Call,
    group: Group,
    topic: Topic,
    force: IgnoredForce = None,
    cluster: LmqParent = None,
) -> Resets:
    """The group skips every message that is stored now. For groups that are online and for those that are not.

    Examples:
      rmqadmin skipAccumulatedMessage -g OrderGroup -t OrderTopic --dry-run
      rmqadmin skipAccumulatedMessage -g OrderGroup -t OrderTopic --yes
    """
    group, topic = group.strip(), topic.strip()
    goal = Goal(edge=END)
    route = call.admin.topic_route((cluster or topic).strip())
    result = Resets(group, topic, _planned(call, route, group, topic, goal), mqadmin_head="")
    return act_on(call, result, "to the end of every queue", goal)
