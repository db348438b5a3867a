"""``setConsumeMode``: sets whether a group pulls a topic's messages or pops them."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, ClusterName, GroupName
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.cli.shared.changing import change
from rmqadmin.core import targets
from rmqadmin.core.changes import Changes, Step, differences, plan_each
from rmqproto.bodies.popping import RequestMode
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


class ConsumeMode(StrEnum):
    PULL = "PULL"
    POP = "POP"


def set_consume_mode(
    call: Call,
    topic_name: Annotated[str, Value.TOPIC, typer.Option("-t", "--topicName", metavar="TOPIC", help="Topic name.")],
    group_name: GroupName,
    mode: Annotated[ConsumeMode, typer.Option("-m", "--mode", help="How the group gets the topic's messages.")],
    pop_share_queue_num: Annotated[
        int,
        typer.Option("-q", "--popShareQueueNum", help="POP: clients that share a client's queues; 0: all share all."),
    ] = 0,
    broker_addr: BrokerAddr = None,
    cluster_name: ClusterName = None,
) -> Changes:
    """Clients whose queues the broker assigns (rebalance by the broker) switch when they next ask it.

    Examples:
      rmqadmin setConsumeMode -c DefaultCluster -t OrderTopic -g OrderGroup -m POP -q 8
      rmqadmin setConsumeMode -b 127.0.0.1:10911 -t OrderTopic -g OrderGroup -m PULL --dry-run
    """
    wanted = RequestMode(
        consumer_group=group_name.strip(), mode=mode, pop_share_queue_num=pop_share_queue_num, topic=topic_name.strip()
    )
    addrs = targets.masters(call.admin, broker_addr, cluster_name)
    tail = f"topic[{wanted.topic}] group[{wanted.consumer_group}] "
    tail += f"consume mode[{mode}] popShareQueueNum[{pop_share_queue_num}]"
    line = "set consume mode to {} success.\n"
    steps = plan_each(addrs, lambda addr: _plan(call.admin, addr, wanted))
    return change(call, steps, lambda done: "".join(map(line.format, done)) + tail)


def _plan(admin: AdminClient, addr: str, wanted: RequestMode) -> Step:
    before = _mode_of(admin, addr, wanted)
    changes = differences(None if before is None else _fields(before), _fields(wanted))
    act = partial(admin.set_request_mode, addr, wanted)
    return Step(addr, "change" if changes else "keep", changes, act, None if before is None else _undo(addr, before))


def _undo(addr: str, before: RequestMode) -> list[list[str]]:
    words = ["-t", before.topic, "-g", before.consumer_group, "-m", before.mode, "-q", str(before.pop_share_queue_num)]
    return [["setConsumeMode", "-b", addr, *words]]


def _mode_of(admin: AdminClient, addr: str, wanted: RequestMode) -> RequestMode | None:
    """The present mode; None if none is set, or if the broker does not say (only Apache's does)."""
    try:
        modes = admin.request_modes(addr).message_request_mode_map
    except RefusedError as error:
        if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise
        return None
    return modes.get(wanted.topic, {}).get(wanted.consumer_group)


def _fields(mode: RequestMode) -> dict[str, object]:
    return {"mode": mode.mode, "pop_share_queue_num": mode.pop_share_queue_num}
