"""A consumer group in one view: what it reads and how far, who is online, and how it is set."""

from collections.abc import Iterator, Sequence
from typing import Annotated

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.groups.consumption import (
    GroupClients,
    GroupOffsets,
    answering,
    brokers_of_group,
    nothing_known,
    read_clients,
    read_offsets,
)
from rmqadmin.core.groups.lag import UnreadLags
from rmqadmin.core.results import TIME, FoundRows, Row, doc, row_of
from rmqadmin.core.servers.broker_answers import Answers
from rmqadmin.core.tables.layout import table_lines
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import BrokerData
from rmqproto.bodies.statistics import lag_of
from rmqproto.codes import version_name
from rmqproto.errors import RocketMQError
from rmqproto.wording import counted


class GroupTopicRow(Row, frozen=True):
    topic: Annotated[str, doc("topic name", key=True)]
    expression: Annotated[str | None, doc("tags or SQL92 that online clients subscribe to", vital=True)]
    queue_count: Annotated[int, doc("queues in which it has an offset")]
    lag_count: Annotated[int, doc("messages that it has not consumed", vital=True)]
    last_consumed_ms: Annotated[int | None, TIME, doc("when the last consumed message was stored")]


class GroupClientRow(Row, frozen=True):
    client_id: Annotated[str, doc("client id", key=True)]
    client_addr: Annotated[str, doc("its address")]
    language: Annotated[str | None, doc("its language")]
    version: Annotated[str, doc("its version")]


class GroupBrokerRow(Row, frozen=True):
    broker_name: Annotated[str, doc("broker name", key=True)]
    consume_enable: Annotated[bool, doc("whether it may consume", vital=True)]
    consume_broadcast_enable: Annotated[bool, doc("whether it may broadcast")]
    consume_message_orderly: Annotated[bool, doc("whether POP delivers in order")]
    retry_queue_nums: Annotated[int, doc("queues of its retry topic")]
    retry_max_times: Annotated[int, doc("deliveries before the dead-letter queue")]
    attributes: Annotated[dict[str, str], doc("attributes")]


class DescribedGroupRow(Row, frozen=True):
    group: Annotated[str, doc("consumer group", key=True)]
    consume_type: Annotated[str | None, doc("how its clients consume; unknown if none is online")]
    model: Annotated[str | None, doc("CLUSTERING or BROADCASTING; unknown if none is online")]
    lag_count: Annotated[
        int | None, doc("messages not consumed yet, retry topics included; unknown without an offset", vital=True)
    ]
    consume_tps: Annotated[float, doc("messages consumed a second")]
    topics: Annotated[list[GroupTopicRow], doc("what it reads, and how far")]
    clients: Annotated[list[GroupClientRow], doc("who is online")]
    brokers: Annotated[list[GroupBrokerRow], doc("how it is set on each broker that has a configuration of it")]


class DescribedGroups(FoundRows[DescribedGroupRow], frozen=True):
    """One item a group, with its topics, clients and settings."""

    def cards(self, width: int | None, now_ms: int | None) -> Iterator[str]:
        for at, one in enumerate(self.found):
            yield "\n" if at else ""
            how = f", {one.model.lower()}" if one.model else ""
            lag = "no offset yet" if one.lag_count is None else f"{counted(one.lag_count, 'message')} behind"
            yield f"{one.group}: {lag}, {counted(len(one.clients), 'client')}{how}\n"
            parts: tuple[Sequence[Row], ...] = (one.topics, one.clients, one.brokers)
            for rows in parts:
                if rows:
                    yield "\n"
                yield from table_lines(rows, width, now_ms)


def describe_group(admin: AdminClient, group: str, answers: Answers) -> DescribedGroupRow:
    """The view of one group. NotFoundError if no broker knows anything of it."""
    brokers = brokers_of_group(admin, group)
    offsets = read_offsets(admin, brokers, group, answers=answers)
    offsets.offsets.update({one.queue: one.entry for one in UnreadLags(admin).read(group, answering(brokers, answers))})
    clients = read_clients(admin, brokers, group, answers)
    configs = group_broker_rows(admin, group, answers)
    if not offsets.offsets and not clients.count and not configs:
        raise nothing_known(group, brokers)
    return DescribedGroupRow(
        group=group,
        consume_type=clients.consume_type,
        model=clients.message_model,
        lag_count=offsets.lag_count,
        consume_tps=round(offsets.consume_tps, 2),
        topics=_topics(offsets, clients),
        clients=[
            row_of(GroupClientRow, one, version=version_name(one.version))
            for _, one in sorted(clients.connections.items())
        ],
        brokers=configs,
    )


def _topics(offsets: GroupOffsets, clients: GroupClients) -> list[GroupTopicRow]:
    found = []
    for topic in sorted({*(queue.topic for queue in offsets.offsets), *clients.subscriptions}):
        entries = [entry for queue, entry in offsets.offsets.items() if queue.topic == topic]
        wanted = clients.subscriptions.get(topic)
        found.append(
            GroupTopicRow(
                topic=topic,
                expression=None if wanted is None else wanted.sub_string,
                queue_count=len(entries),
                lag_count=sum(map(lag_of, entries)),
                last_consumed_ms=max((entry.last_timestamp for entry in entries), default=0) or None,
            )
        )
    return found


def group_broker_rows(admin: AdminClient, group: str, answers: Answers) -> list[GroupBrokerRow]:
    """How a group is set on each broker that has a configuration of it; empty if none answers."""
    brokers: dict[str, BrokerData] = targets.by_selected_addr(targets.all_brokers(admin.cluster_info()))

    def ask(addr: str) -> SubscriptionGroupConfig | None:
        return admin.all_groups(addr).subscription_group_table.get(group)

    try:
        found = answers.of(ask, brokers)
    except RocketMQError:
        return []
    return [
        row_of(GroupBrokerRow, config, broker_name=brokers[addr].broker_name)
        for addr, config in found.items()
        if config is not None
    ]
