"""Groups: a list, everything about one, how far they have consumed, how they are configured."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Annotated, Any, ClassVar

import msgspec
import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import GroupName, ShowAll, TrueFalse
from rmqadmin.cli.options.topic_options import GroupNames, topic_names
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.cli.shared.all_groups import GroupsProgress, all_groups
from rmqadmin.core import targets
from rmqadmin.core.groups.consumption import (
    GroupOffsets,
    answering,
    brokers_of_group,
    read_clients,
    read_logical_offsets,
    read_offsets,
    require_offsets,
)
from rmqadmin.core.groups.described_groups import DescribedGroups, describe_group
from rmqadmin.core.groups.group_config import group_config_fields
from rmqadmin.core.groups.unread_lag import UnreadLags, UnreadQueueLag
from rmqadmin.core.mqadmin_text import BROKER_NAME_WIDTH, TOPIC_WIDTH, cut, java_text
from rmqadmin.core.results import TIME, Result, Row, doc
from rmqadmin.core.servers.server_configs import property_lines
from rmqadmin.core.topics.stored_queues import UnreadQueue, read_again, unread_text
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import BrokerData
from rmqproto.bodies.statistics import ConsumeOffset, lag_of
from rmqproto.errors import NotFoundError, RocketMQError
from rmqproto.queue_mapping import MappingError


def group_ls(
    call: Call,
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="Only groups with this in their names.")] = None,
    show_all: ShowAll = False,
) -> GroupsProgress:
    """Groups that nobody reads with are there, too, with what they have not consumed.

    Examples:
      rmqadmin group ls
      rmqadmin group ls Order --output name
    """
    return GroupsProgress(all_groups(call, show_all=show_all, text="" if text is None else text.strip()))


def group_describe(call: Call, groups: GroupNames) -> DescribedGroups:
    """Everything about a group in one view. `group lag` shows its queues one by one, and what hinders it.

    Examples:
      rmqadmin group describe OrderGroup
      rmqadmin group describe OrderGroup --output json
    """
    return DescribedGroups([describe_group(call.admin, group, call.answers) for group in topic_names(groups)])


class ProgressRow(Row, frozen=True):
    topic: Annotated[str, doc("topic name", key=True)]
    broker_name: Annotated[str, doc("broker name", key=True)]
    queue_id: Annotated[int, doc("queue id", key=True)]
    broker_offset: Annotated[int, doc("queue offset that the next message will get", minor=True)]
    consumer_offset: Annotated[int, doc("queue offset that the group has committed", minor=True)]
    lag_count: Annotated[int, doc("messages between the two", vital=True)]
    unread: Annotated[
        bool | None, doc("true: consumers do not read it, the topic has fewer read queues", sparse=True, vital=True)
    ]
    inflight_count: Annotated[int, doc("messages pulled and not committed", minor=True)]
    client_id: Annotated[str | None, doc("client that owns the queue; with -s true", sparse=True)]
    last_consumed_ms: Annotated[int | None, TIME, doc("when the last consumed message was stored")]


class ProgressTotals(Row, frozen=True):
    consume_tps: Annotated[float, doc("messages consumed a second")]
    lag_count: Annotated[int | None, doc("lag of all queues, retry topics included")]
    unread_count: Annotated[int | None, doc("what of it is in queues that consumers do not read", sparse=True)]
    inflight_count: Annotated[int, doc("messages pulled and not committed")]


class GroupProgress(Result, frozen=True):
    """With -g: one row a queue."""

    row_type: ClassVar[type[Row]] = ProgressRow
    found: GroupOffsets
    owners: dict[MessageQueue, str]
    shows_clients: bool
    unread: Sequence[UnreadQueueLag] = ()
    """Queues of ``found`` that consumers do not read."""

    def rows(self) -> Sequence[ProgressRow]:
        unread = {one.queue for one in self.unread}
        return [
            ProgressRow(
                topic=queue.topic,
                broker_name=queue.broker_name,
                queue_id=queue.queue_id,
                broker_offset=entry.broker_offset,
                consumer_offset=entry.consumer_offset,
                lag_count=lag_of(entry),
                unread=queue in unread or None,
                inflight_count=entry.pull_offset - entry.consumer_offset,
                client_id=self.owners.get(queue),
                last_consumed_ms=entry.last_timestamp or None,
            )
            for queue, entry in self.found.offsets.items()
        ]

    def summary(self) -> ProgressTotals:
        return ProgressTotals(
            consume_tps=round(self.found.consume_tps, 2),
            lag_count=self.found.lag_count,
            unread_count=sum(lag_of(one.entry) for one in self.unread) or None,
            inflight_count=self.found.inflight_count,
        )

    def remark(self) -> str | None:
        if not self.unread:
            return None
        queues = [
            UnreadQueue(one.queue, one.broker_addr, one.entry.consumer_offset, one.entry.broker_offset)
            for one in self.unread
        ]
        by_topic = groupby(queues, lambda one: one.queue.topic)
        again = "; ".join(read_again(topic, list(of_topic)) for topic, of_topic in by_topic)
        return f"{unread_text(queues)}; to let them be read: {again}"

    def mqadmin_text(self) -> str:
        client_head = f"{'#Client IP':20} " if self.shows_clients else ""
        text = (
            f"{'#Topic':64}  {'#Broker Name':32}  {'#QID':4}  {'#Broker Offset':20}  {'#Consumer Offset':20}  "
            f"{client_head}{'#Diff':20} {'#Inflight':20}#LastTime\n"
        )
        text += "".join(self._mqadmin_line(queue, entry) for queue, entry in self.found.offsets.items())
        return text + (
            f"\nConsume TPS: {self.found.consume_tps:.2f}\nConsume Diff Total: {self.found.diff_count}\n"
            f"Consume Inflight Total: {self.found.inflight_count}\n"
        )

    def _mqadmin_line(self, queue: MessageQueue, entry: ConsumeOffset) -> str:
        from rmqproto.times import mqadmin_time

        diff_count = entry.broker_offset - entry.consumer_offset
        inflight_count = entry.pull_offset - entry.consumer_offset
        client = f"{self.owners.get(queue, 'N/A').partition('@')[0]:20} " if self.shows_clients else ""
        last = mqadmin_time(entry.last_timestamp, milliseconds=False) if entry.last_timestamp else "N/A"
        return (
            f"{cut(queue.topic, TOPIC_WIDTH):64}  {cut(queue.broker_name, BROKER_NAME_WIDTH):32}  {queue.queue_id:<4}  "
            f"{entry.broker_offset:<20}  {entry.consumer_offset:<20}  {client}"
            f"{diff_count:<20} {inflight_count:<20} {last}\n"
        )


def consumer_progress(
    call: Call,
    group_name: Annotated[
        str | None, Value.GROUP, typer.Option("-g", "--groupName", metavar="GROUP", help="One group, queue by queue.")
    ] = None,
    topic_name: Annotated[
        str | None, Value.TOPIC, typer.Option("-t", "--topicName", metavar="TOPIC", help="With -g: this topic only.")
    ] = None,
    show_client_ip: Annotated[
        TrueFalse | None,
        typer.Option("-s", "--showClientIP", case_sensitive=False, help="With -g: show each queue's owner."),
    ] = None,
    cluster: Annotated[
        str | None,
        Value.TOPIC,
        typer.Option("-c", "--cluster", metavar="TOPIC", help="With -t: look up this topic's route (LMQ parent)."),
    ] = None,
    show_all: ShowAll = False,
) -> GroupsProgress | GroupProgress:
    """Lag counts messages on brokers that the group has not committed. For a static topic, -g shows the logical queues.

    Examples:
      rmqadmin consumerProgress
      rmqadmin consumerProgress -g OrderGroup --watch
      rmqadmin consumerProgress -g OrderGroup --watch 5 --until 'lag_count == 0'
    """
    if group_name is None:
        return GroupsProgress(all_groups(call, show_all=show_all))
    admin, group = call.admin, group_name.strip()
    topic = topic_name.strip() if topic_name else None
    if topic and cluster:
        brokers = admin.topic_route(cluster.strip()).broker_datas
    else:
        brokers = brokers_of_group(admin, group, topic)
    found = _queue_by_queue(call, brokers, group, topic)
    require_offsets(admin, brokers, group, found, call.answers)
    lags = UnreadLags(admin)
    unread = [] if call.as_mqadmin else lags.read(group, answering(brokers, call.answers), topic)
    if lags.problem is not None:
        call.notice(lags.problem)
    found.offsets.update({one.queue: one.entry for one in unread})
    shows_clients = show_client_ip is TrueFalse.TRUE
    return GroupProgress(found, _owners(call, brokers, group) if shows_clients else {}, shows_clients, unread)


def _queue_by_queue(call: Call, brokers: Sequence[BrokerData], group: str, topic: str | None) -> GroupOffsets:
    try:
        return read_logical_offsets(call.admin, brokers, group, topic, call.answers)
    except MappingError as error:
        call.notice(f"no logical queues are shown: {error}")
        return read_offsets(call.admin, brokers, group, topic, call.answers)


def _owners(call: Call, brokers: Sequence[BrokerData], group: str) -> dict[MessageQueue, str]:
    """The owner of each queue, according to the clients (307). A silent client's queues are unknown."""
    clients = read_clients(call.admin, brokers, group, call.answers)
    addr_of = {broker.broker_name: broker.selected_addr() for broker in brokers}

    def ask(client_id: str) -> list[tuple[MessageQueue, str]]:
        addr = addr_of[clients.broker_names[client_id][0]]
        if addr is None:
            return []
        try:
            info = call.admin.consumer_running_info(addr, group, client_id)
        except RocketMQError as error:
            call.notice(f"{client_id} does not say which queues it owns: {error}")
            return []
        return [(queue, client_id) for queue in info.mq_table]

    return dict(pair for pairs in targets.ask_each(ask, list(clients.connections)) for pair in pairs)


