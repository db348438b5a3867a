"""Who owns which queue of a group, as its members say themselves (307), and what is wrong with it: queues that nobody
or several consume, and members that do not subscribe to the same, which makes them take each other's queues for theirs.

A member that does not answer is unknown, and then so is every queue that no other one owns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from rmqadmin import targets
from rmqadmin.consumption import GroupClients
from rmqclient.admin import AdminClient
from rmqproto.bodies import BrokerData, ConsumerRunningInfo, MessageQueue, SubscriptionData
from rmqproto.errors import RocketMQError
from rmqproto.names import RETRY_PREFIX

_BROADCASTING = "BROADCASTING"
_PERM_READ = 4


class Member(msgspec.Struct, frozen=True):
    """One online client of a group. ``queues`` is None, and ``error`` says why, where it did not answer.
    ``subscriptions``: expression by topic, retry topics left out."""

    client_id: str
    client_addr: str
    language: str | None
    version: int
    queues: frozenset[MessageQueue] | None
    subscriptions: dict[str, str] | None
    uses_pop: bool = False
    error: str | None = None


class QueueState(StrEnum):
    OWNED = "owned"
    UNOWNED = "unowned"
    SHARED = "owned twice"
    UNKNOWN = "unknown"


class Rebalance(msgspec.Struct, frozen=True):
    """``queues``: every queue that the group should consume, and those its members say they do, with their owners."""

    members: list[Member]
    queues: dict[MessageQueue, list[str]]
    is_broadcast: bool

    @property
    def silent(self) -> list[Member]:
        return [member for member in self.members if member.queues is None]

    def state(self, queue: MessageQueue) -> QueueState:
        owners = self.queues.get(queue, [])
        if len(owners) == 1:
            return QueueState.OWNED
        if owners:
            return QueueState.OWNED if self._may_share else QueueState.SHARED
        return QueueState.UNKNOWN if self.silent or not self.members else QueueState.UNOWNED

    @property
    def _may_share(self) -> bool:
        """In broadcast mode everybody consumes every queue, and POP consumers take turns."""
        return self.is_broadcast or any(member.uses_pop for member in self.members)

    def count(self, state: QueueState) -> int:
        return sum(self.state(queue) is state for queue in self.queues)

    @property
    def unequal(self) -> list[str]:
        """Client ids whose subscriptions are not those of the most members; of equally many, the first's."""
        known = [member for member in self.members if member.subscriptions is not None]
        spoken = [msgspec.json.encode(dict(sorted((member.subscriptions or {}).items()))) for member in known]
        if len(set(spoken)) < 2:
            return []
        usual = max(spoken, key=spoken.count)
        return [member.client_id for member, said in zip(known, spoken, strict=True) if said != usual]

    def summary(self) -> str:
        """In a few words; ``balanced`` where nothing is wrong."""
        if not self.members:
            return "offline"
        words = []
        for state, text in (
            (QueueState.UNOWNED, "unowned"),
            (QueueState.SHARED, "owned twice"),
            (QueueState.UNKNOWN, "unknown"),
        ):
            found = self.count(state)
            if found:
                words.append(f"{found} {text}")
        if self.unequal:
            words.append("unequal subscriptions")
        if self.silent and not self.count(QueueState.UNKNOWN):
            words.append(f"{len(self.silent)} silent")
        return ", ".join(words) or "balanced"


def read_rebalance(admin: AdminClient, brokers: Sequence[BrokerData], group: str, clients: GroupClients) -> Rebalance:
    """Asks every online client through a broker that knows it, one after another: a broker waits 10 s for a silent one.
    The client's deadline decides how many of them can be asked; the rest is unknown."""
    addr_of = {broker.broker_name: broker.selected_addr() for broker in brokers}
    members = [_ask(admin, addr_of, group, clients, client_id) for client_id in clients.connections]
    topics = set(clients.subscriptions) | {topic for member in members for topic in member.subscriptions or {}}
    queues: dict[MessageQueue, list[str]] = {queue: [] for queue in _queues_of(admin, topics)}
    for member in members:
        for queue in member.queues or ():
            queues.setdefault(queue, []).append(member.client_id)
    return Rebalance(members, dict(sorted(queues.items())), clients.message_model == _BROADCASTING)


def _ask(
    admin: AdminClient, addr_of: Mapping[str, str | None], group: str, clients: GroupClients, client_id: str
) -> Member:
    connection = clients.connections[client_id]
    addr = next((addr for name in clients.broker_names[client_id] if (addr := addr_of.get(name))), None)
    info: ConsumerRunningInfo | None = None
    error = None if addr else "no broker that it is connected to can be asked"
    if addr is not None:
        try:
            info = admin.consumer_running_info(addr, group, client_id)
        except RocketMQError as failure:
            error = str(failure)
    return Member(
        client_id=client_id,
        client_addr=connection.client_addr,
        language=connection.language,
        version=connection.version,
        queues=None if info is None else frozenset(info.mq_table) | frozenset(info.mq_pop_table),
        subscriptions=None if info is None else _expressions(info.subscription_set),
        uses_pop=bool(info and info.mq_pop_table),
        error=error,
    )


def _expressions(subscriptions: Iterable[SubscriptionData]) -> dict[str, str]:
    return {
        one.topic: f"{one.expression_type or 'TAG'} {one.sub_string}"
        for one in subscriptions
        if not one.topic.startswith(RETRY_PREFIX)
    }


def _queues_of(admin: AdminClient, topics: Iterable[str]) -> list[MessageQueue]:
    """The queues that members share out between them: those that may be read, as the name server says."""
    found = []
    for topic in sorted(topics):
        route = targets.find_route(admin, topic)
        for data in route.queue_datas if route else []:
            if data.perm & _PERM_READ:
                found += [MessageQueue(topic, data.broker_name, queue_id) for queue_id in range(data.read_queue_nums)]
    return found
