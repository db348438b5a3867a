"""Allocation of a topic's queues to the clients of a group (``AllocateMessageQueue*``, 5.5.0).

Every client computes it for itself, so all clients must use the same lists in the same order and the same strategy. The
functions therefore sort their arguments. A client that is not in the list gets no queues.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import UsageError

VIRTUAL_NODES_PER_CLIENT = 10
ROOM_SEPARATOR = "@"
"""Stands between a machine room and the rest of a broker's name: ``east@broker-a``."""

Strategy = Callable[[str, Collection[MessageQueue], Collection[str]], list[MessageQueue]]
"""``strategy(own client id, all queues of the topic, all client ids of the group)`` returns the client's own queues,
sorted."""


def averagely(client_id: str, queues: Collection[MessageQueue], client_ids: Collection[str]) -> list[MessageQueue]:
    """AVG, the default: each client gets a run of neighbouring queues. The first clients get one more if the division
    leaves a remainder."""
    ordered, clients = sorted(queues), _in_java_order(client_ids)
    if client_id not in clients:
        return []
    return ordered[share_of(clients.index(client_id), len(clients), len(ordered))]


def share_of(index: int, client_count: int, queue_count: int) -> slice:
    """The run of neighbouring queues that AVG gives to one client."""
    share, rest = divmod(queue_count, client_count)
    start = index * share + min(index, rest)
    return slice(start, start + share + (1 if index < rest else 0))


def averagely_by_circle(
    client_id: str, queues: Collection[MessageQueue], client_ids: Collection[str]
) -> list[MessageQueue]:
    """AVG_BY_CIRCLE: queues dealt out one by one."""
    clients = _in_java_order(client_ids)
    return sorted(queues)[clients.index(client_id) :: len(clients)] if client_id in clients else []


POP_ALL_QUEUES = -1
"""Used in place of a queue id: a pop takes from all queues of the topic on that broker."""


def allocate_for_pop(
    strategy: Strategy, client_id: str, queues: Collection[MessageQueue], client_ids: Collection[str], share_count: int
) -> list[MessageQueue]:
    """The queues that a client pops from (``QueryAssignmentProcessor.allocate4Pop``): its own, and those of the next
    ``share_count`` clients. If ``share_count`` is 0 or covers all other clients, every client pops from all queues."""
    ordered, clients = sorted(queues), _in_java_order(client_ids)
    if share_count <= 0 or share_count >= len(clients) - 1:
        whole = {MessageQueue(queue.topic, queue.broker_name, POP_ALL_QUEUES) for queue in ordered}
        return sorted(whole)
    if client_id not in clients:
        return []
    index = clients.index(client_id)
    if len(clients) > len(ordered):  # each client gets one
        return [ordered[index % len(ordered)]] if ordered else []
    sharing = [clients[(index + step) % len(clients)] for step in range(share_count + 1)]
    return sorted({queue for client in sharing for queue in strategy(client, ordered, clients)})


def consistent_hash(
    client_id: str, queues: Collection[MessageQueue], client_ids: Collection[str]
) -> list[MessageQueue]:
    """CONSISTENT_HASH: a queue belongs to the next virtual node of a client on a ring of MD5 hashes, so that few queues
    move when a client joins or leaves."""
    if client_id not in client_ids:
        return []
    ring = {
        _ring_hash(f"{client}-{number}"): client
        for client in _in_java_order(client_ids)
        for number in range(VIRTUAL_NODES_PER_CLIENT)
    }
    nodes = sorted(ring)

    def owner(queue: MessageQueue) -> str:
        key = f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
        at = bisect_left(nodes, _ring_hash(key))
        return ring[nodes[at % len(nodes)]]

    return [queue for queue in sorted(queues) if owner(queue) == client_id]


@dataclass(frozen=True)
class ByConfig:
    """CONFIG: those of these queues that exist, regardless of the other members."""

    queues: Collection[MessageQueue]
    name = "CONFIG"

    def __call__(
        self, client_id: str, queues: Collection[MessageQueue], client_ids: Collection[str]
    ) -> list[MessageQueue]:
        return sorted(set(self.queues) & set(queues))


