"""What a topic is: where its queues begin and end, and everything in one view."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Annotated

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.groups.consumption import answering, read_clients, read_offsets
from rmqadmin.core.groups.lag import UnreadLags
from rmqadmin.core.mqadmin_text import BROKER_NAME_WIDTH, cut
from rmqadmin.core.results import TIME, FoundRows, ResultOf, Row, doc, row_of
from rmqadmin.core.servers.broker_answers import Answers, ask_each
from rmqadmin.core.tables.layout import table_lines
from rmqadmin.core.topic_and_group_configs import read_topic
from rmqadmin.core.topics.stored_queues import StoredQueue, UnreadQueue, read_again, unread_text
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import BrokerData, QueueData, TopicRoute
from rmqproto.bodies.statistics import TopicOffset
from rmqproto.errors import RocketMQError
from rmqproto.wording import counted


class QueueRow(Row, frozen=True):
    broker_name: Annotated[str, doc("broker name", key=True)]
    queue_id: Annotated[int, doc("queue id", key=True)]
    min_offset: Annotated[int, doc("queue offset of the oldest message", minor=True)]
    max_offset: Annotated[int, doc("queue offset that the next message will get", minor=True)]
    message_count: Annotated[int, doc("messages in the queue", vital=True)]
    unread: Annotated[
        bool | None, doc("true: consumers do not read it, the topic has fewer read queues", sparse=True, vital=True)
    ]
    last_updated_ms: Annotated[int | None, TIME, doc("when the newest message was stored; unknown if there is none")]
    topic: Annotated[str | None, doc("topic name, where several are shown", key=True, sparse=True)] = None


class TopicTotals(Row, frozen=True):
    message_count: Annotated[int, doc("messages in all queues")]
    unread_count: Annotated[int | None, doc("messages in queues that consumers do not read", sparse=True)]
    put_tps: Annotated[float, doc("messages stored a second, all brokers together")]


class TopicStatus(ResultOf[QueueRow], frozen=True):
    """Where a topic's queues begin and end, or those of several. ``unread``: those that consumers do not read."""

    offsets: dict[MessageQueue, TopicOffset]
    put_tps: float
    unread: dict[MessageQueue, StoredQueue] = {}

    def rows(self) -> Sequence[QueueRow]:
        is_several = len({queue.topic for queue in self.offsets}) > 1
        return [
            QueueRow(
                topic=queue.topic if is_several else None,
                broker_name=queue.broker_name,
                queue_id=queue.queue_id,
                min_offset=ends.min_offset,
                max_offset=ends.max_offset,
                message_count=ends.max_offset - ends.min_offset,
                unread=queue in self.unread or None,
                last_updated_ms=ends.last_update_timestamp or None,
            )
            for queue, ends in sorted(self.offsets.items())
        ]

    def summary(self) -> TopicTotals:
        return TopicTotals(
            message_count=sum(row.message_count for row in self.rows()),
            unread_count=sum(one.message_count for one in self._unread()) or None,
            put_tps=self.put_tps,
        )

    def _unread(self) -> list[UnreadQueue]:
        return [
            UnreadQueue(queue, one.broker_addr, ends.min_offset, ends.max_offset)
            for queue, one in self.unread.items()
            if (ends := self.offsets[queue]).max_offset > ends.min_offset
        ]

    def remark(self) -> str | None:
        unread = self._unread()
        if not unread:
            return None
        by_topic = groupby(sorted(unread, key=lambda one: one.queue), lambda one: one.queue.topic)
        again = "; ".join(read_again(topic, list(of_topic)) for topic, of_topic in by_topic)
        return f"{unread_text(unread)}; to let them be read: {again}"

    def mqadmin_text(self) -> str:
        from rmqproto.times import mqadmin_time

        text = f"{'#Broker Name':32}  {'#QID':4}  {'#Min Offset':20}  {'#Max Offset':20}    #Last Updated\n"
        for row in self.rows():
            moment = mqadmin_time(row.last_updated_ms, milliseconds=True) if row.last_updated_ms else ""
            name = cut(row.broker_name, BROKER_NAME_WIDTH)
            text += f"{name:32}  {row.queue_id:<4}  {row.min_offset:<20}  {row.max_offset:<20}    {moment}\n"
        return text + "\nTopic Put TPS: 0.0\n"  # mqadmin never adds up the brokers' rates


def joined_status(found: Sequence[TopicStatus]) -> TopicStatus:
    """Several topics in one."""
    return TopicStatus(
        {queue: ends for one in found for queue, ends in one.offsets.items()},
        round(sum(one.put_tps for one in found), 2),
        {queue: stored for one in found for queue, stored in one.unread.items()},
    )


class RouteRow(Row, frozen=True):
    cluster: Annotated[str | None, doc("cluster name", minor=True)]
    broker_name: Annotated[str, doc("broker name", key=True)]
    broker_addrs: Annotated[dict[int, str], doc("addresses by broker id; 0 is the master")]
    read_queue_nums: Annotated[int, doc("queues that consumers read")]
    write_queue_nums: Annotated[int, doc("queues that producers write")]
    perm: Annotated[int, doc("4 read, 2 write, 1 inherit, added up", vital=True)]
    topic: Annotated[str | None, doc("topic name, where several are shown", key=True, sparse=True)] = None


def route_rows(route: TopicRoute, topic: str | None = None) -> list[RouteRow]:
    """What the name server tells clients, one row a broker. ``topic``: its name, if several are shown."""
    brokers = {broker.broker_name: broker for broker in route.broker_datas}
    return [
        row_of(
            RouteRow,
            queues,
            topic=topic,
            cluster=broker.cluster if (broker := brokers.get(queues.broker_name)) else None,
            broker_addrs=broker.broker_addrs if broker else {},
        )
        for queues in sorted(route.queue_datas, key=lambda queues: queues.broker_name)
    ]


