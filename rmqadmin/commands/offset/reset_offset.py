"""``resetOffset``: moves a group to any offset, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rmqadmin.call import Call
from rmqadmin.core.offsets import reset, undo
from rmqadmin.core.offsets.reset_plan import Resets, act, parse_destination, plan_queues
from rmqproto.errors import UsageError
from rmqproto.wording import counted


def reset_offset(
    call: Call,
    group: Annotated[str | None, typer.Option("-g", "--group", metavar="GROUP", help="Consumer group.")] = None,
    topic: Annotated[str | None, typer.Option("-t", "--topic", metavar="TOPIC", help="Topic name.")] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="begin|end|OFFSET|TIME", help="New position. TIME: now, -10m, @epoch, ISO 8601."),
    ] = None,
    undo_file: Annotated[
        Path | None, typer.Option("--undo", metavar="FILE", help="Undo the reset that wrote this file.")
    ] = None,
) -> Resets:
    """The group may be online or offline. An OFFSET outside a queue's limits becomes the nearest limit.

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
    where = parse_destination(to.strip(), call.now_ms())
    if where.notice is not None:
        call.notice(where.notice)
    group, topic = group.strip(), topic.strip()
    route = call.admin.topic_route(topic)
    planned = Resets(group, topic, plan_queues(call.admin, route, group, topic, where.goal))
    return call.ask_and_act(
        planned,
        planned.question(where.words),
        group,
        lambda: act(call.admin, planned, where.goal, call.now_ms(), call.notice),
    )


def _undo(call: Call, path: Path) -> Resets:
    record = undo.read_untrusted(path)
    route = call.admin.topic_route(record.topic)
    queues = reset.plan(
        call.admin, route, record.group, record.topic, lambda _addr, queue, _ends: record.committed_offset(queue)
    )
    unknown = sum(one.new_offset is None for one in queues)
    if unknown:
        call.notice(f"the group had no offset in {counted(unknown, 'queue')}: nothing is changed there")
    planned = Resets(record.group, record.topic, queues)
    return call.ask_and_act(
        planned,
        planned.question(f"back to where {path.name} found it"),
        record.group,
        lambda: act(call.admin, planned, None, call.now_ms(), call.notice),
    )
