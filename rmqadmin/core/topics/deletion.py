"""Deleting a topic: from brokers, and from the name servers, which keep its route otherwise."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rmqadmin.core import targets
from rmqadmin.core.changes import Step, WayBack, differences
from rmqadmin.core.config_lists import TOPICS, entry_of
from rmqadmin.core.topics.topic_config import read_topic, topic_fields
from rmqproto.bodies.routes import TopicConfig

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


def delete_in_broker(admin: AdminClient, addr: str, topic: str, before: TopicConfig | None) -> Step:
    """The way back is its configuration: its messages are gone."""
    changes = differences(None if before is None else topic_fields(before), None)
    back = None if before is None else WayBack(TOPICS.section, {topic: entry_of(TOPICS, before)})
    return Step(addr, "delete" if before else "keep", changes, partial(admin.delete_topic_in_broker, addr, topic), back)


def delete_in_namesrvs(admin: AdminClient, topic: str, cluster_name: str, *, has_route: bool) -> list[Step]:
    """One step a name server: the topic's route to the brokers of one cluster."""
    act = "delete" if has_route else "keep"
    return [
        Step(addr, act, [], partial(admin.delete_topic_in_namesrv, addr, topic, cluster_name))
        for addr in admin.namesrv_addrs
    ]


def delete_everywhere(admin: AdminClient, topic: str, cluster_name: str) -> list[Step]:
    """From the masters of a cluster, and its route there from the name servers. No step if nobody knows the topic."""
    addrs = targets.masters(admin, None, cluster_name)
    before = targets.ask_each(lambda addr: read_topic(admin, addr, topic), addrs)
    has_route = targets.find_route(admin, topic) is not None
    if not has_route and not any(before):
        return []
    return [
        *(delete_in_broker(admin, addr, topic, config) for addr, config in zip(addrs, before, strict=True)),
        *delete_in_namesrvs(admin, topic, cluster_name, has_route=has_route),
    ]
