"""How the queues of a group move between members, over successive readings: which member gained or lost queues, and how
long it took.

A rebalance begins with the first reading in which a queue has different owners, and is over when every queue has one
again. Members rebalance every 20 s, so it takes that long until all have noticed a new one.
"""

from collections import Counter, deque
from collections.abc import Iterable

import msgspec

from rmqadmin.core.groups.consumption import GroupOffsets
from rmqadmin.core.groups.lag_trend import stuck_queues
from rmqadmin.core.groups.queue_owners import QueueOwners, QueueState
from rmqadmin.core.units import elapsed
from rmqproto.bodies.base import MessageQueue
from rmqproto.wording import NAMES_TOLD_MAX, names_told

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
        """The rebalance that ended with this reading, if any. While a member does not answer, owners are unknown, and
        nothing begins or ends."""
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


class StandingStill:
    """Call ``look`` for each reading. A queue stands still by the rule of ``stuck_queues``: messages waited at every
    reading, and the committed offset did not move."""

    def __init__(self) -> None:
        self._before: tuple[GroupOffsets, float] | None = None
        self._since_s: dict[MessageQueue, float] = {}

    def look(self, offsets: GroupOffsets, at_s: float) -> dict[MessageQueue, float]:
        """How many seconds each such queue has stood still. ``at_s``: from a monotonic clock."""
        if self._before is not None:
            before, before_s = self._before
            held = stuck_queues(before, offsets)
            self._since_s = {queue: self._since_s.get(queue, before_s) for queue in held}
        self._before = offsets, at_s
        return {queue: at_s - since_s for queue, since_s in self._since_s.items()}
