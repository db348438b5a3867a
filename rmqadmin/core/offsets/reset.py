"""Moves a group's offsets: the plan, queue by queue; how each broker is told; and whether it worked.

A broker that resets by itself (``useServerSideResetOffset``, the default of 5.x) is told every queue's new offset and
makes online consumers follow. Other brokers can only move online consumers to a time, all queues at once. If nobody is
online, the offsets are simply written. Each queue is read back afterwards.
"""

from collections.abc import Callable, Sequence

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.changes import may_have_acted
from rmqadmin.core.servers.broker_answers import ask_each
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import BrokerData, TopicRoute
from rmqproto.bodies.statistics import TopicOffset
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError, RocketMQError, UsageError

BEGIN, END = "begin", "end"
_END_MS = -1
"""The timestamp that brokers take as the end of every queue."""

_SLOW_CLIENTS = "online consumers of older brokers take 10 s to follow"


class Goal(msgspec.Struct, frozen=True):
    """Where to reset to: ``begin``, ``end``, an offset, a time in ms, or ``by_count`` messages forward, back if it is
    negative, from where the group is in each queue. Exactly one is given. An offset is brought within each queue's
    limits unless it ``is_exact``; then the broker refuses one outside the queue."""

    edge: str | None = None
    queue_offset: int | None = None
    is_exact: bool = False
    timestamp_ms: int | None = None
    by_count: int | None = None

    def by_time_ms(self) -> int | None:
        """The goal as a timestamp, for brokers that accept nothing else. None if it has none."""
        if self.edge is not None:
            return 0 if self.edge == BEGIN else _END_MS
        return self.timestamp_ms


class QueueReset(msgspec.Struct, frozen=True):
    """One queue's plan, and later its outcome. Offsets are queue offsets. ``old_offset`` is None if the group has none;
    ``new_offset`` is None if there is nothing to do. ``undone_offset``: where the reset that is undone had put it."""

    queue: MessageQueue
    broker_addr: str
    min_offset: int
    max_offset: int
    old_offset: int | None
    new_offset: int | None
    done: bool = False
    error: str | None = None
    undone_offset: int | None = None
    oldest_skipped_ms: int | None = None
    """When the first message that is left behind was stored; None if there is none, or if that is not known."""

    @property
    def skipped_count(self) -> int:
        """The messages that the group has not consumed and would never get."""
        if self.old_offset is None or self.new_offset is None or self.error is not None:
            return 0
        return max(0, min(self.new_offset, self.max_offset) - max(self.old_offset, self.min_offset))

    @property
    def again_count(self) -> int:
        """The messages that the group has consumed and would get again. Those that the undone reset had skipped are not
        among them, if the group went on from there: in a group that is before it, nobody knows what was skipped."""
        if self.old_offset is None or self.new_offset is None or self.error is not None:
            return 0
        skipped_to = self.undone_offset or 0
        first = max(self.new_offset, self.min_offset, skipped_to if self.old_offset >= skipped_to else 0)
        return max(0, min(self.old_offset, self.max_offset) - first)


OffsetFinder = Callable[[str, MessageQueue, TopicOffset, int | None], int | None]
"""Finds a queue's new offset, given its broker's address, its name, its ends and the group's offset, if any. None: the
queue stays as it is."""


def plan(admin: AdminClient, route: TopicRoute, group: str, topic: str, find_offset: OffsetFinder) -> list[QueueReset]:
    """What would change, sorted by queue. Changes nothing."""

    def ask(broker: BrokerData) -> list[QueueReset]:
        addr = broker.selected_addr()
        if addr is None:
            return []
        return [plan_queue(addr, *each) for each in sorted(targets.queue_ends(admin, addr, topic).items())]

    def plan_queue(addr: str, queue: MessageQueue, ends: TopicOffset) -> QueueReset:
        old_offset = admin.consumer_offset(addr, group, topic, queue.queue_id)
        new_offset = find_offset(addr, queue, ends, old_offset)
        return QueueReset(queue, addr, ends.min_offset, ends.max_offset, old_offset, new_offset)

    planned = [reset for part in ask_each(ask, route.broker_datas) for reset in part]
    return sorted(planned, key=lambda reset: reset.queue)


def offset_finder(admin: AdminClient, goal: Goal) -> OffsetFinder:
    """A finder of each queue's offset for a goal."""

    def find_offset(addr: str, queue: MessageQueue, ends: TopicOffset, old_offset: int | None) -> int | None:
        if goal.edge is not None:
            return ends.min_offset if goal.edge == BEGIN else ends.max_offset
        if goal.by_count is not None:
            return None if old_offset is None else within(ends, old_offset + goal.by_count)
        if goal.queue_offset is not None:
            return goal.queue_offset if goal.is_exact else within(ends, goal.queue_offset)
        assert goal.timestamp_ms is not None
        if goal.timestamp_ms < 0:
            return ends.max_offset
        return admin.search_offset(addr, queue.topic, queue.queue_id, goal.timestamp_ms)

    return find_offset


