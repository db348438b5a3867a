"""The nameserver's tables of brokers, clusters and topics, as brokers register them (``RouteInfoManager``, 5.5.0).

Plain tables and the rules by which they change; no sockets. A broker stays as long as it registers or sends a heartbeat
before its time is up, and the connection by which it last registered stays open. Lists keep the order in which their
members came.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import msgspec

from rmqproto.bodies.base import DataVersion
from rmqproto.bodies.routes import BrokerData, ClusterInfo, QueueData, TopicConfigs, TopicRoute
from rmqproto.codes import PERM_WRITE
from rmqproto.ha import MASTER_ID
from rmqproto.names import MEMBER_GROUP_PREFIX
from rmqserver.config.namesrv_config import NamesrvConfig

log = logging.getLogger(__name__)

LIVE_DEFAULT_S = 120.0
"""How long a broker counts as alive if it does not say how long (``DEFAULT_BROKER_CHANNEL_EXPIRED_TIME``)."""

BROKERS_MAX = 10_000
"""Limit of living brokers, and of their clusters. Apache has neither this limit nor the next; we do because anyone may
register."""

ROUTES_MAX = 1_000_000
"""Limit of topics of all brokers. A topic counts once for each broker that has it."""


class BrokerKey(NamedTuple):
    """A broker that took over another's address has a key of its own, and the other expires by itself."""

    cluster: str
    name: str
    addr: str


class Registrant(Protocol):
    """The connection by which a broker registers."""

    def close(self, reason: str) -> None: ...


@dataclasses.dataclass(slots=True)
class Live:
    """A broker that is alive until ``last_update_s + timeout_s``."""

    last_update_s: float
    timeout_s: float
    data_version: DataVersion
    peer: Registrant | None
    ha_addr: str
    broker_id: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredBroker:
    """One REGISTER_BROKER, header and body together. ``enable_acting_master`` is None from brokers before 5.0."""

    cluster: str
    name: str
    addr: str
    broker_id: int
    ha_addr: str
    topics: TopicConfigs
    filter_servers: list[str]
    timeout_ms: int | None = None
    enable_acting_master: bool | None = None
    zone_name: str | None = None

    @property
    def key(self) -> BrokerKey:
        return BrokerKey(self.cluster, self.name, self.addr)


class Master(NamedTuple):
    """What a slave is told about its master. Both are None if there is no master."""

    ha_addr: str | None = None
    addr: str | None = None


class MinIdChange(NamedTuple):
    """Another broker now has the smallest id of a name whose slaves may act as masters: either a broker has gone, or
    this one has come, and then ``ha_addr`` is where its slaves connect. ``members`` has addresses by id, at least
    one."""

    name: str
    members: dict[int, str]
    gone_addr: str | None = None
    ha_addr: str | None = None

    @property
    def min_id(self) -> int:
        return min(self.members)

    @property
    def told_addrs(self) -> list[str]:
        """Brokers to notify: all that are left, or all but the one that has come."""
        return [addr for id, addr in self.members.items() if self.gone_addr is not None or id != self.min_id]


