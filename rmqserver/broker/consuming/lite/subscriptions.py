"""Which clients subscribe to which lite topics (``LiteSubscriptionRegistryImpl``,
5.5.0). A lite topic is known here by its light queue. A client's subscriptions end with its connection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rmqproto.bodies.lite import ClientGroup, LiteSubscriptionChange, OffsetOption
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers.lite import UnsubscribeLiteHeader
from rmqproto.message.light_queues import LIGHT_QUEUE_ID
from rmqproto.names import lite_queue_name
from rmqserver.broker.consuming.lite.ready import LiteClient, Ready, wildcard_name
from rmqserver.operation import Peer, Refused
from rmqserver.store.queues.light import is_light

if TYPE_CHECKING:
    from rmqserver.broker.consuming.pop.orders import Orders
    from rmqserver.broker.tables.consumer_offsets import ConsumerOffsets
    from rmqserver.broker.tables.groups import GroupTable
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.store.message_store import MessageStore

BIND_TOPIC, SUB_MODEL, WILDCARD = "lite.bind.topic", "lite.sub.model", "lite.sub.wildcard"
RESET_ON_UNSUBSCRIBE, RESET_ON_EXCLUSION = "lite.sub.reset.offset.unsubscribe", "lite.sub.reset.offset.exclusive"
CLIENTS_MAX = 50_000

FROM_MIN, FROM_MAX = 1, 2
"""Values of an offset option of type POLICY; 0 leaves the group where it is."""


class LiteSubscriptions:
    def __init__(
        self, config: BrokerConfig, store: MessageStore, groups: GroupTable, offsets: ConsumerOffsets, orders: Orders,
        ready: Ready,
    ):  # fmt: skip
        self.by_client: dict[str, LiteClient] = {}
        self._config = config
        self._groups = groups
        self._offsets = offsets
        self._store = store
        self._clock_ms = store.clock_ms
        self._orders = orders
        self._ready = ready
        self.count = 0
        """Subscriptions to lite topics, of all clients together."""

    def peer_gone(self, peer: Peer) -> None:
        for client in [one for one in self.by_client.values() if one.peer is peer]:
            self._forget(client)

    # --- asking ------------------------------------------------------------------------------------------------------

    def attribute(self, group: str, name: str) -> str:
        """One of a group's attributes; empty for an unknown group."""
        config = self._groups.get(group)
        return config.attributes.get(name, "") if config is not None else ""

    def bound_groups(self) -> dict[str, list[str]]:
        """Lite groups by parent topic."""
        found: dict[str, list[str]] = {}
        for name, config in self._groups.all().items():
            if topic := config.attributes.get(BIND_TOPIC):
                found.setdefault(topic, []).append(name)
        return found

    def is_wildcard(self, group: str) -> bool:
        """Whether the group takes part in every lite topic of its parent: it does if it has the attribute, whatever the
        value."""
        config = self._groups.get(group)
        return config is not None and WILDCARD in config.attributes

    def subscribers(self, queue: str) -> list[ClientGroup]:
        """The subscribers of a lite topic; a wildcard group has the client id ``*``."""
        named = [ClientGroup(client_id=one.client_id, group=one.group) for one in self._ready.clients_of(queue)]
        return named + [ClientGroup(client_id="*", group=group) for group in self._ready.wildcard_groups_of(queue)]

    def of_group(self, group: str) -> Iterator[LiteClient]:
        return (client for client in self.by_client.values() if client.group == group)

    # --- changing ----------------------------------------------------------------------------------------------------

    def change(self, change: LiteSubscriptionChange, client_id: str, group: str, topic: str, peer: Peer) -> None:
        """Applies one change. Raises Refused with 604 if the group may not consume, and with 2018 for one lite topic
        too many."""
        names = [lite_queue_name(topic, name) for name in change.lite_topic_set or ()]
        queues = [name for name in dict.fromkeys(names) if is_light(name)]
        if change.action == "COMPLETE_REMOVE":
            if (client := self.by_client.get(client_id)) is not None:
                self._forget(client)
            return
        if change.action == "PARTIAL_REMOVE":
            if (client := self.by_client.get(client_id)) is not None:
                self._remove_some(client, queues)
            return
        if change.action not in ("PARTIAL_ADD", "COMPLETE_ADD"):
            return
        self._check(group)
        is_wildcard = self.is_wildcard(group)
        if is_wildcard and change.action == "PARTIAL_ADD":
            raise Refused(ResponseCode.ILLEGAL_OPERATION, "subscribe lite operation is not supported for this group")
        client = self._client(client_id, group, topic, peer, is_wildcard)
        if change.action == "PARTIAL_ADD":
            self._add_some(client, queues, change.offset_option)
        else:
            self._replace(client, [wildcard_name(topic, group)] if is_wildcard else queues)

    def _check(self, group: str) -> None:
        config = self._groups.get(group)
        if config is None or not config.consume_enable:
            raise Refused(ResponseCode.ILLEGAL_OPERATION, "Consumer group is not allowed to consume.")

    def _client(self, client_id: str, group: str, topic: str, peer: Peer, is_wildcard: bool) -> LiteClient:
        client = self.by_client.get(client_id)
        if client is not None and (client.group, client.topic, client.is_wildcard) != (group, topic, is_wildcard):
            self._forget(client)
            client = None
        if client is None:
            if len(self.by_client) >= CLIENTS_MAX:
                raise Refused(ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED, f"{CLIENTS_MAX} clients subscribe already")
            ready = self._ready.shared(topic, group) if is_wildcard else {}
            client = self.by_client[client_id] = LiteClient(client_id, group, topic, peer, is_wildcard, ready)
        client.peer = peer
        client.last_access_ms = self._clock_ms()
        return client

    def _add_some(self, client: LiteClient, queues: Iterable[str], option: OffsetOption | None) -> None:
        is_exclusive = self.attribute(client.group, SUB_MODEL) == "Exclusive"
        for queue in queues:
            self._add(client, queue)
            if is_exclusive:
                self._exclude_others(client, queue)
            if option is not None:
                self._reset(client.group, queue, option)
            self._ready.offer(queue, client.group)

    def _replace(self, client: LiteClient, queues: list[str]) -> None:
        """Makes these the client's only subscriptions. It takes none away from other clients of an Exclusive group."""
        wanted = set(queues)
        self._remove(client, [name for name in client.queues if name not in wanted])
        for queue in queues:
            if queue not in client.queues:
                self._add(client, queue)
                self._ready.offer(queue, client.group)

    def _add(self, client: LiteClient, queue: str) -> None:
        if queue in client.queues:
            return
        if self.count >= self._config.max_lite_subscription_count:
            text = f"lite subscription quota exceeded {self._config.max_lite_subscription_count}"
            raise Refused(ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED, text)
        client.queues[queue] = None
        self._ready.join(client, queue)
        self.count += 1

    def _exclude_others(self, client: LiteClient, queue: str) -> None:
        for other in self._ready.clients_of(queue):
            if other is not client and other.group == client.group:
                self._remove(other, [queue])
                self._tell_gone(other, queue)
                self._reset_if_set(RESET_ON_EXCLUSION, client.group, queue)

    def _tell_gone(self, client: LiteClient, queue: str) -> None:
        lite_topic = queue.removeprefix(lite_queue_name(client.topic, ""))
        header = UnsubscribeLiteHeader(lite_topic=lite_topic, consumer_group=client.group, client_id=client.client_id)
        client.peer.notify(RequestCode.NOTIFY_UNSUBSCRIBE_LITE, header, b"")

    def _remove(self, client: LiteClient, queues: Iterable[str]) -> None:
        for queue in queues:
            if queue in client.queues:
                del client.queues[queue]
                self._ready.leave(client, queue)
                self.count -= 1

    def _remove_some(self, client: LiteClient, queues: Iterable[str]) -> None:
        for queue in [name for name in queues if name in client.queues]:
            self._remove(client, [queue])
            self._reset_if_set(RESET_ON_UNSUBSCRIBE, client.group, queue)

    def _forget(self, client: LiteClient) -> None:
        self._remove(client, list(client.queues))
        del self.by_client[client.client_id]

    def forget_queue(self, queue: str) -> None:
        """Ends the subscriptions to a lite topic that is gone, and tells the subscribers."""
        for client in self._ready.clients_of(queue):
            self._remove(client, [queue])
            self._tell_gone(client, queue)

    def _reset_if_set(self, attribute: str, group: str, queue: str) -> None:
        """Resets the group to the first message if its attribute asks for it."""
        if self.attribute(group, attribute).lower() == "true":
            self._reset(group, queue, OffsetOption(value=FROM_MIN))

    def _reset(self, group: str, queue: str, option: OffsetOption) -> None:
        """Moves the group's offset in a lite topic."""
        low, high = (each(queue, LIGHT_QUEUE_ID) for each in (self._store.min_offset, self._store.max_offset))
        if option.type == "POLICY":
            wanted = {FROM_MIN: low, FROM_MAX: high}.get(option.value)
        elif option.type == "OFFSET":
            wanted = option.value
        elif option.type == "TAIL_N":
            wanted = high - option.value
        elif option.type == "TIMESTAMP":
            wanted = self._store.offset_for_time(queue, LIGHT_QUEUE_ID, option.value)
        else:
            return
        if wanted is not None:
            self._orders.clear(group, queue, LIGHT_QUEUE_ID)
            self._offsets.commit(group, queue, LIGHT_QUEUE_ID, min(max(wanted, low), high))
