"""The topics and groups of a broker that users made, for exports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqproto.bodies.groups import SubscriptionGroups
from rmqproto.bodies.routes import TopicConfigs
from rmqproto.names import DLQ_PREFIX, RETRY_PREFIX, is_system_group, is_system_topic
from rmqproto.perm import PERM_MAX

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


def user_topics(admin: AdminClient, addr: str, *, with_special: bool = False) -> TopicConfigs:
    """``with_special``: retry topics and dead-letter queues too."""
    found = admin.all_topics(addr)
    of_broker = set(admin.system_topics_of_broker(addr))
    found.topic_config_table = {
        name: config
        for name, config in found.topic_config_table.items()
        if name not in of_broker
        and not is_system_topic(name)
        and (with_special or not name.startswith((RETRY_PREFIX, DLQ_PREFIX)))
        and 0 <= config.perm <= PERM_MAX
    }
    return found


def user_groups(admin: AdminClient, addr: str) -> SubscriptionGroups:
    found = admin.all_groups(addr)
    found.subscription_group_table = {
        name: config for name, config in found.subscription_group_table.items() if not is_system_group(name)
    }
    return found
