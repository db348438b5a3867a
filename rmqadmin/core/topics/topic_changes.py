"""What a topic is to be, over what each broker has: planned for one broker, and told to name servers if it is ordered.

What is not said stays as it is; a new topic gets defaults. With ``replace`` what is not said goes back to its default,
as mqadmin does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.changes import Step, WayBack, action, differences
from rmqadmin.core.config_lists import TOPICS, entry_back
from rmqadmin.core.mqadmin_text import hash_order
from rmqadmin.core.servers.key_values import read_value
from rmqadmin.core.topics.topic_config import changed_attributes, read_topic, topic_fields
from rmqproto.bodies.routes import TopicConfig
from rmqproto.errors import NotFoundError
from rmqproto.java.java_hash import java_hash
from rmqproto.message.sys_flag import UNIT, UNIT_SUBSCRIBED
from rmqproto.names import ORDER_TOPIC_NAMESPACE

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient

QUEUE_NUMS_DEFAULT = 8


class TopicWish(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of a topic; None is not said. ``attributes`` are changes: ``+name``, ``-name``."""

    topic: str
    read_queue_nums: int | None = None
    write_queue_nums: int | None = None
    perm: int | None = None
    order: bool | None = None
    unit: bool | None = None
    unit_subscribed: bool | None = None
    attributes: dict[str, str] = {}

    def over(self, base: TopicConfig) -> TopicConfig:
        """The configuration to ask for; its attributes are the changes, as the request wants them."""
        flags = base.topic_sys_flag
        for wanted, bit in ((self.unit, UNIT), (self.unit_subscribed, UNIT_SUBSCRIBED)):
            if wanted is not None:
                flags = flags | bit if wanted else flags & ~bit
        return TopicConfig(
            topic_name=self.topic,
            read_queue_nums=_or(self.read_queue_nums, base.read_queue_nums),
            write_queue_nums=_or(self.write_queue_nums, base.write_queue_nums),
            perm=_or(self.perm, base.perm),
            order=_or(self.order, base.order),
            topic_filter_type=base.topic_filter_type,
            topic_sys_flag=flags,
            attributes=self.attributes,
        )


def _or(said: Any, otherwise: Any) -> Any:
    return otherwise if said is None else said


def plan_topic(admin: AdminClient, addr: str, wish: TopicWish, *, replace: bool = False) -> tuple[Step, TopicConfig]:
    """What to do on one broker, and the configuration that is asked for there."""
    before = read_topic(admin, addr, wish.topic)
    defaults = TopicConfig(
        topic_name=wish.topic, read_queue_nums=QUEUE_NUMS_DEFAULT, write_queue_nums=QUEUE_NUMS_DEFAULT
    )
    request = wish.over(defaults if replace or before is None else before)
    kept = {} if before is None else before.attributes
    after = msgspec.structs.replace(request, attributes=changed_attributes(kept, wish.attributes))
    changes = differences(None if before is None else topic_fields(before), topic_fields(after))
    back = WayBack(TOPICS.section, {wish.topic: None if before is None else entry_back(TOPICS, before, after)})
    return Step(addr, action(before, changes), changes, lambda: admin.create_topic(addr, request), back), request


def set_order(admin: AdminClient, config: TopicConfig, broker_addr: str, cluster_name: str | None) -> str:
    """Tells the name servers how many queues an ordered topic has on each broker of a cluster, or on one broker beside
    what they know of others. Returns what was said of it: ``broker-a:8``."""
    queues = config.write_queue_nums
    if cluster_name is not None:
        names = hash_order([broker.broker_name for broker in targets.cluster(admin, cluster_name)], java_hash)
        shown = value = ";".join(f"{name}:{queues}" for name in names)
    else:
        owners = [
            b.broker_name for b in targets.all_brokers(admin.cluster_info()) if broker_addr in b.broker_addrs.values()
        ]
        if not owners:
            raise NotFoundError(f"no name server knows a broker at {broker_addr}, so its order cannot be set")
        shown = f"{owners[0]}:{queues}"
        kept = (read_value(admin, ORDER_TOPIC_NAMESPACE, config.topic_name) or "").split(";")
        others = [part for part in kept if part and part.partition(":")[0] != owners[0]]
        value = ";".join([*others, shown])
    for namesrv_addr in admin.namesrv_addrs:
        admin.put_kv(namesrv_addr, ORDER_TOPIC_NAMESPACE, config.topic_name, value)
    return shown
