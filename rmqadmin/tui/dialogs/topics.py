"""The dialogs of `updateTopic`, `updateTopicPerm` and `deleteTopic`."""

from __future__ import annotations

from collections.abc import Sequence

from rmqadmin.core import targets
from rmqadmin.core.changes import Step, plan_each
from rmqadmin.core.topic_and_group_configs import parse_attributes, plan_perm
from rmqadmin.core.topics.topic_changes import QUEUE_NUMS_DEFAULT, TopicWish, delete_everywhere, loss, plan_everywhere
from rmqadmin.core.units import WORDS, parse_perm, perm_letters, perm_words
from rmqadmin.tui.dialogs.change import Ask, ChangeDialog, in_steps
from rmqadmin.tui.dialogs.fields import YES_NO, FormField, attributes_field, common, number, place_field
from rmqadmin.tui.sources.topics import TopicFacts
from rmqproto.bodies.routes import TopicConfig
from rmqproto.codes import MESSAGE_TYPE, PERM_INHERIT, PERM_READ, PERM_READ_WRITE, PERM_WRITE, TopicMessageType
from rmqproto.errors import NotFoundError

_PERMS = (PERM_READ_WRITE, PERM_READ, PERM_WRITE, PERM_READ_WRITE | PERM_INHERIT, 0)
"""The permissions that one gives to a topic."""

_count = number(least=0)


def say_lacking(ask: Ask, broker_names: Sequence[str]) -> None:
    """Tells which brokers a change leaves out."""
    if broker_names:
        they = "it" if len(broker_names) == 1 else "they"
        ask.notice(f"nothing changes on {', '.join(broker_names)}: {they} cannot be asked")


def _config_fields(configs: Sequence[TopicConfig]) -> list[FormField]:
    def value(field: str) -> object:
        return common(getattr(config, field) for config in configs)

    perm = value("perm")
    types = {each.value: each.value for each in TopicMessageType}
    type_now = common(config.attributes.get(MESSAGE_TYPE) for config in configs)
    if type_now is not None:
        types.setdefault(type_now, type_now)
    return [
        *(
            FormField(name=name, label=label, value=value(f"{name}_queue_nums"), hint="of each broker", parse=_count)
            for name, label in {"read": "read queues", "write": "write queues"}.items()
        ),
        FormField(
            name="perm", label="permissions", value=perm_letters(perm) if isinstance(perm, int) else None,
            hint="R, W, RW or RWX", parse=parse_perm,
        ),
        FormField(name="order", label="ordered", value=value("order"), hint="queues keep their order", options=YES_NO),
        FormField(name="type", label="message type", value=type_now, hint="what producers may send", options=types),
        attributes_field(config.attributes for config in configs),
    ]  # fmt: skip


def _wish(topic: str, ask: Ask) -> TopicWish:
    said, signed = ask.said, parse_attributes(ask.said["attributes"])
    if said["type"] is not None and f"-{MESSAGE_TYPE}" not in signed:
        signed.setdefault(f"+{MESSAGE_TYPE}", said["type"])
    return TopicWish(
        topic=topic,
        read_queue_nums=said["read"],
        write_queue_nums=said["write"],
        perm=said["perm"],
        order=said["order"],
        attributes=signed,
    )


def new_topic(on: str) -> ChangeDialog:
    """``on`` is the default place of the topic: a cluster or a broker's address."""

    def plan(ask: Ask) -> list[Step]:
        topic = ask.said["topic"]
        found = plan_everywhere(ask.admin, targets.masters(ask.admin, *ask.said["on"]), _wish(topic, ask))
        if any(step.action in ("change", "keep") for step in found.on_brokers):
            ask.notice(f"the topic {topic} already exists: this changes it")
        return found.steps

    new = TopicConfig(topic_name="", read_queue_nums=QUEUE_NUMS_DEFAULT, write_queue_nums=QUEUE_NUMS_DEFAULT)
    name = FormField(name="topic", label="topic", hint="letters, digits, % | - _", is_required=True)
    return ChangeDialog(
        "New topic", in_steps("updateTopic", plan), name=None, fields=[name, place_field(on), *_config_fields([new])],
        about="An empty field takes the default.",
    )  # fmt: skip


def edit_topic(facts: TopicFacts) -> ChangeDialog:
    def plan(ask: Ask) -> list[Step]:
        say_lacking(ask, facts.lacking)
        found = plan_everywhere(ask.admin, facts.masters, _wish(facts.topic, ask))
        if any(step.action == "create" for step in found.on_brokers):
            raise NotFoundError(f"the topic {facts.topic} no longer exists")
        return found.steps

    return ChangeDialog(
        f"Change the topic {facts.topic}", in_steps("updateTopic", plan), name=facts.topic,
        fields=_config_fields(list(facts.configs.values())), about="An empty field stays as it is on each broker.",
    )  # fmt: skip


def topic_perm(facts: TopicFacts) -> ChangeDialog:
    def plan(ask: Ask) -> list[Step]:
        say_lacking(ask, facts.lacking)
        return plan_each(facts.masters, lambda addr: plan_perm(ask.admin, addr, facts.topic, ask.said["perm"])[0])

    def told(perm: int) -> str:
        words = [word for bit, word in WORDS.items() if perm & bit]
        return f"{perm_words(perm):9}{', '.join(words) or 'nothing'}"

    now = facts.perm if facts.perm is not None else max(one.perm for one in facts.configs.values())
    options = {told(perm): perm for perm in dict.fromkeys((*_PERMS, now))}
    field = FormField(name="perm", label="may", value=now, options=options, is_list=True)
    return ChangeDialog(
        f"Permissions of the topic {facts.topic}", in_steps("updateTopicPerm", plan), name=facts.topic, fields=[field]
    )


def delete_topic(facts: TopicFacts, clusters: Sequence[str]) -> ChangeDialog:
    def plan(ask: Ask) -> list[Step]:
        say_lacking(ask, facts.lacking)
        steps = [step for cluster in clusters for step in delete_everywhere(ask.admin, facts.topic, cluster)]
        if not steps:
            raise NotFoundError(f"there is no topic {facts.topic} in {', '.join(clusters)}")
        if ask.dry_run:
            ask.notice(loss(ask.admin, facts.topic, facts.masters))
        return steps

    return ChangeDialog(
        f"Delete the topic {facts.topic}", in_steps("deleteTopic", plan), name=facts.topic,
        about="Its messages, and the groups' offsets in it, are deleted too, and nothing brings them back. If "
        "producers still send to it, brokers that create topics by themselves create it again.",
        lost="the messages are gone",
    )  # fmt: skip
