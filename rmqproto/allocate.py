"""Which of a topic's queues belong to which client of a group (``AllocateMessageQueue*``, 5.5.0).

Every client works it out for itself, so all must see the same lists in the same order and use the same strategy: the
functions sort what they get. A client that is not in the list gets nothing.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Collection

from rmqproto.bodies import MessageQueue

VIRTUAL_NODES_PER_CLIENT = 10

Strategy = Callable[[str, Collection[MessageQueue], Collection[str]], list[MessageQueue]]
"""``strategy(own client id, all queues of the topic, all client ids of the group)``: the own queues, sorted."""


def averagely(client_id: str, queues: Collection[MessageQueue], client_ids: Collection[str]) -> list[MessageQueue]:
    """AVG, the default: a run of neighbours each; the first clients get one more where it does not come out even."""
    ordered, clients = sorted(queues), _in_java_order(client_ids)
    if client_id not in clients:
        return []
    index, share, rest = clients.index(client_id), len(ordered) // len(clients), len(ordered) % len(clients)
    start = index * share + min(index, rest)
    return ordered[start : start + share + (1 if index < rest else 0)]


def averagely_by_circle(
    client_id: str, queues: Collection[MessageQueue], client_ids: Collection[str]
) -> list[MessageQueue]:
    """AVG_BY_CIRCLE: queues dealt out one by one."""
    clients = _in_java_order(client_ids)
    return sorted(queues)[clients.index(client_id) :: len(clients)] if client_id in clients else []


def consistent_hash(
    client_id: str, queues: Collection[MessageQueue], client_ids: Collection[str]
) -> list[MessageQueue]:
    """CONSISTENT_HASH: a queue belongs to the next of the clients' virtual nodes on a ring of MD5 hashes, so that few
    queues move when a client comes or goes."""
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


STRATEGIES: dict[str, Strategy] = {
    "AVG": averagely,
    "AVG_BY_CIRCLE": averagely_by_circle,
    "CONSISTENT_HASH": consistent_hash,
}
"""By the names that Apache's clients have for them."""


def _in_java_order(client_ids: Collection[str]) -> list[str]:
    """Java compares strings by UTF-16 units, Python by code points."""
    return sorted(client_ids, key=lambda client_id: client_id.encode("utf-16-be", "surrogatepass"))


def _ring_hash(key: str) -> int:
    return int.from_bytes(hashlib.md5(key.encode(), usedforsecurity=False).digest()[:4], "big")
