"""A group's offsets in a topic are moved: anywhere, to a time, to the end, to those of another group. Each is a reset,
shown first, read back, and undone with the file that it writes."""

from pathlib import Path
from typing import Annotated

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import A_BROKER, LONG, Group, IgnoredForce, LmqParent, Texts, Topic, TrueFalse
from rmqadmin.cli.options.common_options import Value, option
from rmqadmin.core.offsets import reset, reset_undo
from rmqadmin.core.offsets.reset import END, Goal
from rmqadmin.core.offsets.reset_plan import (
    Resets,
    act,
    only_queue,
    parse_destination,
    plan_queues,
    plan_undo,
    remarks,
    say_if_unknown,
)
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.statistics import TopicOffset
from rmqproto.errors import NotFoundError, UsageError


def reset_offset(
    call: Call,
    group: Annotated[str | None, Value.GROUP, option("-g", "--group", "Consumer group.")] = None,
    topic: Annotated[str | None, Value.TOPIC, option("-t", "--topic", "Topic name.")] = None,
    to: Annotated[
        str | None,
        Value.NUMBER,
        option(
            "--to",
            "New position. +N, -N: messages from the old one. TIME: now, -10m, @epoch, ISO 8601.",
            metavar="begin|end|OFFSET|+N|-N|TIME",
        ),
    ] = None,
    queues: Annotated[
        Texts, Value.NAME, option("--queue", "This queue only. Repeatable: all of them.", metavar="[BROKER:]QUEUE")
    ] = None,
    undo_file: Annotated[Path | None, Value.FILE, option("--undo", "Undo the reset that wrote this file.")] = None,
) -> Resets:
    """The group may be online or offline. Past a queue's limits, OFFSET, +N and -N mean the nearest limit. -10 is ten
    messages back, -10m is ten minutes ago.

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
    record = reset_undo.read_untrusted(path)
    elsewhere = None
    if {*record.namesrv_addrs}.isdisjoint(call.admin.namesrv_addrs):
        made, asked = ";".join(record.namesrv_addrs), ";".join(call.admin.namesrv_addrs)
        elsewhere = f"The file was made on the name servers {made}, and {asked} are asked: is it the same cluster?"
    planned = plan_undo(call.admin, record, call.notice)
    if call.dry_run:
        if elsewhere:
            call.notice(elsewhere)
        return planned
    question = " ".join(filter(None, (elsewhere, planned.question(f"back to where {path.name} found it"))))
    # What comes again cannot be undone, and a group of this name on other servers is probably another one.
    confirm = call.confirm_bulk if planned.again_count or elsewhere else call.confirm
    confirm(question, record.group, preview=planned)
    return act(call.admin, planned, None, call.now_ms(), call.notice)


def reset_offset_by_time(
    call: Call,
    group: Group,
    topic: Topic,
    timestamp: Annotated[
        str,
        Value.NUMBER,
        option("-s", "--timestamp", "now, ms, yyyy-MM-dd#HH:mm:ss:SSS, -10m, ISO 8601.", metavar="TIME"),
    ],
    force: IgnoredForce = None,
    broker: Annotated[
        str | None, A_BROKER, Value.BROKER_ADDR, option("-b", "--broker", "With -q: one queue of this broker.")
    ] = None,
    queue: Annotated[int | None, option("-q", "--queue", "With -b: queue id.")] = None,
    offset: Annotated[
        int | None, LONG, option("-o", "--offset", "With -b and -q: this offset instead of a time.")
    ] = None,
    cluster: LmqParent = None,
) -> Resets:
    """The group may be online or offline. -s -1 means the end of every queue.

    rmqadmin resetOffsetByTime -g OrderGroup -t OrderTopic -s now
    rmqadmin resetOffsetByTime -g OrderGroup -t OrderTopic -s 2026-01-31#12:00:00:000 --dry-run
    rmqadmin resetOffsetByTime -g OrderGroup -t OrderTopic -s -1 -b 127.0.0.1:10911 -q 0 -o 5
    """
    from rmqproto.times import END_OF_QUEUES, parse_mqadmin_time, understood

    timestamp = timestamp.strip()
    timestamp_ms = parse_mqadmin_time(timestamp, call.now_ms(), least=END_OF_QUEUES)
    what = f"to {understood(timestamp_ms)}" if timestamp_ms >= 0 else "to the end of every queue"
    goal = Goal(timestamp_ms=timestamp_ms)
    said = [broker is not None, queue is not None and queue >= 0]
    one_queue = all(said)
    if not one_queue and (any(said) or offset is not None):  # mqadmin moves all queues
        raise UsageError(
            "-b and -q choose one queue together, and -o needs both: nothing was done",
            hint="`resetOffset --queue [BROKER:]QUEUE` takes one without the other.",
        )
    route = call.admin.topic_route(cluster or topic)
    if one_queue and offset is not None:
        goal, what = Goal(queue_offset=offset, is_exact=True), f"to queue offset {offset}"
    else:
        call.notice(f"-s {timestamp} is {what.removeprefix('to ')}")
    planned = plan_queues(call.admin, route, group, topic, goal)
    say_if_unknown(call.admin, group, planned, call.notice)
    times = f"timestamp(string)[{timestamp}], timestamp(long)[{timestamp_ms}]"
    head = f"start reset consumer offset by specified, group[{group}], topic[{topic}], "
    if one_queue:
        assert broker is not None
        assert queue is not None
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


def skip_accumulated_message(
    call: Call,
    group: Group,
    topic: Topic,
    force: IgnoredForce = None,
    cluster: LmqParent = None,
) -> Resets:
    """The group skips every message that is stored now. It may be online or offline.

    rmqadmin skipAccumulatedMessage -g OrderGroup -t OrderTopic --dry-run
    rmqadmin skipAccumulatedMessage -g OrderGroup -t OrderTopic --yes
    """
    goal = Goal(edge=END)
    route = call.admin.topic_route(cluster or topic)
    planned = Resets(group, topic, plan_queues(call.admin, route, group, topic, goal), mqadmin_head="")
    say_if_unknown(call.admin, group, planned.queues, call.notice)
    return call.ask_and_act(
        planned,
        planned.question("to the end of every queue"),
        group,
        lambda: act(call.admin, planned, goal, call.now_ms(), call.notice),
    )


class Cloned(Resets, frozen=True):
    """Each queue of the group that is moved, before and after."""

    source_group: str = ""

    def mqadmin_text(self) -> str | None:
        if not any(one.done for one in self.queues):
            return None
        return (
            f"clone group offset success. srcGroup[{self.source_group}], destGroup=[{self.group}], topic[{self.topic}]"
        )


def clone_group_offset(
    call: Call,
    src_group: Annotated[str, Value.GROUP, option("-s", "--srcGroup", "The group whose offsets are taken.")],
    dest_group: Annotated[str, Value.GROUP, option("-d", "--destGroup", "The group that is moved.")],
    topic: Topic,
    offline: Annotated[str | None, option("-o", "--offline", "Has no effect, as in mqadmin.")] = None,
) -> Cloned:
    """Moves the group in this topic only. Queues where the other group has no offset stay as they are. If the message
    at an offset is gone, the group goes to the beginning of the queue.

      rmqadmin cloneGroupOffset -s OrderGroup -d OtherGroup -t OrderTopic --dry-run
      rmqadmin cloneGroupOffset -s OrderGroup -d OtherGroup -t OrderTopic --yes
    """
    admin = call.admin

    def stands_at(addr: str, queue: MessageQueue, ends: TopicOffset, _old_offset: int | None) -> int | None:
        found = admin.consumer_offset(addr, src_group, topic, queue.queue_id)
        return None if found is None else reset.within(ends, found)

    planned = reset.plan(admin, admin.topic_route(topic), dest_group, topic, stands_at)
    if all(one.new_offset is None for one in planned) and not call.as_mqadmin:
        raise NotFoundError(
            f"the group {src_group} has no offset in the topic {topic}",
            hint=f"`rmqadmin consumerProgress -g {src_group}` shows where it has some.",
        )
    say_if_unknown(admin, dest_group, planned, call.notice)
    result = Cloned(dest_group, topic, planned, source_group=src_group)
    return call.ask_and_act(
        result,
        result.question(f"to where {src_group} stands"),
        dest_group,
        lambda: act(admin, result, None, call.now_ms(), call.notice),
    )