class RouteTable:
    """Everything is in memory: brokers register again soon after a restart."""

    def __init__(self, config: NamesrvConfig, clock_s: Callable[[], float] = time.monotonic):
        self._config = config
        self._clock_s = clock_s
        self._topics: dict[str, dict[str, QueueData]] = {}  # topic, broker name
        self._route_count = 0
        """Number of entries of ``_topics`` and ``_mappings``: counting them for each new topic would be quadratic."""
        self._brokers: dict[str, BrokerData] = {}
        self._clusters: dict[str, list[str]] = {}  # broker names
        self._live: dict[BrokerKey, Live] = {}
        self._mappings: dict[str, dict[str, Any]] = {}  # topic, broker name: static topics
        self._filter_servers: dict[BrokerKey, list[str]] = {}
        self.on_min_id_changed: Callable[[MinIdChange], None] = lambda change: None

    # --- registration ------------------------------------------------------------------------------------------------

    def register(self, new: RegisteredBroker, peer: Registrant | None) -> Master | None:
        """Takes a registration. Returns None if it is refused: because the tables are full, or because it is a broker's
        first and has exactly one topic, which means that a broker unknown to this nameserver updates one topic."""
        if self._is_full(new):
            log.warning("event=register-refused broker=%s addr=%s reason=full", new.name, new.addr)
            return None
        known = self._brokers[new.name].broker_addrs if new.name in self._brokers else {}
        held_by = known.get(new.broker_id, new.addr)
        held = self._live.get(BrokerKey(new.cluster, new.name, held_by)) if held_by != new.addr else None
        version = new.topics.data_version
        if held is not None and held.data_version.state_version > version.state_version:
            self.unregister(new.key)  # a master that was replaced comes back
            return Master()
        moved_ids = [id for id, addr in known.items() if addr == new.addr and id != new.broker_id]
        if new.broker_id not in known and len(new.topics.topic_config_table) == 1:
            # Before anything is noted: what has no live entry never expires.
            log.warning("event=register-refused broker=%s addr=%s reason=one-topic", new.name, new.addr)
            return None
        names = self._clusters.setdefault(new.cluster, [])
        if new.name not in names:
            names.append(new.name)
        is_first = new.name not in self._brokers
        broker = self._brokers.setdefault(
            new.name, BrokerData(broker_addrs={}, broker_name=new.name, cluster=new.cluster)
        )
        broker.enable_acting_master = bool(new.enable_acting_master)
        broker.zone_name = new.zone_name
        addrs = broker.broker_addrs
        for moved_id in moved_ids:  # a slave that became master, or the other way round
            del addrs[moved_id]
        is_first = is_first or new.broker_id not in addrs
        is_smallest = bool(addrs) and new.broker_id < min(addrs)
        if is_first:
            log.info("event=broker-registered name=%s id=%d addr=%s", new.name, new.broker_id, new.addr)
        if held is not None and held.data_version.state_version == version.state_version:
            # They replace each other with each registration. A newer version would be a master elected in its place.
            log.warning(
                "event=broker-displaced name=%s id=%d addr=%s former=%s "
                "reason='both are alive: give one of them another brokerName, or make it a slave'",
                new.name, new.broker_id, new.addr, held_by,
            )  # fmt: skip
        addrs[new.broker_id] = new.addr
        self._take_topics(new, broker, is_first)
        timeout_s = LIVE_DEFAULT_S if new.timeout_ms is None else new.timeout_ms / 1000
        self._live[new.key] = Live(self._clock_s(), timeout_s, version, peer, new.ha_addr, new.broker_id)
        if new.filter_servers:
            self._filter_servers[new.key] = new.filter_servers
        else:
            self._filter_servers.pop(new.key, None)
        if is_smallest and broker.enable_acting_master:
            self.on_min_id_changed(MinIdChange(new.name, dict(addrs), ha_addr=new.ha_addr))
        master_addr = None if new.broker_id == MASTER_ID else addrs.get(MASTER_ID)
        master = self._live.get(BrokerKey(new.cluster, new.name, master_addr)) if master_addr is not None else None
        return Master(master.ha_addr, master_addr) if master is not None else Master()

    def _is_full(self, new: RegisteredBroker) -> bool:
        """Whether there is no room for what this registration adds."""
        is_new = new.key not in self._live and len(self._live) >= BROKERS_MAX
        is_elsewhere = new.cluster not in self._clusters and len(self._clusters) >= BROKERS_MAX
        if is_new or is_elsewhere:
            return True
        topics, mappings = new.topics.topic_config_table, new.topics.topic_queue_mapping_info_map or {}
        if self._has_room(len(topics) + len(mappings)):  # there is no need to look at each
            return False
        added_count = sum(new.name not in self._topics.get(topic, ()) for topic in topics) + len(mappings)
        return not self._has_room(added_count)

    def _has_room(self, added_count: int) -> bool:
        return not added_count or self._route_count + added_count <= ROUTES_MAX

    def _put_queues(self, topic: str, queue_data: QueueData) -> None:
        queues = self._topics.setdefault(topic, {})
        self._route_count += queue_data.broker_name not in queues
        queues[queue_data.broker_name] = queue_data

    def _take_topics(self, new: RegisteredBroker, broker: BrokerData, is_first: bool) -> None:
        """Takes the topics only from the master; without one, from the broker with the smallest id, if it supports
        acting masters."""
        is_master = new.broker_id == MASTER_ID
        is_smallest = new.enable_acting_master is not None and new.broker_id == min(broker.broker_addrs)
        if not is_master and not is_smallest:
            return
        configs = new.topics.topic_config_table
        mappings = new.topics.topic_queue_mapping_info_map or {}
        if self._config.delete_topic_with_broker_registration and not mappings:
            for topic in [topic for topic, queues in self._topics.items() if new.name in queues]:
                if topic not in configs:
                    self._remove_queues(topic, {new.name})
        has_changed = is_first or self.is_changed(new.key, new.topics.data_version)
        keeps_write = is_master or not broker.enable_acting_master
        for topic, config in configs.items():
            if has_changed or new.name not in self._topics.get(topic, ()):
                queue_data = QueueData(
                    broker_name=new.name,
                    perm=config.perm if keeps_write else config.perm & ~PERM_WRITE,
                    read_queue_nums=config.read_queue_nums,
                    topic_sys_flag=config.topic_sys_flag,
                    write_queue_nums=config.write_queue_nums,
                )
                self._put_queues(topic, queue_data)
        for topic, mapping in mappings.items():
            if topic not in self._topics:
                continue
            mapped, name = self._mappings.setdefault(topic, {}), str(mapping.get("bname") or new.name)
            if has_changed or name not in mapped:
                self._route_count += name not in mapped
                mapped[name] = mapping

    def unregister(self, key: BrokerKey, broker_id: int | None = None) -> None:
        """Forgets a broker, and everything that only it had. Does nothing if the broker is not known, or if another
        broker id has registered at its address since: a slave's late word must not take the master away."""
        live, name = self._live.get(key), key.name
        if live is not None and broker_id is not None and live.broker_id != broker_id:
            log.warning("event=unregister-ignored name=%s id=%d addr=%s reason=late", name, broker_id, key.addr)
            return
        self._live.pop(key, None)
        self._filter_servers.pop(key, None)
        broker = self._brokers.get(name)
        if broker is None:
            return
        min_id = min(broker.broker_addrs, default=MASTER_ID)
        for broker_id in [id for id, addr in broker.broker_addrs.items() if addr == key.addr]:
            del broker.broker_addrs[broker_id]
            log.info("event=broker-unregistered name=%s id=%d addr=%s", name, broker_id, key.addr)
        if not broker.broker_addrs:
            self._forget_name(name)
        elif broker.enable_acting_master and MASTER_ID not in broker.broker_addrs:
            for queues in self._topics.values():
                if name in queues:
                    queues[name].perm &= ~PERM_WRITE
        if broker.broker_addrs and broker.enable_acting_master and min_id not in broker.broker_addrs:
            self.on_min_id_changed(MinIdChange(name, dict(broker.broker_addrs), gone_addr=key.addr))

    def _forget_name(self, name: str) -> None:
        del self._brokers[name]
        for cluster, names in list(self._clusters.items()):
            if name in names:
                names.remove(name)
            if not names:
                del self._clusters[cluster]
        for topic in list(self._topics):
            self._remove_queues(topic, {name})

    # --- liveness ----------------------------------------------------------------------------------------------------

    def touch(self, key: BrokerKey) -> None:
        """Records a sign of life of a broker."""
        live = self._live.get(key)
        if live is not None:
            live.last_update_s = self._clock_s()

    def is_registrant(self, peer: Registrant) -> bool:
        """Whether a broker registered by this connection."""
        return any(live.peer is peer for live in self._live.values())

    def connection_closed(self, peer: Registrant) -> None:
        """Forgets the brokers whose last registration came by this connection."""
        for key, live in list(self._live.items()):
            if live.peer is peer:
                self.unregister(key)

    def expire(self) -> None:
        """Forgets the brokers whose time is up, and closes their connections."""
        now_s = self._clock_s()
        for key, live in list(self._live.items()):
            if now_s > live.last_update_s + live.timeout_s:
                log.warning("event=broker-expired name=%s addr=%s after_s=%g", key.name, key.addr, live.timeout_s)
                self.unregister(key)
                if live.peer is not None:
                    live.peer.close("the broker's registration expired")

    def data_version(self, key: BrokerKey) -> DataVersion | None:
        live = self._live.get(key)
        return live.data_version if live else None

    def is_changed(self, key: BrokerKey, version: DataVersion) -> bool:
        """Whether a broker with this version has to register again."""
        return self.data_version(key) != version

    # --- topics ------------------------------------------------------------------------------------------------------

    def add_topic(self, topic: str, queue_datas: Iterable[QueueData]) -> None:
        """Adds a topic to known brokers. An unknown broker ends it, as with Apache's: a new topic is then not added at
        all, and one that is there keeps what came before."""
        datas = list(queue_datas)
        known = list(itertools.takewhile(lambda data: data.broker_name in self._brokers, datas))
        if len(known) < len(datas):
            unknown = datas[len(known)].broker_name
            log.warning("event=topic-of-unknown-broker topic=%s broker=%s", topic, unknown)
            if topic not in self._topics:
                return
        for queue_data in known:
            if queue_data.broker_name not in self._topics.get(topic, ()) and not self._has_room(1):
                log.warning("event=topic-refused topic=%s broker=%s reason=full", topic, queue_data.broker_name)
                return
            self._put_queues(topic, queue_data)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Deletes a topic everywhere, or at the brokers of one cluster."""
        self._remove_queues(
            topic, set(self._clusters.get(cluster, ())) if cluster else set(self._topics.get(topic, ()))
        )

    def _remove_queues(self, topic: str, names: set[str]) -> None:
        queues = self._topics.get(topic)
        if queues is None:
            return
        for name in names:
            self._route_count -= queues.pop(name, None) is not None
        if not queues:
            del self._topics[topic]
            self._route_count -= len(self._mappings.pop(topic, ()))

    def change_perm(self, name: str, change: Callable[[int], int]) -> int:
        """Changes the permission of all topics of a broker; returns how many it has."""
        found = [queues[name] for queues in self._topics.values() if name in queues]
        for queue_data in found:
            queue_data.perm = change(queue_data.perm)
        return len(found)

    # --- answers -----------------------------------------------------------------------------------------------------

    def route(self, topic: str) -> TopicRoute | None:
        """Where a topic lives; None if no known broker has it."""
        queues = self._topics.get(topic, {})
        brokers = [self._brokers[name] for name in queues if name in self._brokers]
        if not brokers:
            return None
        filter_servers = {
            addr: self._filter_servers[key]
            for broker in brokers
            for addr in broker.broker_addrs.values()
            if (key := BrokerKey(broker.cluster or "", broker.broker_name, addr)) in self._filter_servers
        }
        acts = self._config.support_acting_master and not topic.startswith(MEMBER_GROUP_PREFIX)
        return TopicRoute(
            broker_datas=[
                _sorted_copy(broker, acts and not queues[broker.broker_name].perm & PERM_WRITE) for broker in brokers
            ],
            filter_server_table=filter_servers,
            queue_datas=list(queues.values()),
            topic_queue_mapping_by_broker=self._mappings.get(topic),
        )

    def cluster_info(self) -> ClusterInfo:
        return ClusterInfo(
            broker_addr_table={name: _sorted_copy(broker) for name, broker in self._brokers.items()},
            cluster_addr_table=self._clusters,
        )

    def displaced(self) -> list[BrokerData]:
        """Living brokers whose name and id belong to another broker that registered later."""
        return [
            BrokerData(broker_addrs={live.broker_id: key.addr}, broker_name=key.name, cluster=key.cluster)
            for key, live in self._live.items()
            if key.name in self._brokers and key.addr not in self._brokers[key.name].broker_addrs.values()
        ]

    def member_addrs(self, cluster: str, name: str) -> dict[int, str]:
        """Addresses by broker id; empty for a name that is not known in that cluster."""
        broker = self._brokers.get(name)
        return _sorted_copy(broker).broker_addrs if broker and broker.cluster == cluster else {}

    def topics(self) -> list[str]:
        return list(self._topics)

    def topics_of_cluster(self, cluster: str) -> list[str]:
        names = set(self._clusters.get(cluster, ()))
        return [topic for topic, queues in self._topics.items() if not names.isdisjoint(queues)]

    def topics_by_sys_flag(self, accepts: Callable[[int], bool]) -> list[str]:
        """Topics whose first broker's flag is accepted (the unit lists)."""
        return [topic for topic, queues in self._topics.items() if accepts(next(iter(queues.values())).topic_sys_flag)]

    def system_topics(self) -> tuple[list[str], str | None]:
        """Names of clusters and brokers (brokers keep a topic for each), and one broker's address."""
        topics = [name for cluster, names in self._clusters.items() for name in (cluster, *names)]
        addrs = (addr for broker in self._brokers.values() for addr in broker.broker_addrs.values())
        return topics, next(addrs, None)