def within(ends: TopicOffset, queue_offset: int) -> int:
    """The queue offset, or the nearest limit of its queue."""
    return min(max(queue_offset, ends.min_offset), ends.max_offset)


def carry_out(
    admin: AdminClient, group: str, planned: Sequence[QueueReset], goal: Goal | None, *, only_writes: bool = False
) -> list[QueueReset]:
    """Tells each broker its queues' new offsets and reads them back. A queue's outcome holds its error; if no queue
    could be reset, an error is raised: one whose outcome is unknown, if there is one, else the first. ``goal``: what
    the plan was made from; None for an undo, and if the plan leaves out queues: a broker that can only reset all at
    once must not be asked to. ``only_writes``: resets as if no member were online; members that are online will
    overwrite the offsets."""
    errors: dict[MessageQueue, RocketMQError] = {}
    led_by_members: set[str] = set()
    for addr in dict.fromkeys(reset.broker_addr for reset in planned):
        mine = [reset for reset in planned if reset.broker_addr == addr and reset.new_offset is not None]
        try:
            reset_queue = _write(admin, addr, group) if only_writes else _way_to_reset(admin, addr, group, mine, goal)
        except RocketMQError as error:
            errors |= dict.fromkeys((reset.queue for reset in mine), error)
            continue
        if reset_queue is None:
            led_by_members.add(addr)
            continue
        for reset in mine:
            try:
                reset_queue(reset)
            except RocketMQError as error:
                errors[reset.queue] = error
    if errors and all(reset.queue in errors for reset in planned if reset.new_offset is not None):
        raise next(filter(may_have_acted, errors.values()), next(iter(errors.values())))
    why_not = "an earlier reset waits there for a member" if only_writes else _SLOW_CLIENTS
    return [
        _outcome(admin, group, reset, errors.get(reset.queue), why_not, is_led=reset.broker_addr in led_by_members)
        for reset in planned
    ]


def _way_to_reset(
    admin: AdminClient, addr: str, group: str, mine: Sequence[QueueReset], goal: Goal | None
) -> Callable[[QueueReset], object] | None:
    """How to tell a broker about one queue; None if its members, told here, can only move all at once."""
    if admin.broker_config(addr).get("useServerSideResetOffset", "").lower() == "true":
        return lambda reset: admin.reset_offset(
            addr, reset.queue.topic, group, 0, queue_id=reset.queue.queue_id, queue_offset=reset.new_offset
        )
    if not is_online(admin, addr, group):
        return _write(admin, addr, group)
    timestamp_ms = None if goal is None else goal.by_time_ms()
    if timestamp_ms is None:
        raise UsageError(
            f"{addr} leaves resets to the consumers (useServerSideResetOffset), which move online to a time only, "
            "in all queues at once",
            hint="Stop the group's consumers, or reset all queues to begin, end or a time.",
        )
    if mine:
        admin.reset_offset(addr, mine[0].queue.topic, group, timestamp_ms)
    return None


def _write(admin: AdminClient, addr: str, group: str) -> Callable[[QueueReset], object]:
    return lambda reset: admin.update_consumer_offset(
        addr, group, reset.queue.topic, reset.queue.queue_id, reset.new_offset or 0
    )


def is_online(admin: AdminClient, addr: str, group: str) -> bool:
    """Whether the broker knows a member of the group."""
    try:
        return bool(admin.consumer_connection(addr, group).connection_set)
    except RefusedError as error:
        if error.code not in (ResponseCode.CONSUMER_NOT_ONLINE, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST):
            raise
        return False


def _outcome(
    admin: AdminClient, group: str, reset: QueueReset, error: RocketMQError | None, why_not: str, *, is_led: bool
) -> QueueReset:
    """Reads back one queue's outcome. ``why_not``: the likely reason if the broker does not return the new offset.
    ``is_led``: members move the queue after they are told; until then the broker returns the old offset, which may be
    greater."""
    if reset.new_offset is None:
        return reset
    if error is not None:
        return msgspec.structs.replace(reset, error=str(error))
    try:
        found = admin.consumer_offset(reset.broker_addr, group, reset.queue.topic, reset.queue.queue_id)
    except RocketMQError as failure:  # it was told, so the others' outcomes and the way back must not be lost
        return msgspec.structs.replace(reset, error=f"told to, but its offset could not be read back: {failure}")
    has_begun = not is_led or found != reset.old_offset or found == reset.new_offset
    if found is not None and found >= reset.new_offset and has_begun:  # members may have consumed further already
        return msgspec.structs.replace(reset, done=True)
    return msgspec.structs.replace(reset, error=f"the broker says {found} afterwards: {why_not}")
