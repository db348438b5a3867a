"""Deletes a topic from brokers, and from the name servers, which would otherwise keep its route."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from rmqadmin.core import targets
from rmqadmin.core.changes import Step, WayBack, all_keep, differences, plan_each
from rmqadmin.core.config_lists import TOPICS, entry_of
from rmqadmin.core.topics.topic_config import read_topic, topic_fields
from rmqproto.errors import RocketMQError
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


def delete_in_broker(admin: AdminClient, addr: str, topic: str) -> Step:
    """Plans the deletion on one broker. Undo restores the configuration, but not the messages."""
    before = read_topic(admin, addr, topic)
    changes = differences(None if before is None else topic_fields(before), None)
    back = None if before is None else WayBack(TOPICS.section, {topic: entry_of(TOPICS, before)})
    return Step(addr, "delete" if before else "keep", changes, partial(admin.delete_topic_in_broker, addr, topic), back)


def loss(admin: AdminClient, topic: str, addrs: Sequence[str]) -> str:
    """How much is lost with a topic on these brokers, and which groups read it, as text."""
    try:
        message_count = messages_in(admin, topic, addrs)
        answers = targets.ask_each(lambda addr: admin.groups_of_topic(addr, topic), addrs)
        groups = sorted({group for answer in answers for group in answer})
    except RocketMQError as error:
        return f"how many messages would be lost, and to which groups, is unknown: {error}"
    lost = f"{counted(message_count, 'message')} would be lost"
    return f"{lost}; read by {', '.join(groups)}" if groups else f"{lost}; no group is online or has offsets there"


def messages_in(admin: AdminClient, topic: str, addrs: Sequence[str]) -> int:
    """How many messages a topic has on these brokers."""
    answers = targets.ask_each(lambda addr: admin.topic_stats(addr, topic), addrs)
    return sum(end.max_offset - end.min_offset for answer in answers for end in answer.offset_table.values())


def delete_in_namesrvs(admin: AdminClient, topic: str, cluster_name: str, *, has_route: bool) -> list[Step]:
    """One step per name server: deletes the topic's route to the brokers of one cluster."""
    act = "delete" if has_route else "keep"
    return [
        Step(addr, act, [], partial(admin.delete_topic_in_namesrv, addr, topic, cluster_name))
        for addr in admin.namesrv_addrs
    ]


def delete_everywhere(admin: AdminClient, topic: str, cluster_name: str) -> list[Step]:
    """Deletes the topic from the masters of a cluster, and its route there from the name servers. No step if no server
    knows the topic."""
    steps = plan_each(targets.masters(admin, None, cluster_name), lambda addr: delete_in_broker(admin, addr, topic))
    has_route = targets.find_route(admin, topic) is not None
    if not has_route and all_keep(steps):
        return []
    return [*steps, *delete_in_namesrvs(admin, topic, cluster_name, has_route=has_route)]
