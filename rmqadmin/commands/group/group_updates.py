"""Groups are created, changed and deleted. Settings that are not given stay as they are; ``--replace`` resets them to
their defaults, as mqadmin does."""

from enum import StrEnum
from functools import partial
from typing import Annotated

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.changing import change, line_each
from rmqadmin.cli.options.command_options import LONG, GroupName, ListFile, Masters, Replace, TrueFalse, as_bool
from rmqadmin.cli.options.common_options import Value, option
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.changes import Changes, Step, all_keep, differences, plan_each, unless_refused
from rmqadmin.core.groups.group_changes import delete_group_in_broker, delete_topics_of_group, letters_lost, plan_group
from rmqadmin.core.names import check_nested
from rmqadmin.core.topic_and_group_configs import (
    GROUPS,
    group_config_text,
    parse_attributes,
    plan_list,
    read_entries,
    read_topic,
)
from rmqproto.bodies.groups import GroupRetryPolicy, SubscriptionGroupConfig
from rmqproto.bodies.popping import RequestMode
from rmqproto.codes import ResponseCode
from rmqproto.errors import NotFoundError, RefusedError, UsageError
from rmqproto.names import RETRY_PREFIX
from rmqproto.wording import counted


def update_sub_group(
    call: Call,
    group_name: GroupName,
    where: Masters,
    consume_enable: Annotated[
        TrueFalse | None, option("-s", "--consumeEnable", "Whether it may consume. New: true.")
    ] = None,
    consume_from_min_enable: Annotated[
        TrueFalse | None, option("-m", "--consumeFromMinEnable", "Whether it may begin at the first message.")
    ] = None,
    consume_broadcast_enable: Annotated[
        TrueFalse | None, option("-d", "--consumeBroadcastEnable", "Whether it may broadcast. New: false.")
    ] = None,
    consume_message_orderly: Annotated[
        TrueFalse | None, option("-o", "--consumeMessageOrderly", "Whether POP delivers in order. New: false.")
    ] = None,
    retry_queue_nums: Annotated[
        int | None, option("-q", "--retryQueueNums", "Queues of its retry topic. New: 1.", min=0)
    ] = None,
    retry_max_times: Annotated[
        int | None, option("-r", "--retryMaxTimes", "Deliveries before the dead-letter queue. New: 16.")
    ] = None,
    group_retry_policy: Annotated[
        str | None, option("-p", "--groupRetryPolicy", 'E.g. {"type":"CUSTOMIZED",...}; see mqadmin.', metavar="JSON")
    ] = None,
    broker_id: Annotated[int | None, LONG, option("-i", "--brokerId", "Broker id to consume from. New: 0.")] = None,
    which_broker_when_consume_slowly: Annotated[
        int | None,
        LONG,
        option("-w", "--whichBrokerWhenConsumeSlowly", "Broker id to consume from when far behind. New: 1."),
    ] = None,
    notify_consumer_ids_changed: Annotated[
        TrueFalse | None, option("-a", "--notifyConsumerIdsChanged", "Tell clients when others come or go. New: true.")
    ] = None,
    attributes: Annotated[str | None, option("--attributes", "Changes: +name=value,+name=value,-name.")] = None,
    replace: Replace = False,
) -> Changes:
    """Settings that are not given stay as they are. --replace resets them to their defaults, as mqadmin does.

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
    addrs = where.addrs(call.admin)
    requests: dict[str, SubscriptionGroupConfig] = {}

    def plan(addr: str) -> Step:
        step, requests[addr] = plan_group(call.admin, addr, group_name, said, signed, replace=replace)
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


def update_sub_group_list(call: Call, filename: ListFile, where: Masters, replace: Replace = False) -> Changes:
    """The file holds a list of objects with groupName and any other field of a group's configuration, by the names that
    getConsumerConfig --output mqadmin shows, or what exportMetadata wrote. Fields that an object leaves out stay as
    they are.

      rmqadmin updateSubGroupList -c DefaultCluster -f groups.json --dry-run
      rmqadmin updateSubGroupList -b 127.0.0.1:10911 -f groups.json
    """
    admin = call.admin
    entries = read_entries(filename.strip(), GROUPS)

    def plan(addr: str) -> Step:
        before = admin.all_groups(addr).subscription_group_table
        return plan_list(GROUPS, entries, addr, before, admin.create_groups, replace=replace)

    what = "group" if where.cluster_name is None else "subscription group"
    line = f"submit batch of {what} config to {{}} success, please check the result later.\n"
    return change(call, plan_each(where.addrs(admin), plan), line_each(line))


class ConsumeMode(StrEnum):
    PULL = "PULL"
    POP = "POP"


def set_consume_mode(
    call: Call,
    topic_name: Annotated[str, Value.TOPIC, option("-t", "--topicName", "Topic name.")],
    group_name: GroupName,
    mode: Annotated[
        ConsumeMode, option("-m", "--mode", "How the group gets the topic's messages.", case_sensitive=True)
    ],
    where: Masters,
    pop_share_queue_num: Annotated[
        int, option("-q", "--popShareQueueNum", "POP: clients that share a client's queues; 0: all share all.")
    ] = 0,
) -> Changes:
    """Clients whose queues the broker assigns (rebalance by the broker) switch when they next ask it.

    rmqadmin setConsumeMode -c DefaultCluster -t OrderTopic -g OrderGroup -m POP -q 8
    rmqadmin setConsumeMode -b 127.0.0.1:10911 -t OrderTopic -g OrderGroup -m PULL --dry-run
    """
    wanted = RequestMode(
        consumer_group=group_name, mode=mode, pop_share_queue_num=pop_share_queue_num, topic=topic_name
    )
    tail = f"topic[{wanted.topic}] group[{wanted.consumer_group}] "
    tail += f"consume mode[{mode}] popShareQueueNum[{pop_share_queue_num}]"
    line = "set consume mode to {} success.\n"

    def plan(addr: str) -> Step:
        before = _mode_of(call.admin, addr, wanted)
        changes = differences(None if before is None else _fields(before), _fields(wanted))
        act, back = partial(call.admin.set_request_mode, addr, wanted), None
        if before is not None:
            now = ["-m", before.mode, "-q", str(before.pop_share_queue_num)]
            back = [["setConsumeMode", "-b", addr, "-t", topic_name, "-g", group_name, *now]]
        foretold = None
        if topic_name.startswith(RETRY_PREFIX):
            remark = "retry topic is not allowed to set mode"
            foretold = RefusedError(ResponseCode.NO_PERMISSION, remark, address=addr)
        elif call.dry_run and read_topic(call.admin, addr, topic_name) is None:
            foretold = RefusedError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic_name}] not exist", address=addr)
        return Step(addr, "change" if changes else "keep", changes, act, back, foretold=foretold)

    return change(call, plan_each(where.addrs(call.admin), plan), lambda done: "".join(map(line.format, done)) + tail)


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


def delete_sub_group(
    call: Call,
    group_name: GroupName,
    where: Masters,
    remove_offset: Annotated[
        TrueFalse | None, option("-r", "--removeOffset", "Also delete its offsets. Default: false.")
    ] = None,
    if_exists: Annotated[bool, option("--if-exists", "Do not fail if the group does not exist.")] = False,
) -> Changes:
    """With -c, also deletes its retry topic and its dead-letter queue, with their messages. If the group is online,
    brokers that create groups by themselves create it again.

      rmqadmin deleteSubGroup -c DefaultCluster -g OldGroup
      rmqadmin deleteSubGroup -c DefaultCluster -g OldGroup -r true --dry-run
      rmqadmin deleteSubGroup -b 127.0.0.1:10911 -g OldGroup --if-exists --yes
    """
    clean_offset = remove_offset is TrueFalse.TRUE
    addrs = where.addrs(call.admin)
    steps = plan_each(
        addrs, lambda addr: delete_group_in_broker(call.admin, addr, group_name, clean_offset=clean_offset)
    )
    if all_keep(steps) and not if_exists and not call.as_mqadmin:
        asked = where.cluster_name or addrs[0]
        raise NotFoundError(f"there is no group {group_name} on {asked}", hint="With --if-exists this is not an error.")
    what, lost, tail = "", None, ""
    if where.cluster_name is not None:
        steps = unless_refused(steps, delete_topics_of_group(call.admin, group_name, where.cluster_name))
        what, tail = ", its retry topic and its dead-letter queue", f" in cluster [{where.cluster_name}]"
        lost = letters_lost(call.admin, group_name, where.cluster_name) if call.dry_run or call.can_ask else None
    if not call.dry_run:
        brokers = f"from {counted(len(addrs), 'broker')}" + (f": {lost}" if lost is not None else "")
        call.confirm(f"This deletes the group {group_name}{what} {brokers}.", group_name)
    elif lost is not None:
        call.notice(lost)
    line = f"delete subscription group [{group_name}] from broker [{{}}]{tail} success.\n"
    return change(call, steps, lambda done: "".join(line.format(addr) for addr in addrs if addr in done))
