"""``resetOffsetByTime``: moves a group to a time, with mqadmin's options."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import A_BROKER, LONG, Group, IgnoredForce, LmqParent, Topic, TrueFalse
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.offsets.reset import Goal
from rmqadmin.core.offsets.reset_plan import Resets, act, only_queue, plan_queues, say_if_unknown


def reset_offset_by_time(
    call: Call,
    group: Group,
    topic: Topic,
    timestamp: Annotated[
        str,
        Value.NUMBER,
        typer.Option("-s", "--timestamp", metavar="TIME", help="now, ms, yyyy-MM-dd#HH:mm:ss:SSS, -10m, ISO 8601."),
    ],
    force: IgnoredForce = None,
    broker: Annotated[
        str | None,
        A_BROKER,
        Value.BROKER_ADDR,
        typer.Option("-b", "--broker", metavar="HOST:PORT", help="With -q: one queue of this broker."),
    ] = None,
    queue: Annotated[int | None, typer.Option("-q", "--queue", help="With -b: queue id.")] = None,
    offset: Annotated[
        int | None, LONG, typer.Option("-o", "--offset", help="With -b and -q: this offset instead of a time.")
    ] = None,
    cluster: LmqParent = None,
) -> Resets:
    """The group may be online or offline. -s -1 means the end of every queue.

    Examples:
      rmqadmin resetOffsetByTime -g OrderGroup -t OrderTopic -s now
      rmqadmin resetOffsetByTime -g OrderGroup -t OrderTopic -s 2026-01-31#12:00:00:000 --dry-run
      rmqadmin resetOffsetByTime -g OrderGroup -t OrderTopic -s -1 -b 127.0.0.1:10911 -q 0 -o 5
    """
    from rmqproto.times import END_OF_QUEUES, parse_mqadmin_time, understood

    group, topic, timestamp = group.strip(), topic.strip(), timestamp.strip()
    timestamp_ms = parse_mqadmin_time(timestamp, call.now_ms(), least=END_OF_QUEUES)
    what = f"to {understood(timestamp_ms)}" if timestamp_ms >= 0 else "to the end of every queue"
    goal = Goal(timestamp_ms=timestamp_ms)
    route = call.admin.topic_route((cluster or topic).strip())
    one_queue = broker is not None and queue is not None and queue >= 0
    if one_queue and offset is not None:
        goal, what = Goal(queue_offset=offset, is_exact=True), f"to queue offset {offset}"
    else:
        call.notice(f"-s {timestamp} is {what.removeprefix('to ')}")
    planned = plan_queues(call.admin, route, group, topic, goal)
    say_if_unknown(call.admin, group, planned, call.notice)
    times = f"timestamp(string)[{timestamp}], timestamp(long)[{timestamp_ms}]"
    head = f"start reset consumer offset by specified, group[{group}], topic[{topic}], "
    if broker is not None and queue is not None and queue >= 0:
        planned = only_queue(planned, broker, queue)
        head += f"queueId[{queue}], broker[{broker}], {times}"
    else:
        head += f"force[{'false' if force is TrueFalse.FALSE else 'true'}], {times}"
    result = Resets(group, topic, planned, mqadmin_head=head, is_one_queue=one_queue)
    return call.ask_and_act(
        result,
        result.question(what),
        group,
        lambda: act(call.admin, result, None if one_queue else goal, call.now_ms(), call.notice),
    )
