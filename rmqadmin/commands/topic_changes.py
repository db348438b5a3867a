"""Changing topics: create, change, delete.

``updateTopic`` changes what it is told to and keeps the rest; mqadmin puts everything that is not given back to its
default, which is what ``--replace`` does.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from rmqadmin import targets
from rmqadmin.call import Call
from rmqadmin.changes import Changes, Step, action, carry_out, differences, targets_done
from rmqadmin.mqadmin_text import hash_order, java_bool, java_map, perm_text
from rmqadmin.options import BrokerAddr, ClusterName, Replace, Topic, TrueFalse, as_bool
from rmqadmin.output import Format
from rmqclient.admin import AdminClient
from rmqclient.admin.nameservers import ORDER_TOPIC_NAMESPACE
from rmqproto.bodies import TopicConfig
from rmqproto.codes import ResponseCode
from rmqproto.errors import NotFoundError, RefusedError, UsageError
from rmqproto.java_hash import java_hash

QUEUE_NUMS_DEFAULT = 8
PERM_MAX = 7
_UNIT, _UNIT_SUBSCRIBED = 1, 2

# --- updateTopic -----------------------------------------------------------------------------------------------------


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
        for wanted, bit in ((self.unit, _UNIT), (self.unit_subscribed, _UNIT_SUBSCRIBED)):
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
    perm: Annotated[int | None, typer.Option("-p", "--perm", help="2 write, 4 read, 6 both. New topics: 6.")] = None,
    order: Annotated[
        TrueFalse | None,
        typer.Option("-o", "--order", case_sensitive=False, help="An ordered topic: its queues are kept in order."),
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
    """What is not given stays as it is (mqadmin puts it back to its default: --replace).

    Examples:
      rmqadmin updateTopic -c DefaultCluster -t OrderTopic -r 4 -w 4
      rmqadmin updateTopic -b 127.0.0.1:10911 -t OrderTopic -p 4 --dry-run
      rmqadmin updateTopic -c DefaultCluster -t DelayTopic -a +message.type=DELAY
    """
    if perm is not None and not 0 <= perm <= PERM_MAX:
        raise UsageError(f"topicPermission value: {perm} is invalid.", hint="2 is write, 4 is read, 6 is both.")
    wish = TopicWish(
        topic.strip(), read_queue_nums, write_queue_nums, perm,
        as_bool(order), as_bool(unit), as_bool(has_unit_sub), parse_attributes(attributes),
    )  # fmt: skip
    addrs = targets.masters(call.admin, broker_addr, cluster_name)
    planned = [(addr, *_plan(call.admin, addr, wish, replace)) for addr in addrs]
    rows = carry_out(call, [step for _, step, _ in planned])
    config = planned[0][2]
    order_line = _set_order(call, config, addrs[0], cluster_name) if config.order and not call.dry_run else ""
    created = "".join(f"create topic to {addr} success.\n" for addr in targets_done(rows))
    lines = created + order_line if cluster_name is not None else order_line + created
    return Changes(rows, None if call.dry_run else lines + topic_config_text(config) + "\n")


def _plan(admin: AdminClient, addr: str, wish: TopicWish, replace: bool) -> tuple[Step, TopicConfig]:
    before = read_topic(admin, addr, wish.topic)
    defaults = TopicConfig(
        topic_name=wish.topic, read_queue_nums=QUEUE_NUMS_DEFAULT, write_queue_nums=QUEUE_NUMS_DEFAULT
    )
    request = wish.over(defaults if replace or before is None else before)
    kept = {} if before is None else before.attributes
    after = msgspec.structs.replace(request, attributes=changed_attributes(kept, wish.attributes))
    changes = differences(None if before is None else _fields(before), _fields(after))
    return Step(addr, action(before, changes), changes, lambda: admin.create_topic(addr, request)), request


def _fields(config: TopicConfig) -> dict[str, Any]:
    fields = {
        name: getattr(config, name) for name in config.__struct_fields__ if name not in ("topic_name", "attributes")
    }
    return {**fields, **config.attributes}


def read_topic(admin: AdminClient, broker_addr: str, topic: str) -> TopicConfig | None:
    """A topic as a broker keeps it; None where it does not. Brokers before 5.0 are asked for all they have."""
    try:
        return admin.topic_config(broker_addr, topic)
    except RefusedError as error:
        if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return admin.all_topics(broker_addr).topic_config_table.get(topic)
        if error.code != ResponseCode.TOPIC_NOT_EXIST:
            raise
        return None


def parse_attributes(text: str | None) -> dict[str, str]:
    """``+a=b,-c`` as ``{"+a": "b", "-c": ""}``. UsageError, in Apache's words, where a sign is missing."""
    found: dict[str, str] = {}
    for part in filter(None, (text or "").strip().split(",")):
        name, equals, value = part.partition("=")
        if equals and (not name.startswith("+") or len(name) < 2 or not value):
            raise UsageError(f"add/alter attribute format is wrong: {name}", hint="Write +name=value to set one.")
        if not equals and (not name.startswith("-") or len(name) < 2):
            raise UsageError(f"delete attribute format is wrong: {name}", hint="Write -name to delete one.")
        if name in found:
            raise UsageError(f"key duplication: {name}")
        found[name] = value
    return found