_KEY_WIDTH = 40


class GroupConfigRow(Row, frozen=True):
    cluster: Annotated[str | None, doc("cluster name", wide=True)]
    broker_name: Annotated[str, doc("broker name", key=True)]
    consume_enable: Annotated[bool, doc("whether it may consume")]
    consume_from_min_enable: Annotated[bool, doc("whether it may begin at the first message")]
    consume_broadcast_enable: Annotated[bool, doc("whether it may broadcast")]
    consume_message_orderly: Annotated[bool, doc("whether POP delivers in order")]
    retry_queue_nums: Annotated[int, doc("queues of its retry topic", minor=True)]
    retry_max_times: Annotated[int, doc("deliveries before the dead-letter queue")]
    retry_policy: Annotated[dict[str, Any], doc("how long to wait between deliveries", wide=True)]
    broker_id: Annotated[int, doc("broker id to consume from", wide=True)]
    slow_broker_id: Annotated[int, doc("broker id to consume from when far behind", wide=True)]
    notify_consumer_ids_changed_enable: Annotated[
        bool, doc("whether clients are told when others come or go", wide=True)
    ]
    group_sys_flag: Annotated[int, doc("bits: unit", wide=True)]
    consume_timeout_minute: Annotated[int, doc("minutes that one message may take", wide=True)]
    subscriptions: Annotated[list[Any] | None, doc("topics that it is bound to", wide=True)]
    attributes: Annotated[dict[str, str], doc("attributes", wide=True)]


