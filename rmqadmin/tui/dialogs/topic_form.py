"""Making a topic, changing it on all of its brokers, deleting it: the dialogs of `updateTopic` and `deleteTopic`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rmqadmin.core import targets
from rmqadmin.core.changes import Step, plan_each
from rmqadmin.core.topics.deletion import delete_everywhere
from rmqadmin.core.topics.perms import parse_perm, perm_letters
from rmqadmin.core.topics.topic_changes import QUEUE_NUMS_DEFAULT, TopicWish, plan_topic, set_order
from rmqadmin.core.topics.topic_config import parse_attributes
from rmqadmin.tui.dialogs.change import Occasion
from rmqadmin.tui.dialogs.form import FormField, StepsScreen, attributes_field, common, place, place_field, yes_no
from rmqadmin.tui.sources.topics import TopicFacts
from rmqproto.bodies.routes import TopicConfig
from rmqproto.errors import NotFoundError, RocketMQError

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


class TopicFormScreen(StepsScreen):
    """What both forms ask for."""

    command = "updateTopic"

    def __init__(self, title: str, name_to_type: str | None):
        super().__init__(title, name_to_type)
        self._ordered: list[tuple[str, TopicConfig]] = []

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
            attributes_field(config.attributes for config in configs),
        ]

    def wish(self, topic: str) -> TopicWish:
        perm = self.said("perm")
        return TopicWish(
            topic=topic,
            read_queue_nums=self.said_int("read"),
            write_queue_nums=self.said_int("write"),
            perm=None if perm is None else parse_perm(perm),
            order=self.said_bool("order"),
            attributes=parse_attributes(self.said("attributes")),
        )

    def plan_on(self, admin: AdminClient, wish: TopicWish, addrs: Sequence[str]) -> list[Step]:
        """What is asked of ordered topics is kept for ``done``."""
        self._ordered = []

        def plan(addr: str) -> Step:
            step, request = plan_topic(admin, addr, wish)
            if request.order:
                self._ordered.append((addr, request))
            return step

        return plan_each(addrs, plan)

    def clusters(self) -> Sequence[str | None]:
        """Those whose brokers have it then; None for one broker alone."""
        raise NotImplementedError

    def done(self, admin: AdminClient, occasion: Occasion) -> None:
        """Name servers know how many queues an ordered topic has where."""
        if self._ordered:
            addr, config = self._ordered[0]
            try:
                for cluster in self.clusters():
                    occasion.notice(f"the name servers know its order: {set_order(admin, config, addr, cluster)}")
            except RocketMQError as error:  # what was done is shown all the same
                occasion.notice(f"the name servers were not told its order: {error}")


class NewTopicScreen(TopicFormScreen):
    empty = "the default"

    def __init__(self, on: str):
        """``on``: where it is to be if nothing else is said, a cluster or a broker's address."""
        super().__init__("New topic", None)
        self._on = on

    def fields(self) -> Sequence[FormField]:
        new = TopicConfig(topic_name="", read_queue_nums=QUEUE_NUMS_DEFAULT, write_queue_nums=QUEUE_NUMS_DEFAULT)
        return [
            FormField(name="topic", label="topic", hint="letters, digits, % | - _"),
            place_field(self._on),
            *self.config_fields([new]),
        ]

    def clusters(self) -> Sequence[str | None]:
        return [place(self.required("on"))[1]]

    def plan(self, admin: AdminClient, occasion: Occasion) -> list[Step]:
        topic = self.required("topic")
        steps = self.plan_on(admin, self.wish(topic), targets.masters(admin, *place(self.required("on"))))
        if any(step.action in ("change", "keep") for step in steps):
            occasion.notice(f"there is a topic {topic} already: this changes it")
        return steps


class EditTopicScreen(TopicFormScreen):
    empty = "it stays as it is on each broker"

    def __init__(self, facts: TopicFacts):
        super().__init__(f"Change the topic {facts.topic}", facts.topic)
        self._facts = facts

    def fields(self) -> Sequence[FormField]:
        return self.config_fields(list(self._facts.configs.values()))

    def clusters(self) -> Sequence[str | None]:
        return sorted({broker.cluster for broker in self._facts.brokers if broker.cluster})

    def plan(self, admin: AdminClient, occasion: Occasion) -> list[Step]:
        facts = self._facts
        if facts.lacking:
            occasion.notice(f"not on {', '.join(facts.lacking)}, which cannot be asked")
        steps = self.plan_on(admin, self.wish(facts.topic), facts.masters)
        if any(step.action == "create" for step in steps):
            raise NotFoundError(f"the topic {facts.topic} is no longer there")
        return steps


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
            occasion.notice(f"not on {', '.join(facts.lacking)}, which cannot be asked")
        steps = [step for cluster in self._clusters for step in delete_everywhere(admin, facts.topic, cluster)]
        if not steps:
            raise NotFoundError(f"there is no topic {facts.topic} in {', '.join(self._clusters)}")
        if occasion.dry_run:
            occasion.notice(self._loss(admin))
        return steps

    def _loss(self, admin: AdminClient) -> str:
        """How much goes, and who misses it."""
        topic, addrs = self._facts.topic, self._facts.masters
        try:
            ends = [end for addr in addrs for end in admin.topic_stats(addr, topic).offset_table.values()]
            groups = sorted({group for addr in addrs for group in admin.groups_of_topic(addr, topic)})
        except RocketMQError as error:
            return f"how many messages would be lost, and to which groups, is unknown: {error}"
        message_count = sum(end.max_offset - end.min_offset for end in ends)
        lost = f"{message_count:,} {'message' if message_count == 1 else 'messages'} would be lost"
        return f"{lost}; read by {', '.join(groups)}" if groups else f"{lost}; no group reads them"
