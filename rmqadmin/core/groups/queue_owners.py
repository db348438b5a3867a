"""Which member owns which queue of a group, by the members' own answers (307), and what is wrong: queues with no owner
or several, and members with different subscriptions, which then assign queues differently.

If a member does not answer, the owner of every queue that no other member owns is unknown.

And how queues move between members, over successive readings. A rebalance begins with the first reading in which a
queue has different owners, and is over when every queue has one again. Members rebalance every 20 s, so it takes that
long until all have noticed a new one.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cached_property

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.groups.consumption import ClientAnswer, GroupClients, ask_clients
from rmqadmin.core.groups.running_info import Pace, pace_of
from rmqadmin.core.topics.routes import queues_to_allocate
from rmqadmin.core.units import elapsed
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionData
from rmqproto.bodies.routes import BrokerData
from rmqproto.names import RETRY_PREFIX
from rmqproto.wording import NAMES_TOLD_MAX, names_told

BROADCASTING = "BROADCASTING"


class Member(msgspec.Struct, frozen=True):
    """One online client of a group. If it did not answer, ``queues`` is None and ``error`` says why. ``subscriptions``:
    expressions by topic, without retry topics."""

    client_id: str
    client_addr: str
    language: str | None
    version: int
    queues: frozenset[MessageQueue] | None
    subscriptions: dict[str, str] | None
    uses_pop: bool = False
    pace: Pace | None = None
    error: str | None = None


class QueueState(StrEnum):
    OWNED = "owned"
    UNOWNED = "unowned"
    SHARED = "owned twice"
    UNKNOWN = "unknown"


class QueueOwners(msgspec.Struct, frozen=True, dict=True):
    """``queues``: every queue that the group should consume or that a member says it consumes, with its owners. What
    follows from all members is found out once: there may be a thousand, with as many queues."""

    members: list[Member]
    queues: dict[MessageQueue, list[str]]
    is_broadcast: bool

    @cached_property
    def silent(self) -> list[Member]:
        return [member for member in self.members if member.queues is None]

    def state(self, queue: MessageQueue) -> QueueState:
        owners = self.queues.get(queue, [])
        if len(owners) == 1:
            return QueueState.OWNED
        if owners:
            return QueueState.OWNED if self._may_share else QueueState.SHARED
        return QueueState.UNKNOWN if self.silent or not self.members else QueueState.UNOWNED

    @cached_property
    def _may_share(self) -> bool:
        """Whether a queue may have several owners: each member has all in broadcast mode, and POP takes turns."""
        return self.is_broadcast or any(member.uses_pop for member in self.members)

    @cached_property
    def queue_count(self) -> int:
        return members_max(self.queues)

    @cached_property
    def spare(self) -> list[str]:
        """Client ids of the members that have no queue because there are more members than queues."""
        if self._may_share or self.silent or not 0 < self.queue_count < len(self.members):
            return []
        return [
            member.client_id
            for member in self.members
            if all(queue.topic.startswith(RETRY_PREFIX) for queue in member.queues or ())
        ]

    def count(self, state: QueueState) -> int:
        return sum(self.state(queue) is state for queue in self.queues)

    @cached_property
    def unequal(self) -> list[str]:
        """Client ids whose subscriptions differ from the most common one."""
        return unequal_clients({member.client_id: member.subscriptions for member in self.members})

    def summary(self) -> str:
        """A few words, to stand under the heading ``queues``: ``balanced`` if nothing is wrong."""
        if not self.members:
            return "offline"
        states = (QueueState.UNOWNED, QueueState.SHARED, QueueState.UNKNOWN)
        words = [f"{found} {state}" for state in states if (found := self.count(state))]
        if self.unequal:
            words.append("unequal subscriptions")
        if self.silent and not self.count(QueueState.UNKNOWN):
            words.append(f"{len(self.silent)} silent")
        return ", ".join(words) or "balanced"


def unequal_clients(subscriptions: Mapping[str, Mapping[str, str] | None]) -> list[str]:
    """The clients whose subscriptions, expressions by topic, differ from the most common ones. Of two equally common
    ones, the first counts as usual. None for a client that did not answer."""
    spoken = {
        client_id: msgspec.json.encode(dict(sorted(wanted.items())))
        for client_id, wanted in subscriptions.items()
        if wanted is not None
    }
    usual = next((wanted for wanted, _ in Counter(spoken.values()).most_common(1)), None)
    return [client_id for client_id, wanted in spoken.items() if wanted != usual]


def members_max(queues: Iterable[MessageQueue]) -> int:
    """How many members can have one of the queues: as many as one topic has at most, retry topics left out."""
    topics = Counter(queue.topic for queue in queues if not queue.topic.startswith(RETRY_PREFIX))
    return max(topics.values(), default=0)


def without_heading(summary: str) -> str:
    """The summary for use without the heading."""
    first = summary.partition(",")[0]
    is_of_queues = first == "balanced" or first.endswith((" unowned", " owned twice", " unknown"))
    return f"queues {summary}" if is_of_queues else summary


def read_queue_owners(
    admin: AdminClient, brokers: Sequence[BrokerData], group: str, clients: GroupClients
) -> QueueOwners:
    """Asks every online client through a broker that knows it. A broker waits 10 s for a silent client, so the deadline
    of ``admin`` decides how many can be asked. The rest is unknown."""
    members = list(map(_member, ask_clients(admin, group, clients, brokers)))
    queues: dict[MessageQueue, list[str]] = {}
    for topic in {*clients.subscriptions, *(topic for member in members for topic in member.subscriptions or {})}:
        if (route := targets.find_route(admin, topic)) is not None:
            queues |= {queue: [] for queue in queues_to_allocate(route, topic)}
    for member in members:
        for queue in member.queues or ():
            queues.setdefault(queue, []).append(member.client_id)
    return QueueOwners(members, dict(sorted(queues.items())), clients.message_model == BROADCASTING)


def _member(answer: ClientAnswer) -> Member:
    connection, info = answer.connection, answer.info
    return Member(
        client_id=connection.client_id,
        client_addr=connection.client_addr,
        language=connection.language,
        version=connection.version,
        queues=None if info is None else frozenset(info.mq_table) | frozenset(info.mq_pop_table),
        subscriptions=None if info is None else expressions_of(info.subscription_set),
        uses_pop=bool(info and info.mq_pop_table),
        pace=None if info is None else pace_of(info),
        error=answer.error,
    )


def expressions_of(subscriptions: Iterable[SubscriptionData]) -> dict[str, str]:
    """What a client wants of each topic, retry topics left out."""
    return {
        one.topic: f"{one.expression_type or 'TAG'} {one.sub_string}"
        for one in subscriptions
        if not one.topic.startswith(RETRY_PREFIX)
    }


MOVES_MAX, DONE_MAX = 300, 50

Owners = tuple[str, ...]


class OwnedQueue(msgspec.Struct, frozen=True):
    """``since_ms``: the reading in which it first had these owners, None if that was the first one. ``before``: who
    last had it before them; empty if nobody ever had."""

    owners: Owners
    since_ms: int | None
    before: Owners | None = None


class QueueMove(msgspec.Struct, frozen=True):
    at_ms: int
    queue: MessageQueue
    before: Owners
    after: Owners

    def text(self) -> str:
        return f"{_named(self.before)} → {_named(self.after)}"


class RebalanceDone(msgspec.Struct, frozen=True):
    """``gained`` and ``lost``: the number of queues, by member."""

    began_ms: int
    ended_ms: int
    gained: dict[str, int]
    lost: dict[str, int]

    def text(self) -> str:
        took_ms = self.ended_ms - self.began_ms
        took = f"in {elapsed(took_ms)}" if took_ms else "between two looks"
        words = [f"{name} gained {count}" for name, count in self.gained.items()]
        words += [f"{name} lost {count}" for name, count in self.lost.items()]
        if len(words) > NAMES_TOLD_MAX:
            words = [f"{len(self.gained):,} members gained some", f"{len(self.lost):,} lost some"]
        if not words:
            return f"queues were shared out anew {took}: each member has those that it had before"
        return f"queues went to other members {took}: {', '.join(words)}"


class Rebalances:
    """The rebalances of one group; call ``look`` for each reading of its owners. ``begun_ms``: when the present
    rebalance began; None if there is none. ``since_ms``: when owners were first known. ``moves`` and ``done`` are in
    order, newest last."""

    def __init__(self) -> None:
        self.queues: dict[MessageQueue, OwnedQueue] = {}
        self.moves: deque[QueueMove] = deque(maxlen=MOVES_MAX)
        self.done: deque[RebalanceDone] = deque(maxlen=DONE_MAX)
        self.begun_ms: int | None = None
        self._base: dict[MessageQueue, Owners] = {}
        self.since_ms: int | None = None

    def look(self, at_ms: int, owners: QueueOwners) -> RebalanceDone | None:
        """The rebalance that ended with this reading, if any. While a member is silent, nothing begins or ends."""
        if owners.silent:
            return None
        now = {queue: tuple(sorted(names)) for queue, names in owners.queues.items()}
        if not owners.members:  # the members of an offline group cannot say which queues it should have
            now = dict.fromkeys(self.queues, ()) | now
        before = {queue: known.owners for queue, known in self.queues.items()}
        moved = [queue for queue, names in now.items() if queue in before and before[queue] != names]
        is_shared_out = all(owners.state(queue) is QueueState.OWNED for queue in owners.queues)
        begins = bool(moved) or (self.since_ms is None and not is_shared_out)
        if begins and self.begun_ms is None:
            self.begun_ms, self._base = at_ms, before or now
        self._keep(at_ms, now, moved)
        self.since_ms = at_ms if self.since_ms is None else self.since_ms
        if self.begun_ms is None or not (is_shared_out or not owners.members):
            return None
        done = RebalanceDone(self.begun_ms, at_ms, *_differences(self._base, now))
        self.done.append(done)
        self.begun_ms = None
        return done

    def _keep(self, at_ms: int, now: dict[MessageQueue, Owners], moved: Iterable[MessageQueue]) -> None:
        for queue in moved:
            known = self.queues[queue]
            self.moves.append(QueueMove(at_ms, queue, known.owners, now[queue]))
            # While members rebalance, a queue may for a moment have no owner or two: neither is who had it before.
            gone = tuple(name for name in known.owners if name not in now[queue])
            self.queues[queue] = OwnedQueue(now[queue], at_ms, gone or known.owners or known.before or ())
        new = {
            queue: OwnedQueue(names, None if self.since_ms is None else at_ms)
            for queue, names in now.items()
            if queue not in self.queues
        }
        self.queues = {queue: known for queue, known in (self.queues | new).items() if queue in now}


def _differences(before: dict[MessageQueue, Owners], after: dict[MessageQueue, Owners]) -> tuple[dict[str, int], ...]:
    gained: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    for queue in before | after:
        was, now = set(before.get(queue, ())), set(after.get(queue, ()))
        gained.update(now - was)
        lost.update(was - now)
    return dict(sorted(gained.items())), dict(sorted(lost.items()))


def _named(owners: Owners) -> str:
    return names_told(owners) or "nobody"