def within_zone(route: TopicRoute, zone_name: str) -> TopicRoute:
    """The part of a route for clients of one zone (``ZoneRouteRPCHook``): brokers of that zone, and of any zone those
    without a master, because only their slaves can be read."""
    zone = zone_name.lower()
    far = [
        broker
        for broker in route.broker_datas
        if MASTER_ID in broker.broker_addrs and (broker.zone_name or "").lower() != zone
    ]
    far_names = {broker.broker_name for broker in far}
    far_addrs = {addr for broker in far for addr in broker.broker_addrs.values()}
    return msgspec.structs.replace(
        route,
        broker_datas=[broker for broker in route.broker_datas if broker.broker_name not in far_names],
        queue_datas=[queue for queue in route.queue_datas if queue.broker_name not in far_names],
        filter_server_table={addr: each for addr, each in route.filter_server_table.items() if addr not in far_addrs},
    )


def _sorted_copy(broker: BrokerData, may_act: bool = False) -> BrokerData:
    """Addresses by id, for an answer. If there is no master and a slave may act as one, the smallest id shows as 0."""
    addrs = dict(sorted(broker.broker_addrs.items()))
    if may_act and broker.enable_acting_master and addrs and MASTER_ID not in addrs:
        acting = min(addrs)
        addrs = {MASTER_ID: addrs.pop(acting), **addrs}
    return BrokerData(
        broker_addrs=addrs,
        broker_name=broker.broker_name,
        cluster=broker.cluster,
        enable_acting_master=broker.enable_acting_master,
        zone_name=broker.zone_name,
    )
