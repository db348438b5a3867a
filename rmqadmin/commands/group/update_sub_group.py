"""``updateSubGroup``: creates or changes a consumer group. As for topics, unset fields stay as they are; ``--replace``
resets them to their defaults, as mqadmin does."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import LONG, BrokerAddr, ClusterName, GroupName, Replace, TrueFalse, as_bool
from rmqadmin.cli.shared.changing import change
from rmqadmin.core import targets
from rmqadmin.core.changes import Changes, Step, plan_each
from rmqadmin.core.groups.group_changes import plan_group
from rmqadmin.core.groups.group_config import group_config_text
from rmqadmin.core.known_fields import check_nested
from rmqadmin.core.topics.topic_config import parse_attributes
from rmqproto.bodies.groups import GroupRetryPolicy, SubscriptionGroupConfig
from rmqproto.errors import UsageError


def _flag(*names: str, help: str) -> Any:
    return typer.Option(*names, case_sensitive=False, help=help)


def update_sub_group(
    call: Call,
    group_name: GroupName,
    broker_addr: BrokerAddr = None,
    cluster_name: ClusterName = None,
    consume_enable: Annotated[
        TrueFalse | None, _flag("-s", "--consumeEnable", help="Whether it may consume. New: true.")
    ] = None,
    consume_from_min_enable: Annotated[
        TrueFalse | None, _flag("-m", "--consumeFromMinEnable", help="Whether it may begin at the first message.")
    ] = None,
    consume_broadcast_enable: Annotated[
        TrueFalse | None, _flag("-d", "--consumeBroadcastEnable", help="Whether it may broadcast. New: false.")
    ] = None,
    consume_message_orderly: Annotated[
        TrueFalse | None, _flag("-o", "--consumeMessageOrderly", help="Whether POP delivers in order. New: false.")
    ] = None,
    retry_queue_nums: Annotated[
        int | None, typer.Option("-q", "--retryQueueNums", min=0, help="Queues of its retry topic. New: 1.")
    ] = None,
    retry_max_times: Annotated[
        int | None, typer.Option("-r", "--retryMaxTimes", help="Deliveries before the dead-letter queue. New: 16.")
    ] = None,
    group_retry_policy: Annotated[
        str | None,
        typer.Option("-p", "--groupRetryPolicy", metavar="JSON", help='E.g. {"type":"CUSTOMIZED",...}; see mqadmin.'),
    ] = None,
    broker_id: Annotated[
        int | None, LONG, typer.Option("-i", "--brokerId", help="Broker id to consume from. New: 0.")
    ] = None,
    which_broker_when_consume_slowly: Annotated[
        int | None,
        LONG,
        typer.Option("-w", "--whichBrokerWhenConsumeSlowly", help="Broker id to consume from when far behind. New: 1."),
    ] = None,
    notify_consumer_ids_changed: Annotated[
        TrueFalse | None,
        _flag("-a", "--notifyConsumerIdsChanged", help="Tell clients when others come or go. New: true."),
    ] = None,
    attributes: Annotated[
        str | None, typer.Option("--attributes", help="Changes: +name=value,+name=value,-name.")
    ] = None,
    replace: Replace = False,
) -> Changes:
    """Settings that are not given stay as they are. --replace resets them to their defaults, as mqadmin does.

    Examples:
      rmqadmin updateSubGroup -c DefaultCluster -g OrderGroup -r 3
      rmqadmin updateSubGroup -b 127.0.0.1:10911 -g OrderGroup -s false --dry-run
    """
    wish = {
        "consume_enable": as_bool(consume_enable),
        "consume_from_min_enable": as_bool(consume_from_min_enable),
        "consume_broadcast_enable": as_bool(consume_broadcast_enable),
        "consume_message_orderly": as_bool(consume_message_orderly),
        "retry_queue_nums": retry_queue_nums,
        "retry_max_times": retry_max_times,
        "group_retry_policy": _retry_policy(group_retry_policy),
        "broker_id": broker_id,
        "which_broker_when_consume_slowly": which_broker_when_consume_slowly,
        "notify_consumer_ids_changed_enable": as_bool(notify_consumer_ids_changed),
    }
    said = {name: value for name, value in wish.items() if value is not None}
    signed = parse_attributes(attributes)
    addrs = targets.masters(call.admin, broker_addr, cluster_name)
    requests: dict[str, SubscriptionGroupConfig] = {}

    def plan(addr: str) -> Step:
        step, requests[addr] = plan_group(call.admin, addr, group_name.strip(), said, signed, replace=replace)
        return step

    def text(done: list[str]) -> str:
        lines = "".join(f"create subscription group to {addr} success.\n" for addr in done)
        return lines + group_config_text(next(requests[addr] for addr in addrs if addr in requests))

    return change(call, plan_each(addrs, plan), text)


def _retry_policy(text: str | None) -> GroupRetryPolicy | None:
    """The policy to ask for; None to ask for none. As with mqadmin, a blank text is the default policy."""
    if text is None:
        return None
    if not text.strip():
        return GroupRetryPolicy()
    try:
        check_nested("-p", msgspec.json.decode(text), GroupRetryPolicy)
        return msgspec.json.decode(text, type=GroupRetryPolicy)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UsageError(
            f"-p is not a retry policy: {error}",
            hint='For example {"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1000,5000]}}.',
        ) from None
