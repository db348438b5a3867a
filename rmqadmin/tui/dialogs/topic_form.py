"""The dialogs of `updateTopic` and `deleteTopic`: create a topic, change it on all of its brokers, or delete it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rmqadmin.core import targets
from rmqadmin.core.changes import Step
from rmqadmin.core.topics.deletion import delete_everywhere, loss
from rmqadmin.core.topics.perms import parse_perm, perm_letters
from rmqadmin.core.topics.topic_changes import QUEUE_NUMS_DEFAULT, TopicWish, plan_everywhere
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
from rmqadmin.tui.sources.topics import TopicFacts
from rmqproto.bodies.routes import TopicConfig
from rmqproto.errors import NotFoundError
from rmqproto.topic_message_type import MESSAGE_TYPE, TopicMessageType

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


class TopicFormScreen(StepsScreen):
    """The fields that both forms have."""

    command = "updateTopic"

    def config_fields(self, configs: Sequence[TopicConfig]) -> list[FormField]:
        def value(field: str) -> str:
            found = common(getattr(config, field) for config in configs)
            return "" if found is None else str(found)

        perm = common(config.perm for config in configs)
        order = common(config.order for config in configs)
        return [
            FormField(name="read", label="read queues", value=value("read_queue_nums"), hint="of each broker"),
            FormField(name="write", label="write queues", value=value("write_queue_nums"), hint="of each broker"),
            FormField(
                name="perm",
                label="permissions",
                value=perm_letters(perm) if isinstance(perm, int) else "",
                hint="R, W, RW or RWX",
            ),
            FormField(
                name="order",
                label="ordered",
                value=yes_no(order) if isinstance(order, bool) else "",
                hint="yes or no: queues keep their order",
            ),
            FormField(
                name="type",
                label="message type",
                value=str(common(config.attributes.get(MESSAGE_TYPE, "") for config in configs) or ""),
                hint="NORMAL, FIFO, DELAY, TRANSACTION …",
            ),
            attributes_field(config.attributes for config in configs),
        ]

    def wish(self, topic: str) -> TopicWish:
        perm, signed = self.said("perm"), parse_attributes(self.said("attributes"))
        message_type = self.said_word("type", TopicMessageType)
        if message_type is not None and f"-{MESSAGE_TYPE}" not in signed:
            signed.setdefault(f"+{MESSAGE_TYPE}", message_type)
        return TopicWish(
            topic=topic,
            read_queue_nums=self.said_int("read", least=0),
            write_queue_nums=self.said_int("write", least=0),
            perm=None if perm is None else parse_perm(perm),
            order=self.said_bool("order"),
            attributes=signed,
        )


class NewTopicScreen(TopicFormScreen):
    empty = "takes the default"

    def __init__(self, on: str):
        """``on`` is the default place of the topic: a cluster or a broker's address."""
        super().__init__("New topic", None)
        self._on = on

    def fields(self) -> Sequence[FormField]:
        new = TopicConfig(topic_name="", read_queue_nums=QUEUE_NUMS_DEFAULT, write_queue_nums=QUEUE_NUMS_DEFAULT)
        return [
            FormField(name="topic", label="topic", hint="letters, digits, % | - _"),
            place_field(self._on),
            *self.config_fields([new]),
        ]

    def plan(self, admin: AdminClient, occasion: Occasion) -> list[Step]:
        topic = self.required("topic")
        plan = plan_everywhere(admin, targets.masters(admin, *place(self.required("on"))), self.wish(topic))
        if any(step.action in ("change", "keep") for step in plan.on_brokers):
            occasion.notice(f"the topic {topic} already exists: this changes it")
        return plan.steps


class EditTopicScreen(TopicFormScreen):
    empty = "stays as it is on each broker"

    def __init__(self, facts: TopicFacts):
        super().__init__(f"Change the topic {facts.topic}", facts.topic)
        self._facts = facts

    def fields(self) -> Sequence[FormField]:
        return self.config_fields(list(self._facts.configs.values()))

    def plan(self, admin: AdminClient, occasion: Occasion) -> list[Step]:
        facts = self._facts
        if facts.lacking:
            occasion.notice(nothing_on(facts.lacking))
        plan = plan_everywhere(admin, facts.masters, self.wish(facts.topic))
        if any(step.action == "create" for step in plan.on_brokers):
            raise NotFoundError(f"the topic {facts.topic} no longer exists")
        return plan.steps


class DeleteTopicScreen(StepsScreen):
    command = "deleteTopic"

    def __init__(self, facts: TopicFacts, clusters: Sequence[str]):
        super().__init__(f"Delete the topic {facts.topic}", facts.topic)
        self._facts, self._clusters = facts, clusters

    def words(self) -> str:
        return (
            "Its messages, and the groups' offsets in it, are deleted too, and nothing brings them back. If producers "
            "still send to it, brokers that create topics by themselves create it again."
        )

    def plan(self, admin: AdminClient, occasion: Occasion) -> list[Step]:
        facts = self._facts
        if facts.lacking:
            occasion.notice(nothing_on(facts.lacking))
        steps = [step for cluster in self._clusters for step in delete_everywhere(admin, facts.topic, cluster)]
        if not steps:
            raise NotFoundError(f"there is no topic {facts.topic} in {', '.join(self._clusters)}")
        if occasion.dry_run:
            occasion.notice(loss(admin, facts.topic, facts.masters))
        return steps
