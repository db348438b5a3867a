"""Names that the system made, not users: a terminal hides or dims them, because they often outnumber the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from rmqproto.names import RETRY_PREFIX, is_system_topic, reply_topic

if TYPE_CHECKING:
    from rmqproto.bodies.routes import ClusterInfo


def is_made_by_brokers(topic: str, servers: Collection[str] = ()) -> bool:
    """Whether brokers made the topic: system topics, retry topics, and ``servers``, the result of
    ``topics_of_servers``. Dead-letter topics do not count, because people look for them."""
    return is_system_topic(topic) or topic.startswith(RETRY_PREFIX) or topic in servers


def topics_of_servers(info: ClusterInfo) -> set[str]:
    """The topics that brokers make for themselves: one of their own name, one of their cluster's, and one for
    replies."""
    return topics_named_after(info.broker_addr_table, info.cluster_addr_table)


def topics_named_after(broker_names: Iterable[str], clusters: Iterable[str]) -> set[str]:
    """``topics_of_servers``, given the names."""
    clusters = list(clusters)
    return {*broker_names, *clusters, *map(reply_topic, clusters)}
