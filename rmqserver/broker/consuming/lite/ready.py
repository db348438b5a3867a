"""In which lite topics there may be something, and for whom (``LiteEventDispatcher``, 5.5.0): a pop looks into those
alone, however many its client subscribes to. What is found to be empty leaves, and comes back with the next message. A
lite topic is known here by its light queue.

A wildcard group takes part in every lite topic of its parent. Its clients share what is ready, and of their pops a
message wakes one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from rmqproto.message.light_queues import LIGHT_QUEUE_ID
from rmqproto.names import LIGHT_QUEUE_PREFIX, lite_names_of, lite_queue_name

if TYPE_CHECKING:
    from rmqserver.broker.consuming.holds import WakeKey
    from rmqserver.broker.parts import BrokerParts
    from rmqserver.remoting.connection import Connection
    from rmqserver.store.results import Arrival


class LiteClient(msgspec.Struct):
    """One client's subscription. ``ready``: those of its lite topics that its next pop looks into, in the order of
    their turn. A client of a wildcard group has ``wildcard_name`` as its only queue. Times in ms."""

    client_id: str
    group: str
    topic: str
    connection: Connection
    is_wildcard: bool
    ready: dict[str, None]
    queues: dict[str, None] = {}
    last_access_ms: int = 0

    @property
    def wake_key(self) -> WakeKey:
        """Of the table of held requests: the pops of this client, or of its wildcard group."""
        return _group_key(self.topic, self.group) if self.is_wildcard else client_key(self.client_id)


class Ready:
    def __init__(self, parts: BrokerParts):
        self._holds = parts.holds
        self._offsets = parts.offsets
        self._store = parts.store
        self._by_queue: dict[str, dict[str, LiteClient]] = {}
        self._wildcards: dict[str, dict[str, dict[str, None]]] = {}  # what is ready, by parent topic and group
        self.unsearched: dict[tuple[str, str], None] = {}
        """Parent topics and their wildcard groups that have to be told what there is for them (``behind``)."""
        self.on_unsearched: Callable[[], None] = _nothing
        """Called when there is one more."""

    # --- who subscribes ----------------------------------------------------------------------------------------------

    def clients_of(self, queue: str) -> list[LiteClient]:
        """Those that subscribe to it by name."""
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
        self._holds.wake(client_key(client.client_id))  # a pop that came before the subscription

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

    # --- what may be there -------------------------------------------------------------------------------------------

    def arrived(self, arrivals: list[Arrival]) -> None:
        """Messages became visible."""
        for arrival in arrivals:
            if arrival.queue.topic.startswith(LIGHT_QUEUE_PREFIX):
                self.offer(arrival.queue.topic)

    def offer(self, queue: str, group: str | None = None) -> None:
        """There may be something in a lite topic for its subscribers, or for those of one group: pops that wait for it
        go on."""
        for client in self.clients_of(queue):
            if group is None or client.group == group:
                client.ready[queue] = None
                self._holds.wake(client.wake_key)
        for name, ready in self.wildcard_groups_of(queue).items():
            if group is None or name == group:
                ready[queue] = None
                self._holds.wake_next(_group_key(_parent_of(queue), name))

    def offer_all(self, client: LiteClient) -> None:
        """The client is to look into everything once more."""
        if client.is_wildcard:
            self.search(client.topic, client.group)
        else:
            client.ready.update(client.queues)
            self._holds.wake(client.wake_key)

    def offer_rest(self, client: LiteClient) -> None:
        """A pop of the client was woken, and has not taken everything."""
        if client.is_wildcard and client.ready:
            self._holds.wake_next(client.wake_key)

    def search(self, topic: str, group: str) -> None:
        self.unsearched[topic, group] = None
        self.on_unsearched()

    def behind(self, topic: str, group: str) -> Iterator[str | None]:
        """The lite topics of a parent in which a group has not come to the end; None for each of the others. Opens
        every one: a millisecond for a dozen."""
        prefix = lite_queue_name(topic, "")
        for queue in self._store.queues.names():
            if queue.startswith(prefix):
                committed = self._offsets.committed(group, queue, LIGHT_QUEUE_ID) or 0
                yield queue if self._store.max_offset(queue, LIGHT_QUEUE_ID) > committed else None


def wildcard_name(topic: str, group: str) -> str:
    """What a client of a wildcard group subscribes to, in the place of a light queue."""
    return f"{topic}@{group}"


def client_key(client_id: str) -> WakeKey:
    """Of the table of held requests: the pops of one client."""
    return "lite", client_id


def _group_key(topic: str, group: str) -> WakeKey:
    return "lite-wildcard", topic, group


def _parent_of(queue: str) -> str:
    names = lite_names_of(queue)
    assert names is not None
    return names[0]


def _nothing() -> None:
    pass