def changed_attributes(before: dict[str, str], changes: dict[str, str]) -> dict[str, str]:
    """What the broker keeps after it has applied the changes."""
    after = dict(before)
    for signed, value in changes.items():
        if signed.startswith("+"):
            after[signed[1:]] = value
        else:
            after.pop(signed[1:], None)
    return after


def _set_order(call: Call, config: TopicConfig, broker_addr: str, cluster_name: str | None) -> str:
    """Tells the name servers on which brokers an ordered topic has how many queues. mqadmin's line about it."""
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
        others = [part for part in _order_parts(admin, config.topic_name) if part.partition(":")[0] != owners[0]]
        value = ";".join([*others, shown])
    for namesrv_addr in admin.namesrv_addrs:
        admin.put_kv(namesrv_addr, ORDER_TOPIC_NAMESPACE, config.topic_name, value)
    what = "broker" if cluster_name is None else "cluster"
    return f"set {what} orderConf. isOrder={java_bool(config.order)}, orderConf=[{shown}]\n"


def _order_parts(admin: AdminClient, topic: str) -> list[str]:
    try:
        return admin.kv_value(ORDER_TOPIC_NAMESPACE, topic).split(";")
    except RefusedError as error:
        if error.code != ResponseCode.QUERY_NOT_FOUND:
            raise
        return []


def topic_config_text(config: TopicConfig) -> str:
    """``TopicConfig.toString``."""
    return (
        f"TopicConfig [topicName={config.topic_name}, readQueueNums={config.read_queue_nums}, "
        f"writeQueueNums={config.write_queue_nums}, perm={perm_text(config.perm)}, "
        f"topicFilterType={config.topic_filter_type}, topicSysFlag={config.topic_sys_flag}, "
        f"order={java_bool(config.order)}, attributes={java_map(config.attributes)}]"
    )


# --- deleteTopic -----------------------------------------------------------------------------------------------------


def delete_topic(
    call: Call,
    topic: Topic,
    cluster_name: Annotated[str, typer.Option("-c", "--clusterName", metavar="CLUSTER", help="Of this cluster.")],
    if_exists: Annotated[bool, typer.Option("--if-exists", help="A topic that is not there is no error.")] = False,
) -> Changes:
    """Its messages and the groups' offsets in it go with it. A topic that is being sent to comes back where brokers
    create topics by themselves.

    Examples:
      rmqadmin deleteTopic -c DefaultCluster -t OldTopic
      rmqadmin deleteTopic -c DefaultCluster -t OldTopic --dry-run
      rmqadmin deleteTopic -c DefaultCluster -t OldTopic --if-exists --yes
    """
    topic, cluster_name = topic.strip(), cluster_name.strip()
    admin = call.admin
    addrs = targets.masters(admin, None, cluster_name)
    before = [read_topic(admin, addr, topic) for addr in addrs]
    has_route = targets.find_route(admin, topic) is not None
    if not has_route and not any(before):
        if not if_exists and call.format is not Format.MQADMIN:
            raise NotFoundError(f"there is no topic {topic} in {cluster_name}", hint="--if-exists makes this no error.")
        return Changes([], _deleted_text(topic, cluster_name))
    if not call.dry_run:
        call.confirm(f"This deletes the topic {topic} from {len(addrs)} brokers of {cluster_name}.", topic)
    rows = carry_out(call, [
        *(_delete_in_broker(admin, addr, topic, config) for addr, config in zip(addrs, before, strict=True)),
        *(_delete_in_namesrv(admin, addr, topic, cluster_name, has_route) for addr in admin.namesrv_addrs),
    ])  # fmt: skip
    return Changes(rows, None if call.dry_run else _deleted_text(topic, cluster_name))


def _delete_in_broker(admin: AdminClient, addr: str, topic: str, before: TopicConfig | None) -> Step:
    changes = differences(None if before is None else _fields(before), None)
    return Step(addr, "delete" if before else "keep", changes, lambda: admin.delete_topic_in_broker(addr, topic))


def _delete_in_namesrv(admin: AdminClient, addr: str, topic: str, cluster_name: str, has_route: bool) -> Step:
    act = "delete" if has_route else "keep"
    return Step(addr, act, [], lambda: admin.delete_topic_in_namesrv(addr, topic, cluster_name))


def _deleted_text(topic: str, cluster_name: str) -> str:
    return (
        f"delete topic [{topic}] from cluster [{cluster_name}] success.\n"
        f"delete topic [{topic}] from NameServer success.\n"
    )
