"""The facts that a check of a cluster starts from: the answers of every name server and every broker process. Each is
asked at the address that clients would use, all at the same time. A server that does not answer is one of the facts."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.access.enforcement import switches
from rmqadmin.core.servers.broker_state import Replica, ask_replica, displaced_replicas, replicas_of
from rmqadmin.core.servers.meant_brokers import kind_of_server
from rmqadmin.core.system_names import is_made_by_brokers, topics_of_servers
from rmqclient.addresses import parse_addresses
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import BrokerData, ClusterInfo, TopicConfig, TopicList, TopicRoute
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import RefusedError, RocketMQError, UsageError
from rmqproto.ha import MASTER_ID
from rmqproto.headers.nameserver import RouteHeader
from rmqproto.names import DLQ_PREFIX, is_system_group

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


class NamesrvFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One name server. ``cluster`` is None if ``error`` says why. ``config`` includes settings that only rmqserver has;
    it is empty if the server did not return it."""

    addr: str
    cluster: ClusterInfo | None = None
    topics: frozenset[str] = frozenset()
    config: Mapping[str, str] = {}
    error: str | None = None


class BrokerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One broker process. ``replica.error`` says why it could not be asked, ``refusal`` why it did not answer the rest.
    It sent its ``replica.info`` between the two times, by our clock. ``topics`` and ``groups`` are asked only of
    masters; ``user_count`` only of brokers that do not check users and permissions, and None if they keep none."""

    replica: Replica
    asked_ms: int
    answered_ms: int
    config: Mapping[str, str] = {}
    topics: Mapping[str, TopicConfig] | None = None
    groups: Mapping[str, SubscriptionGroupConfig] | None = None
    user_count: int | None = None
    refusal: str | None = None

    @property
    def name(self) -> str:
        """``broker-a/0``."""
        return f"{self.replica.broker_name}/{self.replica.broker_id}"

    @property
    def is_master(self) -> bool:
        return self.replica.broker_id == MASTER_ID

    @property
    def took_ms(self) -> int:
        return self.answered_ms - self.asked_ms


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """All the facts. ``brokers`` has every process that some name server lists, once per address. ``unasked``: name
    servers that only brokers name in their settings, with those brokers."""

    namesrvs: list[NamesrvFacts]
    brokers: list[BrokerFacts]
    unasked: Mapping[str, list[str]] = {}

    @property
    def masters(self) -> list[BrokerFacts]:
        """The masters that answered."""
        return [broker for broker in self.brokers if broker.is_master and broker.replica.error is None]

    @property
    def answering(self) -> list[NamesrvFacts]:
        return [namesrv for namesrv in self.namesrvs if namesrv.cluster is not None]

    def broker_names(self, told: Iterable[str]) -> set[str]:
        """The names of brokers given by name or, as for mqadmin's -b, by address. A text that matches no address is
        returned as it is."""
        by_addr = {one.replica.broker_addr: one.replica.broker_name for one in self.brokers}
        return {by_addr.get(each, each) for each in map(str.strip, told)}

    def own_topics(self, broker: BrokerFacts) -> dict[str, TopicConfig]:
        """A master's topics that users made."""
        made_by_servers = {
            topic for namesrv in self.answering if namesrv.cluster for topic in topics_of_servers(namesrv.cluster)
        }
        return {
            name: config
            for name, config in (broker.topics or {}).items()
            if not is_made_by_brokers(name, made_by_servers) and not name.startswith(DLQ_PREFIX)
        }

    def own_groups(self, broker: BrokerFacts) -> dict[str, SubscriptionGroupConfig]:
        return {name: config for name, config in (broker.groups or {}).items() if not is_system_group(name)}

    def brokers_of_groups(self) -> dict[str, list[BrokerData]]:
        """The groups that users made, and the masters that have them and answered."""
        found: dict[str, list[BrokerData]] = {}
        for master in self.masters:
            replica = master.replica
            data = BrokerData(
                broker_addrs={MASTER_ID: replica.broker_addr}, broker_name=replica.broker_name, cluster=replica.cluster
            )
            for group in self.own_groups(master):
                found.setdefault(group, []).append(data)
        return dict(sorted(found.items()))


