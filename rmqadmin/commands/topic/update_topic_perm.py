"""``updateTopicPerm``: changes a topic's permission on its brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import PERM_METAVAR, BrokerAddr, ClusterName, Topic
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.cli.shared.changing import change
from rmqadmin.core import targets
from rmqadmin.core.changes import Changes, Step, plan_each
from rmqadmin.core.topics.perms import parse_perm
from rmqadmin.core.topics.topic_config import plan_perm, topic_config_text
from rmqproto.bodies.routes import TopicConfig
from rmqproto.errors import NotFoundError


def update_topic_perm(
    call: Call,
    topic: Topic,
    perm: Annotated[
        str,
        Value.CHOICE,
        typer.Option("-p", "--perm", metavar=PERM_METAVAR, help="R or 4: read, W or 2: write, RW or 6: both."),
    ],
    broker_addr: BrokerAddr = None,
    cluster_name: ClusterName = None,
) -> Changes:
    """Each broker keeps its own queue counts, order and attributes; mqadmin takes them from the first broker.

    Examples:
      rmqadmin updateTopicPerm -c DefaultCluster -t OrderTopic -p RW
      rmqadmin updateTopicPerm -b 127.0.0.1:10911 -t OrderTopic -p 4 --dry-run
    """
    topic, bits = topic.strip(), parse_perm(perm)
    targets.masters(call.admin, broker_addr, cluster_name)  # errors in -b and -c come first
    route = call.admin.topic_route(topic)
    masters = {broker.master_addr: broker for broker in route.broker_datas if broker.master_addr}
    if broker_addr is not None:
        addrs = [addr for addr in masters if addr == broker_addr.strip()]
    else:
        addrs = [addr for addr, broker in masters.items() if broker.cluster == (cluster_name or "").strip()]
    if not addrs:
        where = f"the broker {broker_addr}" if broker_addr is not None else f"the cluster {cluster_name}"
        raise NotFoundError(f"{where} has no master of the topic {topic}", hint=f"Its masters: {', '.join(masters)}.")
    was: dict[str, TopicConfig] = {}

    def plan(addr: str) -> Step:
        step, was[addr] = plan_perm(call.admin, addr, topic, bits)
        return step

    return change(call, plan_each(addrs, plan), lambda done: _perm_text(done, was, bits, broker_addr))


def _perm_text(done: Sequence[str], was: Mapping[str, TopicConfig], perm: int, broker_addr: str | None) -> str:
    first = next(iter(was.values()))
    if broker_addr is not None and first.perm == perm:
        return "new perm equals to the old one!\n"
    lines = "".join(f"update topic perm from {was[addr].perm} to {perm} in {addr} success.\n" for addr in done)
    if broker_addr is None:
        return lines
    return f"{lines}{topic_config_text(msgspec.structs.replace(first, perm=perm, attributes={}))}.\n"
