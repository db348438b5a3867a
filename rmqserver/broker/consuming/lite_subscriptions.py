"""Which clients subscribe to which lite topics (``LiteSubscriptionRegistryImpl``), and which of these may have
messages, and for whom (``LiteEventDispatcher``, 5.5.0). A lite topic is known here by its light queue. A client's
subscriptions end with its connection.

A pop looks only into lite topics that may have messages, however many its client subscribes to. One that is found
empty is removed, and comes back with its next message. A wildcard group takes part in every lite topic of its
parent. Its clients share what is ready, and a message wakes only one of their pops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from rmqproto.bodies.lite import ClientGroup, LiteSubscriptionChange, OffsetOption
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers.popping import UnsubscribeLiteHeader
from rmqproto.message.special_messages import LIGHT_QUEUE_ID
from rmqproto.names import LIGHT_QUEUE_PREFIX, lite_names_of, lite_queue_name
from rmqserver.operation import Peer, Refused
from rmqserver.store.queues.light import is_light

if TYPE_CHECKING:
    from rmqserver.broker.consuming.holds import Holds, WakeKey
    from rmqserver.broker.consuming.pop.orders import Orders
    from rmqserver.broker.tables.consumer_offsets import ConsumerOffsets
    from rmqserver.broker.tables.groups import GroupTable
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.store.message_store import MessageStore
    from rmqserver.store.queues.round import Arrival


class LiteClient(msgspec.Struct):
    """One client's subscription. ``ready`` holds those of its lite topics that its next pop looks into, in turn. A
    client of a wildcard group has ``wildcard_name`` as its only queue. Times in ms."""

    client_id: str
    group: str
    topic: str
    peer: Peer
    is_wildcard: bool
    ready: dict[str, None]
    queues: dict[str, None] = {}
    last_access_ms: int = 0

    @property
    def wake_key(self) -> WakeKey:
        """The key of this client's pops, or of its wildcard group's pops, in the table of held requests."""
        return _group_key(self.topic, self.group) if self.is_wildcard else client_key(self.client_id)


class Ready:
    def __init__(self, store: MessageStore, offsets: ConsumerOffsets, holds: Holds):
        self._holds = holds
        self._offsets = offsets
        self._store = store
        self._by_queue: dict[str, dict[str, LiteClient]] = {}
        self._wildcards: dict[str, dict[str, dict[str, None]]] = {}  # what is ready, by parent topic and group
        self.unsearched: dict[tuple[str, str], None] = {}
        """Parent topics and their wildcard groups for which a search for messages is still to be done."""
        self.on_unsearched: Callable[[], None] = lambda: None
        """Called when a group is added to ``unsearched``."""

    # --- subscribers -------------------------------------------------------------------------------------------------

    def clients_of(self, queue: str) -> list[LiteClient]:
        """The clients that subscribe to it by name."""
        return list(self._by_queue.get(queue, {}).values())

    def wildcard_groups_of(self, queue: str) -> dict[str, dict[str, None]]:
        """The wildcard groups with clients that take part in a lite topic, and what is ready for each."""
        return self._wildcards.get((lite_names_of(queue) or ("",))[0], {})

    def shared(self, topic: str, group: str) -> dict[str, None]:
        """What is ready for a wildcard group."""
        return self._wildcards.get(topic, {}).get(group, {})

    def join(self, client: LiteClient, queue: str) -> None:
        clients = self._by_queue.setdefault(queue, {})
        if client.is_wildcard:
            if not clients:
                self._wildcards.setdefault(client.topic, {})[client.group] = client.ready
                self.search(client.topic, client.group)
        else:
            client.ready[queue] = None
        clients[client.client_id] = client
        self._holds.wake(client_key(client.client_id))  # a pop may have come before the subscription

    def leave(self, client: LiteClient, queue: str) -> None:
        clients = self._by_queue[queue]
        del clients[client.client_id]
        if not client.is_wildcard:
            client.ready.pop(queue, None)
        if not clients:
            del self._by_queue[queue]
            if client.is_wildcard:
                groups = self._wildcards[client.topic]
                del groups[client.group]
                if not groups:
                    del self._wildcards[client.topic]

    # --- what may be ready -------------------------------------------------------------------------------------------

    def arrived(self, arrivals: list[Arrival]) -> None:
        """Called when messages have become visible."""
        for arrival in arrivals:
            if arrival.queue.topic.startswith(LIGHT_QUEUE_PREFIX):
                self.offer(arrival.queue.topic)

    def offer(self, queue: str, group: str | None = None) -> None:
        """Notes that a lite topic may have messages for its subscribers, or for those of one group. Pops that wait for
        it go on."""
        for client in self.clients_of(queue):
            if group is None or client.group == group:
                client.ready[queue] = None
                self._holds.wake(client.wake_key)
        parent = (lite_names_of(queue) or ("",))[0]
        for name, ready in self._wildcards.get(parent, {}).items():
            if group is None or name == group:
                ready[queue] = None
                self._holds.wake_next(_group_key(parent, name))

    def offer_all(self, client: LiteClient) -> None:
        """Makes the client look into all its lite topics once more."""
        if client.is_wildcard:
            self.search(client.topic, client.group)
        else:
            client.ready.update(client.queues)
            self._holds.wake(client.wake_key)

    def offer_rest(self, client: LiteClient) -> None:
        """Called when a woken pop of the client has left something: the next one goes on."""
        if client.is_wildcard and client.ready:
            self._holds.wake_next(client.wake_key)

    def search(self, topic: str, group: str) -> None:
        self.unsearched[topic, group] = None
        self.on_unsearched()

    def is_behind(self, group: str, queue: str) -> bool:
        """Whether a lite topic has messages that the group has not got. May read the device."""
        committed = self._offsets.committed(group, queue, LIGHT_QUEUE_ID) or 0
        return self._store.max_offset(queue, LIGHT_QUEUE_ID) > committed


def wildcard_name(topic: str, group: str) -> str:
    """What a client of a wildcard group subscribes to, in place of a light queue."""
    return f"{topic}@{group}"


def client_key(client_id: str) -> WakeKey:
    """The key of one client's pops in the table of held requests."""
    return "lite", client_id


def _group_key(topic: str, group: str) -> WakeKey:
    return "lite-wildcard", topic, group


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
        config = self._groups.get(group)
        if config is None or not config.consume_enable:
            raise Refused(ResponseCode.ILLEGAL_OPERATION, "Consumer group is not allowed to consume.")
        is_wildcard = WILDCARD in config.attributes  # whatever the value
        if is_wildcard and change.action == "PARTIAL_ADD":
            raise Refused(ResponseCode.ILLEGAL_OPERATION, "subscribe lite operation is not supported for this group")
        client = self._client(client_id, group, topic, peer, is_wildcard)
        if change.action == "PARTIAL_ADD":
            self._add_some(client, queues, change.offset_option)
        else:
            self._replace(client, [wildcard_name(topic, group)] if is_wildcard else queues)

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