class GroupConfigs(Result, frozen=True):
    """A group's configuration, one row a broker that knows it."""

    row_type: ClassVar[type[Row]] = GroupConfigRow
    found: list[tuple[BrokerData, SubscriptionGroupConfig]]

    def rows(self) -> Sequence[GroupConfigRow]:
        return [
            GroupConfigRow(
                cluster=broker.cluster,
                broker_name=broker.broker_name,
                consume_enable=config.consume_enable,
                consume_from_min_enable=config.consume_from_min_enable,
                consume_broadcast_enable=config.consume_broadcast_enable,
                consume_message_orderly=config.consume_message_orderly,
                retry_queue_nums=config.retry_queue_nums,
                retry_max_times=config.retry_max_times,
                retry_policy=msgspec.to_builtins(config.group_retry_policy),
                broker_id=config.broker_id,
                slow_broker_id=config.which_broker_when_consume_slowly,
                notify_consumer_ids_changed_enable=config.notify_consumer_ids_changed_enable,
                group_sys_flag=config.group_sys_flag,
                consume_timeout_minute=config.consume_timeout_minute,
                subscriptions=config.subscription_data_set,
                attributes=config.attributes,
            )
            for broker, config in self.found
        ]

    def mqadmin_text(self) -> str:
        text = ""
        for broker, config in self.found:
            fields = {
                name: "" if value is None else java_text(value) for name, value in group_config_fields(config).items()
            }
            line = "=" * 29
            text += f"{line}{java_text(broker.cluster)}:{broker.broker_name}{line}\n"
            text += property_lines(fields, list(fields), _KEY_WIDTH)
        return text


def get_consumer_config(
    call: Call,
    group_name: GroupName,
) -> GroupConfigs:
    """Asks every broker that the name server knows.

    Examples:
      rmqadmin getConsumerConfig -g OrderGroup
      rmqadmin -o json getConsumerConfig -g OrderGroup
    """
    group = group_name.strip()
    brokers = targets.by_selected_addr(targets.all_brokers(call.admin.cluster_info()))

    def ask(addr: str) -> SubscriptionGroupConfig | None:
        return call.admin.all_groups(addr).subscription_group_table.get(group)

    answers = call.answers.of(ask, brokers).items()
    found = [(brokers[addr], config) for addr, config in answers if config is not None]
    if not found:
        raise NotFoundError(f"no broker has a group {group}", hint="`rmqadmin consumerProgress` lists the groups.")
    return GroupConfigs(found)
