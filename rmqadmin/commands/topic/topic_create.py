"""``topic create``: creates topics, and leaves those that exist as they are."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import PERM_METAVAR, BrokerAddr, ClusterName
from rmqadmin.cli.options.topic_options import TopicNames, topic_names
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.cli.shared.changing import undoable
from rmqadmin.core import targets
from rmqadmin.core.changes import Changes, FieldChange, Step
from rmqadmin.core.topics.perms import parse_perm
from rmqadmin.core.topics.topic_changes import QUEUE_NUMS_DEFAULT, TopicWish, plan_everywhere
from rmqadmin.core.topics.topic_config import parse_attributes, read_topic
from rmqproto.errors import UsageError
from rmqproto.topic_message_type import MESSAGE_TYPE, TopicMessageType


def topic_create(
    call: Call,
    topics: TopicNames,
    broker_addr: BrokerAddr = None,
    cluster_name: ClusterName = None,
    queue_nums: Annotated[
        int, typer.Option("--queues", metavar="N", min=1, help="Queues on each broker.")
    ] = QUEUE_NUMS_DEFAULT,
    message_type: Annotated[
        TopicMessageType | None, typer.Option("--type", case_sensitive=False, help="What kind of messages it is for.")
    ] = None,
    perm: Annotated[
        str | None, Value.CHOICE, typer.Option("--perm", metavar=PERM_METAVAR, help="Read, write or both. Default: RW.")
    ] = None,
    attributes: Annotated[str | None, typer.Option("--attributes", help="+name=value,+name=value.")] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Do not fail if a topic exists; it stays as it is.")
    ] = False,
) -> Changes:
    """On every master of the cluster, or on one broker. `updateTopic` changes a topic that exists.

    Examples:
      rmqadmin topic create NewTopic --queues 4 --if-not-exists
      rmqadmin topic create NewTopic OtherTopic --type FIFO --if-not-exists --dry-run
    """
    signed = parse_attributes(attributes)
    if message_type is not None:
        signed[f"+{MESSAGE_TYPE}"] = message_type.value
    bits = None if perm is None else parse_perm(perm)
    addrs = targets.masters(call.admin, broker_addr, cluster_name)
    steps: list[Step] = []
    for name in topic_names(topics):
        there = [addr for addr in addrs if read_topic(call.admin, addr, name) is not None]
        if there and not if_not_exists:
            raise UsageError(
                f"there is a topic {name} already, on {', '.join(there)}: nothing was changed",
                hint="`rmqadmin updateTopic` changes it. With --if-not-exists this is not an error.",
            )
        new = [addr for addr in addrs if addr not in there]
        wish = TopicWish(
            topic=name, read_queue_nums=queue_nums, write_queue_nums=queue_nums, perm=bits, attributes=signed
        )
        planned = plan_everywhere(call.admin, new, wish).steps if new else []
        named = FieldChange("topic", None, name)
        steps += [msgspec.structs.replace(one, changes=[named, *one.changes]) for one in planned]
    return undoable(call, steps)