def read_facts(admin: AdminClient, cluster: str | None, *, with_tables: bool, with_topics: bool = True) -> ClusterFacts:
    """Reads the facts of one cluster or of all. ``with_tables``: also the topics and groups of masters, or the groups
    alone if not ``with_topics``."""
    namesrvs = targets.ask_each(lambda addr: _namesrv(admin, addr), admin.namesrv_addrs)
    replicas = {
        (one.broker_name, one.broker_id, one.broker_addr): one
        for namesrv in namesrvs
        if namesrv.cluster is not None
        for one in (*replicas_of(namesrv.cluster, cluster), *displaced_replicas(namesrv.cluster, cluster))
    }

    def ask(key: tuple[str, int, str]) -> BrokerFacts:
        return _broker(admin, replicas[key], with_topics=with_tables and with_topics, with_groups=with_tables)

    brokers = targets.ask_each(ask, sorted(replicas))
    return ClusterFacts(namesrvs=namesrvs, brokers=brokers, unasked=_unasked(admin.namesrv_addrs, brokers))


def _unasked(asked: Collection[str], brokers: Sequence[BrokerFacts]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for broker in brokers:
        with contextlib.suppress(UsageError):  # as a broker has it; it may be anything
            for addr in parse_addresses(broker.config.get("namesrvAddr", "")):
                if addr not in asked:
                    found.setdefault(addr, []).append(broker.name)
    return found


def _namesrv(admin: AdminClient, addr: str) -> NamesrvFacts:
    try:
        cluster = admin.read(addr, RequestCode.GET_BROKER_CLUSTER_INFO, None, ClusterInfo)
        topics = admin.read(addr, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, None, TopicList)
    except RocketMQError as error:
        kind = kind_of_server(admin, error) if isinstance(error, RefusedError) else None
        return NamesrvFacts(addr=addr, error=kind or str(error))
    config: dict[str, str] = {}
    with contextlib.suppress(RocketMQError):  # a client without permission for it may still read the rest
        config = admin.namesrv_config(addr, with_own_defaults=True)
    return NamesrvFacts(addr=addr, cluster=cluster, topics=frozenset(topics.topic_list), config=config)


def _broker(admin: AdminClient, replica: Replica, *, with_topics: bool, with_groups: bool) -> BrokerFacts:
    asked_ms = _now_ms()
    asked = ask_replica(admin, replica)
    found = BrokerFacts(replica=asked, asked_ms=asked_ms, answered_ms=_now_ms())
    if isinstance(asked.failure, RefusedError):  # it answered, so it can be reached
        found = msgspec.structs.replace(found, replica=replica, refusal=asked.error)
    elif asked.failure is not None:
        return found
    addr = replica.broker_addr
    try:
        config = admin.broker_config(addr)
        found = msgspec.structs.replace(found, config=config, user_count=_user_count(admin, addr, config))
        if with_topics and found.is_master:
            found = msgspec.structs.replace(found, topics=admin.all_topics(addr).topic_config_table)
        if with_groups and found.is_master:
            found = msgspec.structs.replace(found, groups=admin.all_groups(addr).subscription_group_table)
    except RocketMQError as error:
        return msgspec.structs.replace(found, refusal=str(error))
    return found


def _user_count(admin: AdminClient, addr: str, config: Mapping[str, str]) -> int | None:
    if switches(config).lack is None:
        return None
    try:
        return len(admin.users(addr)) or None
    except RocketMQError:  # an old broker, or one of Apache's without a place for users
        return None


def read_route(admin: AdminClient, namesrv_addr: str, topic: str) -> TopicRoute | None:
    """The route of a topic from one name server; None if the server does not know the topic or does not answer."""
    header = RouteHeader(topic=topic, accept_standard_json_only=True)
    try:
        return admin.read(namesrv_addr, RequestCode.GET_ROUTEINFO_BY_TOPIC, header, TopicRoute)
    except RefusedError as error:
        if error.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        raise


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
