"""The dialogs of `updateSubGroup`, `deleteSubGroup` and `resetOffset`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rmqadmin.core import targets
from rmqadmin.core.changes import Step, all_keep, plan_each
from rmqadmin.core.groups import group_changes
from rmqadmin.core.groups.group_changes import delete_group_in_broker, delete_topics_of_group, plan_group
from rmqadmin.core.offsets.reset import Goal
from rmqadmin.core.offsets.reset_plan import Resets, act, only_queue, parse_destination, plan_queues, plan_undo, remarks
from rmqadmin.core.offsets.reset_undo import read_untrusted
from rmqadmin.core.topic_and_group_configs import parse_attributes
from rmqadmin.tui.dialogs.change import Ask, ChangeDialog, in_steps
from rmqadmin.tui.dialogs.fields import YES_NO, FormField, attributes_field, common, number, place_field
from rmqadmin.tui.dialogs.topics import say_lacking
from rmqadmin.tui.memory.cluster import ClusterMemory
from rmqadmin.tui.sources.groups import GroupFacts
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.errors import NotFoundError

_YES_NO = {
    "consume_enable": ("may consume", ""),
    "consume_from_min_enable": ("from the first", "starts at the oldest message"),
    "consume_broadcast_enable": ("may broadcast", ""),
    "consume_message_orderly": ("in order", "for POP"),
    "notify_consumer_ids_changed_enable": ("notify members", "if others come or go"),
}
_NUMBERS = {
    "retry_max_times": ("retries", "before the dead-letter queue", number()),
    "retry_queue_nums": ("retry queues", "of its retry topic", number(least=0)),
}


def _config_fields(configs: Sequence[SubscriptionGroupConfig]) -> list[FormField]:
    def value(field: str) -> object:
        return common(getattr(config, field) for config in configs)

    return [
        *(
            FormField(name=name, label=label, value=value(name), hint=hint, options=YES_NO)
            for name, (label, hint) in _YES_NO.items()
        ),
        *(
            FormField(name=name, label=label, value=value(name), hint=hint, parse=parse)
            for name, (label, hint, parse) in _NUMBERS.items()
        ),
        attributes_field(config.attributes for config in configs),
    ]


def _plan_on(ask: Ask, group: str, addrs: Sequence[str]) -> list[Step]:
    wish = {name: ask.said[name] for name in (*_YES_NO, *_NUMBERS) if ask.said[name] is not None}
    signed = parse_attributes(ask.said["attributes"])
    return plan_each(addrs, lambda addr: plan_group(ask.admin, addr, group, wish, signed)[0])


def _addrs(ask: Ask, facts: GroupFacts) -> list[str]:
    say_lacking(ask, facts.lacking)
    return targets.selected_addrs(facts.brokers)


def new_group(on: str) -> ChangeDialog:
    """``on`` is the default place of the group: a cluster or a broker's address."""

    def plan(ask: Ask) -> list[Step]:
        group = ask.said["group"]
        found = _plan_on(ask, group, targets.masters(ask.admin, *ask.said["on"]))
        if any(step.action in ("change", "keep") for step in found):
            ask.notice(f"the group {group} already exists: this changes it")
        return found

    name = FormField(name="group", label="group", hint="letters, digits, % | - _", is_required=True)
    return ChangeDialog(
        "New group", in_steps("updateSubGroup", plan), name=None,
        fields=[name, place_field(on), *_config_fields([group_changes.new_group("")])],
        about="An empty field takes the default.",
    )  # fmt: skip


def edit_group(facts: GroupFacts, configs: Sequence[SubscriptionGroupConfig]) -> ChangeDialog:
    def plan(ask: Ask) -> list[Step]:
        found = _plan_on(ask, facts.group, _addrs(ask, facts))
        if any(step.action == "create" for step in found):
            raise NotFoundError(f"the group {facts.group} no longer exists")
        return found

    return ChangeDialog(
        f"Change the group {facts.group}", in_steps("updateSubGroup", plan), name=facts.group,
        fields=_config_fields(configs), about="An empty field stays as it is on each broker.",
    )  # fmt: skip


def delete_group(facts: GroupFacts) -> ChangeDialog:
    def plan(ask: Ask) -> list[Step]:
        group, clean_offset = facts.group, bool(ask.said["offsets"])
        found = plan_each(
            _addrs(ask, facts), lambda addr: delete_group_in_broker(ask.admin, addr, group, clean_offset=clean_offset)
        )
        if ask.said["letters"]:
            for cluster in sorted({broker.cluster for broker in facts.brokers if broker.cluster is not None}):
                found += delete_topics_of_group(ask.admin, group, cluster)
        if all_keep(found):
            raise NotFoundError(f"the group {group} no longer exists")
        return found

    fields = [
        FormField(name="offsets", label="its offsets too", value=False, hint="how far it has read", options=YES_NO),
        FormField(name="letters", label="its messages too", value=False, hint="retries, dead letters", options=YES_NO),
    ]
    return ChangeDialog(
        f"Delete the group {facts.group}", in_steps("deleteSubGroup", plan), name=facts.group, fields=fields,
        about="If the group is online, brokers may create it again.", lost="what went with it stays gone",
    )  # fmt: skip


def _moved(ask: Ask, planned: Resets, goal: Goal | None) -> Resets:
    if ask.dry_run:
        return planned
    done = act(ask.admin, planned, goal, ask.now_ms, ask.notice)
    assert done.undo_file is not None
    path = Path(done.undo_file)

    def back(again: Ask) -> Resets:
        planned = plan_undo(again.admin, read_untrusted(path), again.notice)
        if planned.again_count:
            again.notice(f"{planned.group} has passed the old offset: {planned.again_text('')}")
        return _moved(again, planned, None)

    ask.undo_by(back)
    return done


def reset_offsets(group: str, topic: str, queue: MessageQueue | None, memory: ClusterMemory) -> ChangeDialog:
    """``queue`` is the only queue to reset; None for all of the topic."""

    def run(ask: Ask) -> Resets:
        where = parse_destination(ask.said["to"], ask.now_ms)
        if where.notice is not None:
            ask.notice(where.notice)
        route = ask.admin.topic_route(topic)
        for name, why in memory.lost_of(topic, {broker.broker_name for broker in route.broker_datas}).items():
            ask.notice(f"the queues of {name} are left out: {why}")
        queues = plan_queues(ask.admin, route, group, topic, where.goal)
        goal: Goal | None = where.goal
        if queue is not None:
            queues = only_queue(queues, queue.broker_name, queue.queue_id)
            goal = None  # a broker that can only reset all queues at once must not be asked to
        for remark in remarks(queues, where.goal):
            ask.notice(remark)
        return _moved(ask, Resets(group, topic, queues), goal)

    what = "the offsets" if queue is None else f"the offset in queue {queue.queue_id} of {queue.broker_name}"
    hint = "begin, end, an offset, +N or -N messages, a time (now, -10m, ISO 8601)"
    return ChangeDialog(
        f"Reset {what} of {group} in {topic}", run, name=group,
        fields=[FormField(name="to", label="to", hint=hint, is_required=True)], totals=Resets.lag_text,
    )  # fmt: skip
