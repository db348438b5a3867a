"""``consumerProgress``: shows how far groups have consumed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Annotated, ClassVar

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import ShowAll, TrueFalse
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
from rmqadmin.core.groups.unread_lag import UnreadLags, UnreadQueueLag
from rmqadmin.core.mqadmin_text import BROKER_NAME_WIDTH, TOPIC_WIDTH, cut
from rmqadmin.core.results import TIME, Result, Row, doc
from rmqadmin.core.topics.stored_queues import UnreadQueue, read_again, unread_text
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import BrokerData
from rmqproto.bodies.statistics import ConsumeOffset, lag_of
from rmqproto.errors import RocketMQError
from rmqproto.queue_mapping import MappingError


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
