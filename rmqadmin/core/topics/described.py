"""A topic in one view: where it lives, how it is set, what it holds, and who reads it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

from rmqadmin.core import targets
from rmqadmin.core.groups.consumption import answering, read_clients, read_offsets
from rmqadmin.core.groups.unread_lag import UnreadLags
from rmqadmin.core.results import TIME, FoundRows, Row, doc
from rmqadmin.core.servers.broker_answers import Answers
from rmqadmin.core.tables.layout import table_lines
from rmqadmin.core.topics.topic_config import read_topic
from rmqadmin.core.topics.topic_status import QueueRow, TopicStatus
from rmqproto.bodies.routes import BrokerData, QueueData, TopicRoute
from rmqproto.errors import RocketMQError
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


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
    groups, unknown = _groups(admin, topic, targets.selected_addrs(route.broker_datas))
    return DescribedTopicRow(
        topic=topic,
        clusters=sorted({broker.cluster or "" for broker in brokers.values()}),
        message_count=status.summary().message_count,
        put_tps=status.put_tps,
        brokers=targets.ask_each(
            lambda queues: _broker_row(admin, topic, queues, brokers.get(queues.broker_name)),
            sorted(route.queue_datas, key=lambda queues: queues.broker_name),
        ),
        queues=list(status.rows()),
        groups=targets.ask_each(lambda group: _reader(admin, topic, group, route.broker_datas), groups),
        groups_unknown=unknown or None,
    )


def _broker_row(admin: AdminClient, topic: str, queues: QueueData, broker: BrokerData | None) -> TopicBrokerRow:
    addr = None if broker is None else broker.selected_addr()
    config = None
    if addr is not None:
        try:
            config = read_topic(admin, addr, topic)
        except RocketMQError:
            config = None
    return TopicBrokerRow(
        broker_name=queues.broker_name,
        broker_addr=addr,
        read_queue_nums=queues.read_queue_nums,
        write_queue_nums=queues.write_queue_nums,
        perm=queues.perm,
        order=None if config is None else config.order,
        attributes=None if config is None else config.attributes,
    )


def _groups(admin: AdminClient, topic: str, addrs: Sequence[str]) -> tuple[list[str], list[str]]:
    """The groups that read the topic, and the brokers that do not say, with their reasons."""
    answers = Answers()
    found: dict[str, list[str]] = {}
    with contextlib.suppress(RocketMQError):  # they are in the answers
        found = answers.of(lambda addr: admin.groups_of_topic(addr, topic), addrs)
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
