"""Changing topics: create, change, delete.

``updateTopic`` changes what it is told to and keeps the rest; mqadmin puts everything that is not given back to its
default, as ``--replace`` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from rmqadmin.call import Call
from rmqadmin.core import targets
from rmqadmin.core.changes import Changes, Step, WayBack, action, differences, plan_each
from rmqadmin.core.config_lists import TOPICS, entry_back
from rmqadmin.core.mqadmin_text import hash_order, java_bool
from rmqadmin.core.servers.key_values import read_value
from rmqadmin.core.topics.perms import parse_perm
from rmqadmin.core.topics.topic_config import (
    changed_attributes,
    parse_attributes,
    read_topic,
    topic_config_text,
    topic_fields,
)
from rmqadmin.options.command_options import PERM_METAVAR, BrokerAddr, ClusterName, Replace, Topic, TrueFalse, as_bool
from rmqadmin.shared.changing import change
from rmqproto.bodies.routes import TopicConfig
from rmqproto.errors import NotFoundError
from rmqproto.java_hash import java_hash
from rmqproto.names import ORDER_TOPIC_NAMESPACE
from rmqproto.sys_flag import UNIT, UNIT_SUBSCRIBED

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient

QUEUE_NUMS_DEFAULT = 8


class TopicWish(msgspec.Struct, frozen=True):
    """What the command line says about a topic; None is not said. ``attributes`` are changes: ``+name``, ``-name``."""

    topic: str
    read_queue_nums: int | None
    write_queue_nums: int | None
    perm: int | None
    order: bool | None
    unit: bool | None
    unit_subscribed: bool | None
    attributes: dict[str, str]

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


def update_topic(
    call: Call,
    topic: Topic,
    broker_addr: BrokerAddr = None,
    cluster_name: ClusterName = None,
    read_queue_nums: Annotated[
        int | None, typer.Option("-r", "--readQueueNums", min=0, help=f"New topics: {QUEUE_NUMS_DEFAULT}.")
    ] = None,
    write_queue_nums: Annotated[
        int | None, typer.Option("-w", "--writeQueueNums", min=0, help=f"New topics: {QUEUE_NUMS_DEFAULT}.")
    ] = None,
    perm: Annotated[
        str | None,
        typer.Option("-p", "--perm", metavar=PERM_METAVAR, help="Read, write or both (4, 2, 6). New topics: RW."),
    ] = None,
    order: Annotated[
        TrueFalse | None,
        typer.Option("-o", "--order", case_sensitive=False, help="An ordered topic: its queues keep their order."),
    ] = None,
    unit: Annotated[TrueFalse | None, typer.Option("-u", "--unit", case_sensitive=False, help="A unit topic.")] = None,
    has_unit_sub: Annotated[
        TrueFalse | None, typer.Option("-s", "--hasUnitSub", case_sensitive=False, help="A unit subscribes to it.")
    ] = None,
    attributes: Annotated[
        str | None, typer.Option("-a", "--attributes", help="Changes: +name=value,+name=value,-name.")
    ] = None,
    replace: Replace = False,
) -> Changes:
    """What is not given stays as it is. --replace puts it back to its default, as mqadmin does.

    Examples:
      rmqadmin updateTopic -c DefaultCluster -t OrderTopic -r 4 -w 4
      rmqadmin updateTopic -b 127.0.0.1:10911 -t OrderTopic -p R --dry-run
      rmqadmin updateTopic -c DefaultCluster -t DelayTopic -a +message.type=DELAY
    """
    wish = TopicWish(
        topic.strip(), read_queue_nums, write_queue_nums, None if perm is None else parse_perm(perm),
        as_bool(order), as_bool(unit), as_bool(has_unit_sub), parse_attributes(attributes),
    )  # fmt: skip
    addrs = targets.masters(call.admin, broker_addr, cluster_name)
    requests: list[TopicConfig] = []

    def plan(addr: str) -> Step:
        step, request = _plan(call.admin, addr, wish, replace)
        requests.append(request)
        return step

    def text(done: list[str]) -> str:
        config = requests[0]
        order_line = _set_order(call, config, addrs[0], cluster_name) if config.order else ""
        created = "".join(f"create topic to {addr} success.\n" for addr in done)
        lines = created + order_line if cluster_name is not None else order_line + created
        return lines + topic_config_text(config) + "\n"

    return change(call, plan_each(addrs, plan), text)


def _plan(admin: AdminClient, addr: str, wish: TopicWish, replace: bool) -> tuple[Step, TopicConfig]:
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


def _set_order(call: Call, config: TopicConfig, broker_addr: str, cluster_name: str | None) -> str:
    """Tells the name servers how many queues an ordered topic has on each broker. Returns mqadmin's line about it."""
    admin, queues = call.admin, config.write_queue_nums
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
    what = "broker" if cluster_name is None else "cluster"
    return f"set {what} orderConf. isOrder={java_bool(config.order)}, orderConf=[{shown}]\n"