@dataclass(frozen=True)
class ByMachineRoom:
    """MACHINE_ROOM: the queues of brokers in ``rooms`` (``room@name``). Each client gets a run of neighbouring queues,
    and the remainder is dealt out one by one. Other queues belong to no client."""

    rooms: Collection[str]
    name = "MACHINE_ROOM"

    def __call__(
        self, client_id: str, queues: Collection[MessageQueue], client_ids: Collection[str]
    ) -> list[MessageQueue]:
        ordered = [queue for queue in sorted(queues) if self._is_here(queue.broker_name)]
        clients = _in_java_order(client_ids)
        if client_id not in clients:
            return []
        index, share = clients.index(client_id), len(ordered) // len(clients)
        rest = ordered[share * len(clients) :]
        return ordered[share * index : share * (index + 1)] + rest[index : index + 1]

    def _is_here(self, broker_name: str) -> bool:
        room, *rest = broker_name.split(ROOM_SEPARATOR)
        return len(rest) == 1 and room in self.rooms


@dataclass(frozen=True)
class MachineRoomNearby:
    """MACHINE_ROOM_NEARBY: ``inner`` allocates the queues of a room to the clients in that room, or to all clients if
    the room has none. UsageError if a queue or a client has no room: a guess could leave queues without an owner."""

    inner: Strategy
    room_of_queue: Callable[[MessageQueue], str]
    room_of_client: Callable[[str], str]
    name = "MACHINE_ROOM_NEARBY"

    def __call__(
        self, client_id: str, queues: Collection[MessageQueue], client_ids: Collection[str]
    ) -> list[MessageQueue]:
        if client_id not in client_ids:
            return []
        queues_in: defaultdict[str, list[MessageQueue]] = defaultdict(list)
        clients_in: defaultdict[str, list[str]] = defaultdict(list)
        for queue in queues:
            queues_in[_room(self.room_of_queue(queue), queue)].append(queue)
        for client in client_ids:
            clients_in[_room(self.room_of_client(client), client)].append(client)
        own: list[MessageQueue] = []
        for room, found in queues_in.items():
            sharers = clients_in.get(room) or client_ids
            own += self.inner(client_id, found, sharers)
        return sorted(own)


def sticky(
    client_id: str,
    queues: Collection[MessageQueue],
    client_ids: Collection[str],
    held: Mapping[str, Collection[MessageQueue]],
) -> list[MessageQueue]:
    """Shares that differ by at most one queue, with the fewest queues moved. ``held``: the queues that each client has
    now.

    Apache has no such strategy. All members must see the same state of the group, or a state on the way to the result:
    a member that has already taken or given away queues does not change the result for the others. A queue that two
    clients have stays with the one that has fewer queues.
    """
    clients = _in_java_order(client_ids)
    if client_id not in clients:
        return []
    share, rest = divmod(len(queues), len(clients))
    kept = _kept(sorted(queues), clients, held)
    places = dict.fromkeys(clients, share)
    # One more first for clients that have it already, then for the others in turn.
    for client in sorted(clients, key=lambda client: len(kept[client]) <= share)[:rest]:
        places[client] += 1
    own = {client: kept[client][: places[client]] for client in clients}
    settled = {queue for mine in own.values() for queue in mine}
    free = iter([queue for queue in sorted(queues) if queue not in settled])
    for client in clients:
        own[client] += [next(free) for _ in range(places[client] - len(own[client]))]
    return sorted(own[client_id])


def _kept(
    queues: list[MessageQueue], clients: list[str], held: Mapping[str, Collection[MessageQueue]]
) -> dict[str, list[MessageQueue]]:
    """The existing queues that each client alone has."""
    fewest_first = sorted(clients, key=lambda client: len(held.get(client, ())))
    owner = {queue: client for client in reversed(fewest_first) for queue in held.get(client, ())}
    kept: dict[str, list[MessageQueue]] = {client: [] for client in clients}
    for queue in queues:
        if queue in owner:
            kept[owner[queue]].append(queue)
    return kept


STRATEGIES: dict[str, Strategy] = {
    "AVG": averagely,
    "AVG_BY_CIRCLE": averagely_by_circle,
    "CONSISTENT_HASH": consistent_hash,
}
"""The strategies that need no settings, by their names in Apache's clients (``getName``)."""


def _room(room: str, of: object) -> str:
    if not room:
        raise UsageError(f"{of} has no machine room")
    return room


def _in_java_order(client_ids: Collection[str]) -> list[str]:
    """Sorts as Java does: it compares strings by UTF-16 units, Python by code points."""
    return sorted(client_ids, key=lambda client_id: client_id.encode("utf-16-be", "surrogatepass"))


def _ring_hash(key: str) -> int:
    return int.from_bytes(hashlib.md5(key.encode(), usedforsecurity=False).digest()[:4], "big")
