"""The dialogs of `updateSubGroup` and `deleteSubGroup`: create a group, change it on all of its brokers, or delete
it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rmqadmin.core import targets
from rmqadmin.core.changes import Step, all_keep, plan_each
from rmqadmin.core.groups.group_changes import (
    delete_group_in_broker,
    delete_topics_of_group,
    new_group,
    plan_group,
)
from rmqadmin.core.topics.topic_config import parse_attributes
from rmqadmin.tui.dialogs.change import Occasion
from rmqadmin.tui.dialogs.form import (
    FormField,
    StepsScreen,
    attributes_field,
    common,
    nothing_on,
    place,
    place_field,
    yes_no,
)
from rmqadmin.tui.sources.groups import GroupFacts
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.errors import NotFoundError

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient

_BOOLS = {
    "consume_enable": ("may consume", "yes or no"),
    "consume_from_min_enable": ("from the first", "yes or no: starts at the oldest"),
    "consume_broadcast_enable": ("may broadcast", "yes or no"),
    "consume_message_orderly": ("in order", "yes or no: for POP"),
    "notify_consumer_ids_changed_enable": ("notify members", "yes or no: if others come or go"),
}
_NUMBERS = {
    "retry_max_times": ("retries", "before the dead-letter queue"),
    "retry_queue_nums": ("retry queues", "of its retry topic"),
}

_LEAST = {"retry_queue_nums": 0}


class GroupFormScreen(StepsScreen):
    """The fields that both forms have."""

    command = "updateSubGroup"

    def config_fields(self, configs: Sequence[SubscriptionGroupConfig]) -> list[FormField]:
        def value(field: str) -> str:
            found = common(getattr(config, field) for config in configs)
            return yes_no(found) if isinstance(found, bool) else "" if found is None else str(found)

        return [
            *(
                FormField(name=name, label=label, value=value(name), hint=hint)
                for name, (label, hint) in {**_BOOLS, **_NUMBERS}.items()
            ),
            attributes_field(config.attributes for config in configs),
        ]

    def plan_on(self, admin: AdminClient, group: str, addrs: Sequence[str]) -> list[Step]:
        wish: dict[str, int | None] = {name: self.said_bool(name) for name in _BOOLS}
        wish |= {name: self.said_int(name, least=_LEAST.get(name)) for name in _NUMBERS}
        said = {name: value for name, value in wish.items() if value is not None}
        signed = parse_attributes(self.said("attributes"))
        return plan_each(addrs, lambda addr: plan_group(admin, addr, group, said, signed)[0])


class NewGroupScreen(GroupFormScreen):
    empty = "takes the default"

    def __init__(self, on: str):
        """``on`` is the default place of the group: a cluster or a broker's address."""
        super().__init__("New group", None)
        self._on = on

    def fields(self) -> Sequence[FormField]:
        return [
            FormField(name="group", label="group", hint="letters, digits, % | - _"),
            place_field(self._on),
            *self.config_fields([new_group("")]),
        ]

    def plan(self, admin: AdminClient, occasion: Occasion) -> list[Step]:
        group = self.required("group")
        steps = self.plan_on(admin, group, targets.masters(admin, *place(self.required("on"))))
        if any(step.action in ("change", "keep") for step in steps):
            occasion.notice(f"the group {group} already exists: this changes it")
        return steps


class _KnownGroupScreen(StepsScreen):
    """A dialog about a group on the brokers that have it."""

    def __init__(self, title: str, facts: GroupFacts):
        super().__init__(f"{title} {facts.group}", facts.group)
        self._facts = facts

    def addrs(self, occasion: Occasion) -> list[str]:
        if self._facts.lacking:
            occasion.notice(nothing_on(self._facts.lacking))
        return targets.selected_addrs(self._facts.brokers)


class EditGroupScreen(_KnownGroupScreen, GroupFormScreen):
    empty = "stays as it is on each broker"

    def __init__(self, facts: GroupFacts, configs: Sequence[SubscriptionGroupConfig]):
        super().__init__("Change the group", facts)
        self._configs = configs

    def fields(self) -> Sequence[FormField]:
        return self.config_fields(self._configs)

    def plan(self, admin: AdminClient, occasion: Occasion) -> list[Step]:
        steps = self.plan_on(admin, self._facts.group, self.addrs(occasion))
        if any(step.action == "create" for step in steps):
            raise NotFoundError(f"the group {self._facts.group} no longer exists")
        return steps


class DeleteGroupScreen(_KnownGroupScreen):
    command = "deleteSubGroup"

    def __init__(self, facts: GroupFacts):
        super().__init__("Delete the group", facts)

    def fields(self) -> Sequence[FormField]:
        return [
            FormField(name="offsets", label="its offsets too", value="no", hint="yes or no: its progress"),
            FormField(name="letters", label="its messages too", value="no", hint="yes or no: retries, dead letters"),
        ]

    def words(self) -> str:
        return "Enter shows what would be deleted. If the group is online, brokers may create it again."

    def plan(self, admin: AdminClient, occasion: Occasion) -> list[Step]:
        group, clean_offset = self._facts.group, bool(self.said_bool("offsets"))
        steps = plan_each(
            self.addrs(occasion),
            lambda addr: delete_group_in_broker(admin, addr, group, clean_offset=clean_offset),
        )
        if self.said_bool("letters"):
            for cluster in sorted({broker.cluster for broker in self._facts.brokers if broker.cluster is not None}):
                steps += delete_topics_of_group(admin, group, cluster)
        if all_keep(steps):
            raise NotFoundError(f"the group {group} no longer exists")
        return steps
