"""Reads what the pulse of a cluster needs: name servers, brokers' own numbers, the lag of all groups in one request per
broker, the lag time of those furthest behind, dead letters and members."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.groups.consumption import GroupOffsets
from rmqadmin.core.groups.lag import oldest_waiting
from rmqadmin.core.health.facts import BrokerFacts, NamesrvFacts, read_routes
from rmqadmin.core.servers.broker_answers import ask_each
from rmqadmin.core.servers.broker_state import Replica, ask_replica
from rmqadmin.tui.memory.cluster import ClusterMemory, SeenBroker
from rmqadmin.tui.memory.readings import (
    GroupLag,
    GroupLags,
    GroupState,
    RowReading,
    WorstGroup,
)
from rmqadmin.tui.sources import groups
from rmqadmin.tui.sources.found import ask_brokers, read_askable, read_cluster
from rmqadmin.tui.sources.groups import addrs_of
from rmqadmin.tui.sources.topics import read_topic_row
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import ClusterInfo
from rmqproto.bodies.statistics import ConsumeOffset, ConsumeStatsList, lag_of
from rmqproto.codes import RequestCode
from rmqproto.errors import RocketMQError
from rmqproto.names import is_system_group

WORST_LOOKED_AT = 16
"""For how many groups each round reads the first waiting messages: those that may have the longest lag time."""


def read_brokers(
    admin: AdminClient, memory: ClusterMemory
) -> tuple[Mapping[str, SeenBroker], Mapping[str, BrokerFacts]]:
    """Reads every broker process, present or gone. Those that are not gone are asked (28)."""
    seen = read_cluster(admin, memory).seen
    here = {key: one.replica for key, one in seen.items() if one.gone_since_ms is None}

    def ask(replica: Replica) -> BrokerFacts:
        asked_ms, asked = memory.now_ms(), ask_replica(admin, replica)
        config = memory.settings.of(admin, replica.broker_addr) if asked.failure is None else {}
        return BrokerFacts(replica=asked, asked_ms=asked_ms, answered_ms=memory.now_ms(), config=config)

    return seen, dict(zip(here, ask_each(ask, list(here.values())), strict=True))


def read_name_servers(admin: AdminClient, memory: ClusterMemory) -> list[NamesrvFacts]:
    """Asks each name server for its brokers (106), and for the route of the topic that each broker has under its own
    name (105)."""
    names = sorted({broker.broker_name for broker in memory.brokers})

    def read(addr: str) -> NamesrvFacts:
        try:
            cluster = admin.read(addr, RequestCode.GET_BROKER_CLUSTER_INFO, None, ClusterInfo)
        except RocketMQError as error:
            return NamesrvFacts(addr=addr, error=str(error))
        found = read_routes(admin, NamesrvFacts(addr=addr, cluster=cluster), names)
        return found if found.routes_error is None else NamesrvFacts(addr=addr, error=found.routes_error)

    return ask_each(read, admin.namesrv_addrs)


def read_lags(admin: AdminClient, memory: ClusterMemory) -> GroupLags:
    """Reads every group on every broker, with one request per broker (317). RocketMQ's own groups are left out."""
    cluster = read_askable(admin, memory)
    answers, lacks = ask_brokers(
        memory, cluster.brokers, lambda broker: admin.broker_consume_stats(broker.selected_addr() or "")
    )
    lacks |= {name: memory.gone_text(name) or "gone" for name in cluster.gone}
    offsets: dict[str, dict[MessageQueue, ConsumeOffset]] = {}
    names: dict[str, list[str]] = {}
    for broker, answer in answers:
        tables = dict(_tables(answer))
        groups.keep_consumers(memory, broker.broker_name, [group for group, table in tables.items() if table])
        for group, table in tables.items():
            names.setdefault(group, []).append(broker.broker_name)
            offsets.setdefault(group, {}).update(table)
    found = {
        group: _lag(table, names[group], groups.may_lack(memory, group, lacks))
        for group, table in sorted(offsets.items())
    }
    return GroupLags(found, lacks, groups.may_lack(memory, None, lacks))


def _tables(answer: ConsumeStatsList) -> Iterable[tuple[str, dict[MessageQueue, ConsumeOffset]]]:
    for by_group in answer.consume_stats_list:
        for group, stats in by_group.items():
            if not is_system_group(group):
                yield group, {queue: entry for one in stats for queue, entry in one.offset_table.items()}


def _lag(table: Mapping[MessageQueue, ConsumeOffset], broker_names: list[str], lacking: tuple[str, ...]) -> GroupLag:
    behind = {queue: entry for queue, entry in table.items() if lag_of(entry)}
    return GroupLag(
        lag_count=sum(map(lag_of, behind.values())),
        consumed=sum(entry.consumer_offset for entry in table.values()),
        bound_ms=min((entry.last_timestamp for entry in behind.values()), default=None),
        behind=behind,
        broker_names=tuple(broker_names),
        lacking=lacking,
    )


def read_worst(admin: AdminClient, memory: ClusterMemory, lags: Mapping[str, GroupLag]) -> list[WorstGroup]:
    """Reads the groups that may have the longest lag time, the longest first. No message of a group has waited since
    before its ``bound_ms``, so only groups with the oldest bounds are read."""
    addrs = addrs_of(memory.brokers)
    waiting = sorted((lag.bound_ms, group) for group, lag in lags.items() if lag.bound_ms is not None)
    found = []
    for _, group in waiting[:WORST_LOOKED_AT]:
        oldest = oldest_waiting(admin, addrs, GroupOffsets(lags[group].behind, 0.0), memory.heads)
        if oldest is None:
            found.append(WorstGroup(group, lags[group].lag_count, None))
            continue
        queue, stored_ms = oldest
        addr = addrs[queue.broker_name]
        reserved_ms = memory.settings.reserved_ms(admin, addr)
        found.append(WorstGroup(group, lags[group].lag_count, stored_ms, reserved_ms, queue, addr))
    found.sort(key=lambda one: (one.oldest_waiting_ms is None, one.oldest_waiting_ms or 0, -one.lag_count))
    return found


def read_topic_rows(admin: AdminClient, memory: ClusterMemory, topics: Collection[str]) -> dict[str, RowReading]:
    """Reads the incoming rates of topics; unknown for a topic that cannot be asked."""

    def read(topic: str) -> RowReading:
        try:
            return read_topic_row(admin, memory, topic)
        except RocketMQError:
            return RowReading({"in_tps": None})

    return {topic: read(topic) for topic in topics}


def read_topic_names(admin: AdminClient, memory: ClusterMemory) -> tuple[list[str], list[str]]:
    """The topics and the broker names that the nameserver knows."""
    cluster = read_askable(admin, memory)
    return sorted(admin.topic_list()), [broker.broker_name for broker in cluster.brokers]


def read_members(admin: AdminClient, memory: ClusterMemory, group: str, lag: GroupLag) -> GroupState:
    """Asks every online member of a group: see ``queue_owners``. Brokers of ``lag`` that are silent may know more
    members."""
    state = groups.read_state(admin, memory, groups.facts_of(memory, group, lag.broker_names))
    return msgspec.structs.replace(state, lacks={**dict.fromkeys(lag.lacking, "does not answer"), **state.lacks})
