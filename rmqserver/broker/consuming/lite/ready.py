"""Which lite topics may have messages, and for whom (``LiteEventDispatcher``, 5.5.0). A pop looks only into those,
however many its client subscribes to. A lite topic that is found empty is removed, and comes back with its next
message. It is known here by its light queue.

A wildcard group takes part in every lite topic of its parent. Its clients share what is ready, and a message wakes only
one of their pops."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from rmqproto.message.light_queues import LIGHT_QUEUE_ID
from rmqproto.names import LIGHT_QUEUE_PREFIX, lite_names_of

if TYPE_CHECKING:
    from rmqserver.broker.consuming.holds import Holds, WakeKey
    from rmqserver.broker.tables.consumer_offsets import ConsumerOffsets
    from rmqserver.operation import Peer
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
        self.on_unsearched: Callable[[], None] = _nothing
        """Called when a group is added to ``unsearched``."""

    # --- subscribers -------------------------------------------------------------------------------------------------

    def clients_of(self, queue: str) -> list[LiteClient]:
        """The clients that subscribe to it by name."""
        return list(self._by_queue.get(queue, {}).values())

    def wildcard_groups_of(self, queue: str) -> dict[str, dict[str, None]]:
        """The wildcard groups with clients that take part in a lite topic, and what is ready for each."""
        names = lite_names_of(queue)
        return self._wildcards.get(names[0], {}) if names is not None else {}

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
        for name, ready in self.wildcard_groups_of(queue).items():
            if group is None or name == group:
                ready[queue] = None
                self._holds.wake_next(_group_key(_parent_of(queue), name))

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


def _parent_of(queue: str) -> str:
    names = lite_names_of(queue)
    assert names is not None
    return names[0]


def _nothing() -> None:
    pass
