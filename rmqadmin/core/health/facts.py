"""The facts that a check of a cluster starts from: the answers of every name server and every broker process. Each is
asked at the address that clients would use, all at the same time. A server that does not answer is one of the facts."""

import contextlib
import time
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.access.users import switches
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.health.finding import Subject, SubjectKind
from rmqadmin.core.names import is_made_by_brokers, topics_of_servers
from rmqadmin.core.servers.broker_answers import ask_each
from rmqadmin.core.servers.broker_state import Replica, ask_replica, displaced_replicas, replicas_of
from rmqadmin.core.servers.meant_brokers import kind_of_server
from rmqadmin.core.topics.stored_queues import UnreadQueue, unread_queues
from rmqclient.addresses import parse_addresses
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import BrokerData, ClusterInfo, TopicConfig, TopicList, TopicRoute
from rmqproto.codes import RequestCode
from rmqproto.errors import RefusedError, RocketMQError, UsageError
from rmqproto.ha import MASTER_ID
from rmqproto.names import DLQ_PREFIX, is_system_group

TOPICS_ASKED_MAX = 200
"""How many topics' routes are asked for, from each name server; and how many topics, of all masters together, for
queues past their counts."""


class NamesrvFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One name server. ``cluster`` is None if ``error`` says why. ``config`` includes settings that only rmqserver has;
    it is empty if the server did not return it."""

    addr: str
    cluster: ClusterInfo | None = None
    topics: frozenset[str] = frozenset()
    config: Mapping[str, str] = {}
    routes: Mapping[str, TopicRoute] = {}
    """Of the topics that were asked for and that it knows."""
    routes_error: str | None = None
    error: str | None = None

    @property
    def subject(self) -> Subject:
        return Subject(SubjectKind.NAME_SERVER, self.addr)


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
    unread: Mapping[str, list[UnreadQueue]] = {}
    """Queues with messages that consumers do not read, by topic."""
    unread_error: str | None = None
    ahead: Mapping[str, list[str]] = {}
    """Its own read positions that lie beyond an end, by what that does."""
    gone_ms: int | None = None
    """When a name server listed it last, if none does now."""

    @property
    def error(self) -> str | None:
        """Why nothing is known of it now."""
        return self.replica.error or self.refusal

    @property
    def in_tps(self) -> float | None:
        return self.replica.number("putTps")

    @property
    def out_tps(self) -> float | None:
        return self.replica.number("getTransferredTps")

    @property
    def disk_ratio(self) -> float | None:
        """How full the disk of its commit log is, 0 to 1."""
        return self.replica.number("commitLogDiskRatio")

    @property
    def put_ms(self) -> float | None:
        """The 99th percentile of puts."""
        return self.replica.number("putLatency99")

    @property
    def name(self) -> str:
        """``broker-a/0``."""
        return self.replica.name

    @property
    def subject(self) -> Subject:
        return Subject(SubjectKind.BROKER, self.name)

    @property
    def is_master(self) -> bool:
        return self.replica.broker_id == MASTER_ID

    @property
    def took_ms(self) -> int:
        return self.answered_ms - self.asked_ms


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """All the facts. ``brokers`` has every process that some name server lists, once per address. ``unasked``: name
    servers that only brokers name in their settings, with those brokers; ``silent``: why some of them do not answer."""

    namesrvs: list[NamesrvFacts]
    brokers: list[BrokerFacts]
    unasked: Mapping[str, list[str]] = {}
    silent: Mapping[str, str] = {}

    @property
    def masters(self) -> list[BrokerFacts]:
        """The masters that answered."""
        return [broker for broker in self.brokers if broker.is_master and broker.replica.error is None]

    @property
    def answering(self) -> list[NamesrvFacts]:
        return [namesrv for namesrv in self.namesrvs if namesrv.cluster is not None]

    def broker_names(self, told: Iterable[str]) -> set[str]:
        """The names of brokers told by name or, as for mqadmin's -b, by address. Another text stays as it is."""
        by_addr = {one.replica.broker_addr: one.replica.broker_name for one in self.brokers}
        return {by_addr.get(each, each) for each in map(str.strip, told)}

    @property
    def share(self) -> int:
        """How many topics of one master are asked for."""
        return max(1, TOPICS_ASKED_MAX // max(1, len(self.masters)))

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
    """The facts of one cluster or of all. ``with_tables``: masters' groups, too, and topics if ``with_topics``."""
    namesrvs = ask_each(lambda addr: _namesrv(admin, addr), admin.namesrv_addrs)
    replicas = {
        (one.broker_name, one.broker_id, one.broker_addr): one
        for namesrv in namesrvs
        if namesrv.cluster is not None
        for one in (*replicas_of(namesrv.cluster, cluster), *displaced_replicas(namesrv.cluster, cluster))
    }

    def ask(key: tuple[str, int, str]) -> BrokerFacts:
        return _broker(admin, replicas[key], with_topics=with_tables and with_topics, with_groups=with_tables)

    brokers = ask_each(ask, sorted(replicas))
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
    config = targets.or_none(lambda: admin.namesrv_config(addr, with_own_defaults=True))  # it may need a permission
    return NamesrvFacts(addr=addr, cluster=cluster, topics=frozenset(topics.topic_list), config=config or {})


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
    users = targets.or_none(lambda: admin.users(addr))  # an old broker has none, nor one of Apache's without a place
    return len(users or ()) or None


def with_unasked(admin: AdminClient, facts: ClusterFacts) -> ClusterFacts:
    """The facts with which of the unasked name servers do not answer."""

    def error_of(addr: str) -> str | None:
        try:
            admin.read(addr, RequestCode.GET_BROKER_CLUSTER_INFO, None, ClusterInfo)
        except RefusedError:
            return None  # it answers
        except RocketMQError as error:
            return str(error)
        return None

    addrs = sorted(facts.unasked)
    errors = zip(addrs, ask_each(error_of, addrs), strict=True)
    return msgspec.structs.replace(facts, silent={addr: error for addr, error in errors if error is not None})


def with_routes(admin: AdminClient, facts: ClusterFacts, topics: Collection[str]) -> ClusterFacts:
    """The facts with the routes of these topics, as each name server that answers knows them."""

    def asked(namesrv: NamesrvFacts) -> NamesrvFacts:
        known = sorted(topic for topic in topics if topic in namesrv.topics)
        return namesrv if namesrv.cluster is None else read_routes(admin, namesrv, known)

    return msgspec.structs.replace(facts, namesrvs=ask_each(asked, facts.namesrvs))


def with_unread_queues(admin: AdminClient, facts: ClusterFacts) -> ClusterFacts:
    """The facts with what lies in queues that consumers do not read, of each master's share of topics: first those
    with fewer read than write queues."""

    def asked(broker: BrokerFacts) -> BrokerFacts:
        if not broker.is_master or broker.replica.error is not None:
            return broker
        own, replica = facts.own_topics(broker), broker.replica
        uneven = uneven_topics(own)
        names = [*uneven, *(name for name in sorted(own) if name not in uneven)][: facts.share]

        def read(name: str) -> list[UnreadQueue]:
            return unread_queues(admin, replica.broker_name, replica.broker_addr, own[name])

        try:
            found = dict(zip(names, ask_each(read, names), strict=True))
        except RocketMQError as error:
            return msgspec.structs.replace(broker, unread_error=str(error))
        return msgspec.structs.replace(broker, unread={name: queues for name, queues in found.items() if queues})

    return msgspec.structs.replace(facts, brokers=ask_each(asked, facts.brokers))


def uneven_topics(own: Mapping[str, TopicConfig]) -> dict[str, TopicConfig]:
    """The topics with fewer read than write queues."""
    return {name: one for name, one in sorted(own.items()) if is_uneven(one)}


def is_uneven(config: TopicConfig) -> bool:
    return config.write_queue_nums > config.read_queue_nums


def read_routes(admin: AdminClient, namesrv: NamesrvFacts, topics: Sequence[str]) -> NamesrvFacts:
    try:
        return msgspec.structs.replace(namesrv, routes=admin.routes_at(namesrv.addr, topics))
    except RocketMQError as error:
        return msgspec.structs.replace(namesrv, routes_error=str(error))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
