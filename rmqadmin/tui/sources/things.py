"""What the tabs of a topic, a group and a broker show, as commands print it."""

from __future__ import annotations

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.groups.described_groups import GroupBrokerRow, group_broker_rows
from rmqadmin.core.groups.producers import ProducerRow, producer_rows
from rmqadmin.core.servers.broker_answers import Answers
from rmqadmin.core.servers.broker_state import Replica
from rmqadmin.core.servers.delay_levels import DelayRow, delay_rows, timers_text
from rmqadmin.core.topics.described import RouteRow, TopicBrokerRow, groups_of, route_rows, topic_broker_rows
from rmqadmin.tui.memory.cluster import ClusterMemory
from rmqadmin.tui.sources import groups
from rmqadmin.tui.sources.found import Found, ask_brokers, askable
from rmqadmin.tui.sources.groups import GroupFacts
from rmqproto.names import INNER_PRODUCER_GROUP


def read_routes(admin: AdminClient, _: ClusterMemory, topic: str) -> Found[RouteRow]:
    """As `topicRoute`."""
    return Found({row.broker_name: row for row in route_rows(admin.topic_route(topic))})


def read_topic_settings(admin: AdminClient, _: ClusterMemory, topic: str) -> Found[TopicBrokerRow]:
    """As the brokers of `describeTopic`."""
    return Found({row.broker_name: row for row in topic_broker_rows(admin, topic, admin.topic_route(topic))})


def read_producers(admin: AdminClient, memory: ClusterMemory, topic: str) -> Found[ProducerRow]:
    """As `producer`, of all brokers of a topic. A client that is connected to several has one row."""
    brokers = askable(admin.topic_route(topic).broker_datas)
    answers, lacks = ask_brokers(memory, brokers, lambda broker: admin.all_producers(broker.selected_addr() or ""))
    rows = [row for _, by_group in answers for row in producer_rows(by_group) if row.group != INNER_PRODUCER_GROUP]
    return Found({f"{row.group} {row.client_id}": row for row in rows}, lacks)


def read_groups_of_topic(admin: AdminClient, memory: ClusterMemory, topic: str) -> Found[GroupFacts]:
    """The groups that read a topic, as `topicSubscribers` names them. One without a configuration has no brokers."""
    brokers = askable(admin.topic_route(topic).broker_datas)
    names, unknown = groups_of(admin, topic, targets.selected_addrs(brokers))
    known = groups.read_groups(admin, memory)
    here = {broker.broker_name: broker for broker in brokers}
    rows = {name: known.rows.get(name) or groups.facts_of(memory, name, here) for name in names}
    return Found(rows, known.lacks, unknown)


def read_groups_of_broker(admin: AdminClient, memory: ClusterMemory, broker_name: str) -> Found[GroupFacts]:
    """The groups that a broker has a configuration of."""
    found = groups.read_groups(admin, memory)
    rows = {
        name: facts
        for name, facts in found.rows.items()
        if broker_name in (*facts.lacking, *(broker.broker_name for broker in facts.brokers))
    }
    return Found(rows, found.lacks)


def read_group_settings(admin: AdminClient, _: ClusterMemory, group: str) -> Found[GroupBrokerRow]:
    """As the brokers of `describeGroup`."""
    answers = Answers()
    rows = {row.broker_name: row for row in group_broker_rows(admin, group, answers)}
    return Found(rows, problems=[f"{addr}: {error}" for addr, error in answers.errors.items()])


def read_delays(admin: AdminClient, memory: ClusterMemory, replica: Replica) -> tuple[Found[DelayRow], str]:
    """The delay levels of one broker, and how its timers are."""
    asked = msgspec.structs.replace(replica, info=admin.broker_runtime_info(replica.broker_addr))
    rows = delay_rows(admin, asked, memory.now_ms(), memory.heads)
    return Found({str(row.level): row for row in rows}), timers_text(asked.info)