class TopicBrokerRow(Row, frozen=True):
    broker_name: Annotated[str, doc("broker name", key=True)]
    broker_addr: Annotated[str | None, doc("its address; the master's if there is one")]
    read_queue_nums: Annotated[int, doc("queues that consumers read")]
    write_queue_nums: Annotated[int, doc("queues that producers write")]
    perm: Annotated[int, doc("4 read, 2 write, 1 inherit, added up", vital=True)]
    order: Annotated[bool | None, doc("whether it is an ordered topic; unknown if the broker does not say")]
    attributes: Annotated[dict[str, str] | None, doc("its attributes, such as message.type", vital=True)]


class TopicReaderRow(Row, frozen=True):
    group: Annotated[str, doc("consumer group", key=True)]
    client_count: Annotated[int | None, doc("clients that are online")]
    lag_count: Annotated[int | None, doc("messages of the topic that it has not consumed", vital=True)]
    last_consumed_ms: Annotated[int | None, TIME, doc("when the last consumed message was stored")]
    error: Annotated[str | None, doc("why something is not known", sparse=True)]


class DescribedTopicRow(Row, frozen=True):
    topic: Annotated[str, doc("topic name", key=True)]
    clusters: Annotated[list[str], doc("clusters that it lives in")]
    message_count: Annotated[int, doc("messages in all queues", vital=True)]
    put_tps: Annotated[float, doc("messages stored a second")]
    brokers: Annotated[list[TopicBrokerRow], doc("where it lives and how it is set there")]
    queues: Annotated[list[QueueRow], doc("where its queues begin and end")]
    groups: Annotated[list[TopicReaderRow], doc("who reads it")]
    groups_unknown: Annotated[list[str] | None, doc("brokers that do not say, and why", sparse=True)] = None


class DescribedTopics(FoundRows[DescribedTopicRow], frozen=True):
    """One item a topic, with its brokers, queues and groups."""

    def cards(self, width: int | None, now_ms: int | None) -> Iterator[str]:
        for at, one in enumerate(self.found):
            yield "\n" if at else ""
            said = f"{counted(one.message_count, 'message')}, {one.put_tps:g} stored a second"
            yield f"{one.topic}: {said}, in {', '.join(one.clusters)}\n"
            parts: tuple[Sequence[Row], ...] = (one.brokers, one.queues, one.groups)
            for rows in parts:
                yield "\n"
                yield from table_lines(rows, width, now_ms)
            if one.groups_unknown:
                yield f"which groups read it is not known of {'; '.join(one.groups_unknown)}\n"
            elif not one.groups:
                yield "no group reads it\n"


def describe_topic(admin: AdminClient, topic: str, route: TopicRoute, status: TopicStatus) -> DescribedTopicRow:
    """The view of one topic. A group or broker that does not answer has an error, or unknown values."""
    brokers = {broker.broker_name: broker for broker in route.broker_datas}
    groups, unknown = groups_of(admin, topic, targets.selected_addrs(route.broker_datas))
    return DescribedTopicRow(
        topic=topic,
        clusters=sorted({broker.cluster or "" for broker in brokers.values()}),
        message_count=status.summary().message_count,
        put_tps=status.put_tps,
        brokers=topic_broker_rows(admin, topic, route),
        queues=list(status.rows()),
        groups=ask_each(lambda group: _reader(admin, topic, group, route.broker_datas), groups),
        groups_unknown=unknown or None,
    )


def topic_broker_rows(admin: AdminClient, topic: str, route: TopicRoute) -> list[TopicBrokerRow]:
    """How a topic is set on each broker of its route."""
    brokers = {broker.broker_name: broker for broker in route.broker_datas}
    return ask_each(
        lambda queues: _broker_row(admin, topic, queues, brokers.get(queues.broker_name)),
        sorted(route.queue_datas, key=lambda queues: queues.broker_name),
    )


def _broker_row(admin: AdminClient, topic: str, queues: QueueData, broker: BrokerData | None) -> TopicBrokerRow:
    addr = None if broker is None else broker.selected_addr()
    config = None if addr is None else targets.or_none(lambda: read_topic(admin, addr, topic))
    return row_of(
        TopicBrokerRow,
        queues,
        broker_addr=addr,
        order=None if config is None else config.order,
        attributes=None if config is None else config.attributes,
    )


def groups_of(admin: AdminClient, topic: str, addrs: Sequence[str]) -> tuple[list[str], list[str]]:
    """The groups that read the topic, and the brokers that do not say, with their reasons."""
    answers = Answers()  # has the errors
    found = targets.or_none(lambda: answers.of(lambda addr: admin.groups_of_topic(addr, topic), addrs)) or {}
    names = sorted({group for groups in found.values() for group in groups})
    return names, [f"{addr}: {error}" for addr, error in answers.errors.items()]


def _reader(admin: AdminClient, topic: str, group: str, brokers: Sequence[BrokerData]) -> TopicReaderRow:
    answers = Answers()
    try:
        offsets = read_offsets(admin, brokers, group, topic, answers)
        offsets.offsets.update(
            {one.queue: one.entry for one in UnreadLags(admin).read(group, answering(brokers, answers), topic)}
        )
        clients = read_clients(admin, brokers, group, answers)
    except RocketMQError as error:
        return TopicReaderRow(group=group, client_count=None, lag_count=None, last_consumed_ms=None, error=str(error))
    return TopicReaderRow(
        group=group,
        client_count=clients.count,
        lag_count=offsets.lag_count,
        last_consumed_ms=max((entry.last_timestamp for entry in offsets.offsets.values()), default=0) or None,
        error=answers.problem(),
    )
