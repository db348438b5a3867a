"""``updateTopic``: creates a topic, or changes its configuration.

Unset fields stay as they are. mqadmin resets them to their defaults, as ``--replace`` does.
"""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import (
    PERM_METAVAR,
    BrokerAddr,
    ClusterName,
    Replace,
    Topic,
    TrueFalse,
    as_bool,
)
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.cli.shared.changing import change
from rmqadmin.cli.shared.topic_shrinking import shrink
from rmqadmin.core import targets
from rmqadmin.core.changes import Changes
from rmqadmin.core.topics.perms import parse_perm
from rmqadmin.core.topics.topic_changes import QUEUE_NUMS_DEFAULT, TopicWish, order_text, plan_everywhere
from rmqadmin.core.topics.topic_config import parse_attributes, topic_config_text
from rmqproto.errors import UsageError


def update_topic(
    call: Call,
    topic: Topic,
    broker_addr: BrokerAddr = None,
    cluster_name: ClusterName = None,
    read_queue_nums: Annotated[
        int | None,
        typer.Option(
            "-r", "--readQueueNums", min=0, help=f"Queues that consumers read. New topics: {QUEUE_NUMS_DEFAULT}."
        ),
    ] = None,
    write_queue_nums: Annotated[
        int | None,
        typer.Option(
            "-w", "--writeQueueNums", min=0, help=f"Queues that producers write. New topics: {QUEUE_NUMS_DEFAULT}."
        ),
    ] = None,
    perm: Annotated[
        str | None,
        Value.CHOICE,
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
    shrink_to: Annotated[
        int | None,
        typer.Option("--shrink-to", min=1, metavar="N", help="Go down to N queues, in steps that lose no message."),
    ] = None,
) -> Changes:
    """Settings that are not given stay as they are. --replace resets them to their defaults, as mqadmin does.

    Messages in queues past the read queues reach no consumer. --shrink-to takes write queues first, and read queues
    once every group has consumed what is in them; until then it says what it waits for, with status 1: repeat it.

    Examples:
      rmqadmin updateTopic -c DefaultCluster -t OrderTopic -r 4 -w 4
      rmqadmin updateTopic -b 127.0.0.1:10911 -t OrderTopic -p R --dry-run
      rmqadmin updateTopic -c DefaultCluster -t OrderTopic --shrink-to 2
      rmqadmin updateTopic -c DefaultCluster -t DelayTopic -a +message.type=DELAY
    """
    if shrink_to is not None:
        given = (read_queue_nums, write_queue_nums, perm, order, unit, has_unit_sub, attributes, replace or None)
        if any(value is not None for value in given):
            raise UsageError("--shrink-to stands alone: it changes only the numbers of queues")
        return shrink(call, targets.masters(call.admin, broker_addr, cluster_name), topic.strip(), shrink_to)
    wish = TopicWish(
        topic=topic.strip(),
        read_queue_nums=read_queue_nums,
        write_queue_nums=write_queue_nums,
        perm=None if perm is None else parse_perm(perm),
        order=as_bool(order),
        unit=as_bool(unit),
        unit_subscribed=as_bool(has_unit_sub),
        attributes=parse_attributes(attributes),
    )
    addrs = targets.masters(call.admin, broker_addr, cluster_name)
    plan = plan_everywhere(call.admin, addrs, wish, replace=replace)

    def text(done: list[str]) -> str:
        created = "".join(f"create topic to {addr} success.\n" for addr in addrs if addr in done)
        ordered = _order_line(plan.order, "broker" if cluster_name is None else "cluster") if plan.order else ""
        lines = created + ordered if cluster_name is not None else ordered + created
        return lines + topic_config_text(plan.config) + "\n"

    return change(call, plan.steps, text)


def _order_line(order: dict[str, int], what: str) -> str:
    return f"set {what} orderConf. isOrder=true, orderConf=[{order_text(order)}]\n"
