"""Plans changes of a group on each broker, and its deletion with its retry topic and dead-letter queue."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.changes import KEEP, Step, plan_each, unless_refused
from rmqadmin.core.topic_and_group_configs import GROUPS, plan_config, plan_deletion, read_topic, within_limit
from rmqadmin.core.topics.topic_changes import messages_in
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.errors import RocketMQError
from rmqproto.names import ORDER_TOPIC_NAMESPACE, dlq_topic, retry_topic
from rmqproto.wording import counted


def new_group(group: str) -> SubscriptionGroupConfig:
    """A group made on purpose, which may not begin at the first message or broadcast, as one of a heartbeat may."""
    return SubscriptionGroupConfig(group_name=group, consume_from_min_enable=False, consume_broadcast_enable=False)


def plan_group(
    admin: AdminClient,
    addr: str,
    group: str,
    said: Mapping[str, Any],
    signed: dict[str, str],
    *,
    replace: bool = False,
) -> tuple[Step, SubscriptionGroupConfig]:
    """The step for one broker, and the configuration requested there. ``said``: values by field name; unset fields stay
    or, with ``replace``, return to their defaults. ``signed``: changes of attributes."""
    before = admin.all_groups(addr).subscription_group_table.get(group)
    base = new_group(group) if replace or before is None else before
    request = msgspec.structs.replace(base, **said, attributes=signed)
    step = plan_config(GROUPS, addr, group, before, request, admin.create_group)
    return within_limit(admin, step, "retryQueueNums", request.retry_queue_nums), request


def delete_group_in_broker(admin: AdminClient, addr: str, group: str, *, clean_offset: bool) -> Step:
    """Plans the deletion on one broker. Undo restores the configuration, but not deleted offsets."""
    before = admin.all_groups(addr).subscription_group_table.get(group)
    act = partial(admin.delete_group, addr, group, clean_offset=clean_offset)
    return plan_deletion(GROUPS, addr, group, before, act)


def delete_topics_of_group(admin: AdminClient, group: str, cluster_name: str) -> list[Step]:
    """Deletes the group's retry topic and dead-letter queue, with their messages."""
    topics = (retry_topic(group), dlq_topic(group))
    return [step for topic in topics for step in _delete_topic(admin, cluster_name, topic)]


def _delete_topic(admin: AdminClient, cluster_name: str, topic: str) -> list[Step]:
    """Deletes a topic everywhere: from masters and slaves, the name servers and their table of orders."""

    def plan(addr: str) -> Step:
        what = KEEP if read_topic(admin, addr, topic) is None else "delete"
        return Step(f"{addr} {topic}", what, [], partial(admin.delete_topic_in_broker, addr, topic))

    def forget(addr: str) -> None:
        admin.delete_topic_in_namesrv(addr, topic, cluster_name)
        admin.delete_kv(addr, ORDER_TOPIC_NAMESPACE, topic)

    found = plan_each(targets.replicas(admin, None, cluster_name), plan)
    steps = [step for step in found if step.action != KEEP]
    if targets.find_route(admin, topic) is None:
        return steps
    at_namesrvs = [Step(f"{addr} {topic}", "delete", [], partial(forget, addr)) for addr in admin.namesrv_addrs]
    return unless_refused(steps, at_namesrvs)


def letters_lost(admin: AdminClient, group: str, cluster_name: str) -> str | None:
    """How many dead letters are lost with a group, as text; None for none."""
    topic = dlq_topic(group)
    route = targets.find_route(admin, topic)
    brokers = [] if route is None else [broker for broker in route.broker_datas if broker.cluster == cluster_name]
    try:
        count = messages_in(admin, topic, targets.selected_addrs(brokers))
    except RocketMQError as error:
        return f"how many dead letters would be lost is unknown: {error}"
    return f"{counted(count, 'dead letter')} would be lost" if count else None
