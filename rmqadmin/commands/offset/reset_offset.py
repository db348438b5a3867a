"""``resetOffset``: moves a group to any offset, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import Texts
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.offsets import reset, undo
from rmqadmin.core.offsets.reset_plan import Resets, act, parse_destination, plan_queues, remarks, say_if_unknown
from rmqproto.errors import UsageError
from rmqproto.wording import counted


def reset_offset(
    call: Call,
    group: Annotated[
        str | None, Value.GROUP, typer.Option("-g", "--group", metavar="GROUP", help="Consumer group.")
    ] = None,
    topic: Annotated[
        str | None, Value.TOPIC, typer.Option("-t", "--topic", metavar="TOPIC", help="Topic name.")
    ] = None,
    to: Annotated[
        str | None,
        Value.NUMBER,
        typer.Option(
            "--to",
            metavar="begin|end|OFFSET|+N|-N|TIME",
            help="New position. +N, -N: messages from the old one. TIME: now, -10m, @epoch, ISO 8601.",
        ),
    ] = None,
    queues: Annotated[
        Texts,
        Value.NAME,
        typer.Option("--queue", metavar="[BROKER:]QUEUE", help="This queue only. Repeatable: all of them."),
    ] = None,
    undo_file: Annotated[
        Path | None, Value.FILE, typer.Option("--undo", metavar="FILE", help="Undo the reset that wrote this file.")
    ] = None,
) -> Resets:
    """The group may be online or offline. Past a queue's limits, OFFSET, +N and -N mean the nearest limit. -10 is ten
    messages back, -10m is ten minutes ago.

    Examples:
      rmqadmin resetOffset -g OrderGroup -t OrderTopic --to -10m --dry-run
      rmqadmin resetOffset -g OrderGroup -t OrderTopic --to 2026-01-31T12:00:00Z --yes
      rmqadmin resetOffset -g OrderGroup -t OrderTopic --to end
      rmqadmin resetOffset -g OrderGroup -t OrderTopic --to +1 --queue broker-a:0
    """
    if undo_file is not None:
        if group or topic or to or queues:
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
    found = plan_queues(call.admin, route, group, topic, where.goal, queues or ())
    words = f"{where.words}, only in {', '.join(queues)}" if queues else where.words
    say_if_unknown(call.admin, group, found, call.notice)
    for remark in remarks(found, where.goal):
        call.notice(remark)
    planned = Resets(group, topic, found)
    return call.ask_and_act(
        planned,
        planned.question(words),
        group,
        lambda: act(call.admin, planned, None if queues else where.goal, call.now_ms(), call.notice),
    )


def _undo(call: Call, path: Path) -> Resets:
    record = undo.read_untrusted(path)
    elsewhere = _of_other_servers(call, record)
    route = call.admin.topic_route(record.topic)
    queues = reset.plan(
        call.admin, route, record.group, record.topic, lambda _addr, queue, *_: record.committed_offset(queue)
    )
    queues = [
        msgspec.structs.replace(one, undone_offset=record.reset_offset(one.queue))
        for one in queues
        if record.has(one.queue)
    ]
    unknown = sum(one.new_offset is None for one in queues)
    if unknown:
        call.notice(f"the group had no offset in {counted(unknown, 'queue')}: nothing is changed there")
    planned = Resets(record.group, record.topic, queues)
    if call.dry_run:
        if elsewhere:
            call.notice(elsewhere)
        return planned
    question = " ".join(filter(None, (elsewhere, planned.question(f"back to where {path.name} found it"))))
    # What comes again cannot be undone, and a group of this name on other servers is probably another one.
    confirm = call.confirm_bulk if planned.again_count or elsewhere else call.confirm
    confirm(question, record.group, preview=planned)
    return act(call.admin, planned, None, call.now_ms(), call.notice)


def _of_other_servers(call: Call, record: undo.Undo) -> str | None:
    """A warning if the file was made at other name servers than those that are asked now."""
    if not {*record.namesrv_addrs}.isdisjoint(call.admin.namesrv_addrs):
        return None
    made, asked = ";".join(record.namesrv_addrs), ";".join(call.admin.namesrv_addrs)
    return f"The file was made on the name servers {made}, and {asked} are asked: is it the same cluster?"
