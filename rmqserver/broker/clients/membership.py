"""Which clients take part: heartbeats, farewells, and what clients ask of their group (``ClientManageProcessor``);
also which of them may consume a queue in order (``RebalanceLockManager``, 5.5.0)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import CONSUME_ACTIVELY, Heartbeat
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers.consuming import ConsumerGroupHeader, UnregisterClientHeader
from rmqproto.message.sys_flag import UNIT_SUBSCRIBED
from rmqproto.names import RETRY_OR_DLQ_TOPIC_LENGTH_MAX, group_problem, retry_topic
from rmqserver.broker.clients.clients import CONSUME_TYPES, enum_name
from rmqserver.operation import Refused

if TYPE_CHECKING:
    from rmqserver.broker.clients.clients import Clients, ConsumerGroup
    from rmqserver.broker.tables.consumer_filters import ConsumerFilters
    from rmqserver.broker.tables.groups import GroupTable
    from rmqserver.broker.tables.topics import TopicTable
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.operation import Peer


class Membership:
    def __init__(
        self, config: BrokerConfig, topics: TopicTable, groups: GroupTable, clients: Clients,
        consumer_filters: ConsumerFilters,
    ):  # fmt: skip
        self._config = config
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._consumer_filters = consumer_filters

    def heartbeat(
        self, heartbeat: Heartbeat, peer: Peer, language: str | int | None, version: int, size_bytes: int
    ) -> tuple[bool, Callable[[], None]]:
        """Takes a heartbeat of that size. Returns whether the client must send its subscriptions next time, and what
        tells the members of the groups, to be called once the client has its answer. Raises TooManyClients or
        NameTooLong."""
        wants_subscriptions = not heartbeat.heartbeat_fingerprint  # a client without one always sends everything
        changed = []
        for data in heartbeat.consumer_data_set:
            consume_type = enum_name(data.consume_type, CONSUME_TYPES)
            if consume_type == CONSUME_ACTIVELY and self._config.reject_pull_consumer_enable:
                continue
            group_config = self._groups.find(data.group_name)
            if group_config is None:  # it is not allowed
                continue
            flag = UNIT_SUBSCRIBED if data.unit_mode else 0
            self._topics.create_system(retry_topic(data.group_name), group_config.retry_queue_nums, topic_sys_flag=flag)
            if heartbeat.heartbeat_fingerprint:
                wants_subscriptions |= self._is_news(data.group_name, heartbeat)
            is_changed = self._clients.register_consumer(
                data, heartbeat.client_id, peer, language, version,
                with_subscriptions=not heartbeat.without_sub, size_bytes=size_bytes,
            )  # fmt: skip
            group = self._clients.consumers[data.group_name]
            if heartbeat.heartbeat_fingerprint and not heartbeat.without_sub:
                group.fingerprint = heartbeat.heartbeat_fingerprint
            if not heartbeat.without_sub:
                self._consumer_filters.register(data.group_name, data.subscription_data_set)
            if is_changed:
                changed.append(group)
        for producer in heartbeat.producer_data_set:
            self._clients.register_producer(producer.group_name, heartbeat.client_id, peer, language, version)

        def tell_members() -> None:
            for group in changed:
                self._clients.tell_members(group)

        return wants_subscriptions, tell_members

    def _is_news(self, group: str, heartbeat: Heartbeat) -> bool:
        """Whether the client must send its subscriptions, because the group is not known to have these."""
        online = self._clients.consumers.get(group)
        known = online.fingerprint if online is not None else None
        if heartbeat.without_sub:
            return known != heartbeat.heartbeat_fingerprint
        return known is not None and known != heartbeat.heartbeat_fingerprint

    # --- the rest ----------------------------------------------------------------------------------------------------

    def unregister(self, header: UnregisterClientHeader, peer: Peer) -> None:
        """Removes the client of this peer. The header's client id is ignored, as in Apache's broker."""
        if header.producer_group:
            self._clients.unregister_producer(header.producer_group, peer)
        if header.consumer_group:
            self._clients.unregister_consumer(header.consumer_group, peer)

    def members(self, group: str) -> list[str]:
        """The client ids of the group. Raises Refused if it has none."""
        online = self._clients.consumers.get(group)
        if online is None or not online.members:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {group}")
        return [client.client_id for client in online.members.values()]


class MemberNotices:
    """Tells the members of a group to share the queues anew (``DefaultConsumerIdsChangeListener``, 5.5.0)."""

    def __init__(self, config: BrokerConfig, groups: GroupTable, consumer_filters: ConsumerFilters):
        self._config = config
        self._groups = groups
        self._consumer_filters = consumer_filters

    def tell(self, group: ConsumerGroup) -> None:
        """Tells every member, unless notices are switched off for the broker or the group, or the group is
        broadcasting. When a group has lost its last member, its filters become dead."""
        if not group.members:
            self._consumer_filters.unregister(group.group)
            return
        found = self._groups.get(group.group)
        is_wanted = found is None or found.notify_consumer_ids_changed_enable
        if not is_wanted or group.is_broadcasting or not self._config.notify_consumer_ids_changed_enable:
            return
        header = ConsumerGroupHeader(consumer_group=group.group)
        for client in group.members.values():
            client.peer.notify(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header)


LOCK_LIFE_MS = 60_000
"""Apache's rocketmq.broker.rebalance.lockMaxLiveTime. Clients renew every 20 s."""

LOCKS_MAX = 100_000
"""Locks held by all groups together; no more are granted. Whether a queue exists is not checked."""


@dataclass(slots=True)
class _Lock:
    client_id: str
    renewed_ms: int


class QueueLocks:
    def __init__(self, clock_ms: Callable[[], int]):
        self._clock_ms = clock_ms
        self._locks: dict[str, dict[MessageQueue, _Lock]] = {}
        self._count = 0

    def lock(self, group: str, client_id: str, queues: list[MessageQueue]) -> list[MessageQueue]:
        """Takes or renews the locks that are free or the client's own. Returns the queues that the client now holds."""
        now_ms = self._clock_ms()
        if group_problem(group):
            return []
        locks = self._locks.setdefault(group, {})
        held = []
        for queue in queues:
            lock = locks.get(queue)
            if lock is None and (self._count >= LOCKS_MAX or len(queue.topic) > RETRY_OR_DLQ_TOPIC_LENGTH_MAX):
                continue
            self._count += lock is None
            if lock is None or lock.client_id == client_id or now_ms - lock.renewed_ms > LOCK_LIFE_MS:
                locks[queue] = _Lock(client_id, now_ms)
                held.append(queue)
        return held

    def unlock(self, group: str, client_id: str, queues: list[MessageQueue]) -> None:
        """Releases the locks that the client holds."""
        locks = self._locks.get(group, {})
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id:
                del locks[queue]
                self._count -= 1
        if not locks:
            self._locks.pop(group, None)

    def is_any_held(self, group: str) -> bool:
        """Whether the group consumes in order at present."""
        oldest_ms = self._clock_ms() - LOCK_LIFE_MS
        return any(lock.renewed_ms >= oldest_ms for lock in self._locks.get(group, {}).values())

    def expire(self) -> None:
        """Forgets expired locks."""
        oldest_ms = self._clock_ms() - LOCK_LIFE_MS
        for group, locks in list(self._locks.items()):
            for queue in [queue for queue, lock in locks.items() if lock.renewed_ms < oldest_ms]:
                del locks[queue]
                self._count -= 1
            if not locks:
                del self._locks[group]
