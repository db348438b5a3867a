"""The state of groups, with all that matters when one lags: lag and its age by queue, whether it grows, which member
owns which queue, and how long the broker still keeps the waiting messages.

Several groups are read together, so that they share the pause between the two readings of their offsets. A broker that
does not answer is named and left out.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.groups.consumption import GroupClients, GroupOffsets, read_told_clients, read_told_offsets
from rmqadmin.core.groups.lag import (
    Idle,
    KeptSettings,
    LagTrend,
    UnreadLags,
    first_waiting_ms,
    lost_count,
    read_min_offsets,
    stuck_queues,
    trend_of,
)
from rmqadmin.core.groups.queue_owners import BROADCASTING, QueueOwners, QueueState, members_max, read_queue_owners
from rmqadmin.core.servers.broker_answers import ask_each
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import CONSUME_PASSIVELY, CONSUME_POP
from rmqproto.bodies.routes import BrokerData
from rmqproto.bodies.statistics import ConsumeOffset, lag_of
from rmqproto.codes import MESSAGE_TYPE, TopicMessageType
from rmqproto.errors import RocketMQError
from rmqproto.names import RETRY_PREFIX


def read_uncommitted(
    admin: AdminClient, brokers: Sequence[BrokerData], clients: GroupClients, known: Collection[str]
) -> dict[str, int]:
    """Such topics, and how many messages each has on these brokers; topics without messages are left out. ``known``:
    topics where the group has an offset. Members in broadcast mode, and those that pull, may keep their offsets
    themselves, and consumers of lite topics have offsets in those; they are left out. A broker that does not answer
    counts as having none."""
    if not clients.connections or clients.consume_type != CONSUME_PASSIVELY or clients.message_model == BROADCASTING:
        return {}

    def count(topic: str, addr: str) -> int:
        if admin.topic_config(addr, topic).attributes.get(MESSAGE_TYPE) == TopicMessageType.LITE:
            return 0
        return sum(each.max_offset - each.min_offset for each in admin.topic_stats(addr, topic).offset_table.values())

    addrs = targets.selected_addrs(brokers)
    found = {
        topic: sum(targets.or_none(partial(count, topic, addr)) or 0 for addr in addrs)
        for topic in sorted(clients.subscriptions)
        if topic not in known and not topic.startswith(RETRY_PREFIX)
    }
    return {topic: count for topic, count in found.items() if count}


_NEAR_PART = 10
"""If less than one part in this many of the retention time is left, the user is told."""

QUEUES_DATED_MAX = 64
"""How many queues of one group have their first waiting message read. A broker counts each as a message delivered."""


class QueueStanding(msgspec.Struct, frozen=True, kw_only=True):
    """One queue of a group. ``min_offset``: queue offset of the first message that remains; ``oldest_waiting_ms``: when
    the first uncommitted message was stored; ``moved_count``: how far the committed offset moved between the readings,
    None without a second one; ``reserved_ms``: how long its broker, at ``broker_addr``, keeps messages. None means
    unknown, and is not read for a queue without lag."""

    queue: MessageQueue
    entry: ConsumeOffset
    moved_count: int | None = None
    is_stuck: bool = False
    min_offset: int | None = None
    oldest_waiting_ms: int | None = None
    reserved_ms: int | None = None
    broker_addr: str | None = None
    owners: list[str] = []
    state: QueueState | None = None
    is_unread: bool = False
    """Whether consumers do not read it: the topic has fewer read queues."""
    idle_ms: int | None = None
    """For how long its committed offset has not moved while messages waited, as far as that was watched."""

    @property
    def lag_count(self) -> int:
        return lag_of(self.entry)

    @property
    def lost_count(self) -> int:
        return 0 if self.min_offset is None else lost_count(self.entry, self.min_offset)

    def retention_left_ms(self, now_ms: int) -> int | None:
        """How long the first waiting message is safe from deletion by age, perhaps below 0. None if unknown."""
        if self.oldest_waiting_ms is None or self.reserved_ms is None:
            return None
        return self.oldest_waiting_ms + self.reserved_ms - now_ms

    def retention_near_ms(self, now_ms: int) -> int | None:
        """``retention_left_ms``, but None if that is long."""
        left_ms = self.retention_left_ms(now_ms)
        return None if left_ms is None or left_ms >= (self.reserved_ms or 0) // _NEAR_PART else left_ms


NOBODY = GroupClients({}, {}, {}, None, None, None)


class GroupStanding(msgspec.Struct, frozen=True, kw_only=True):
    """One group. ``trend`` is None if its offsets were read once, ``owners`` if no member is online or none was asked.
    ``uncommitted``: topics that it consumes without an offset, with their message counts. ``lacking``: brokers that did
    not answer, and why. ``error``: why nothing is known. ``member_count`` is None if nobody could be asked. Known only
    to somebody who watches for minutes: ``idle``, and ``was_online``, whether it had members before."""

    group: str
    queues: list[QueueStanding] = []
    uncommitted: Mapping[str, int] = {}
    trend: LagTrend | None = None
    clients: GroupClients = NOBODY
    owners: QueueOwners | None = None
    lacking: Mapping[str, str] = {}
    error: RocketMQError | None = None
    member_count: int | None = None
    idle: Idle | None = None
    was_online: bool = False

    @property
    def lag_count(self) -> int:
        return sum(queue.lag_count for queue in self.queues)

    @property
    def queue_count(self) -> int:
        if self.owners is not None:
            return self.owners.queue_count
        return members_max(one.queue for one in self.queues if not one.is_unread)

    @property
    def has_spare(self) -> bool:
        """Whether it has more members than queues, as far as its offsets tell."""
        takes_turns = self.clients.consume_type == CONSUME_POP or self.clients.message_model == BROADCASTING
        return not takes_turns and not self.uncommitted and 0 < self.queue_count < self.clients.count

    @property
    def nobody_text(self) -> str:
        """What to say if no member is known."""
        return "nobody is known to be online" if self.lacking else "nobody is online"

    @property
    def oldest_waiting_ms(self) -> int | None:
        return min(
            (queue.oldest_waiting_ms for queue in self.queues if queue.oldest_waiting_ms is not None), default=None
        )


class _Reading(msgspec.Struct, frozen=True):
    """A group's offsets, and when they were read, by a monotonic clock."""

    offsets: GroupOffsets
    lacking: Mapping[str, str]
    at_s: float

    @property
    def is_behind(self) -> bool:
        return any(map(lag_of, self.offsets.offsets.values()))


class StandingsReader(msgspec.Struct, frozen=True, kw_only=True):
    """How groups are read. ``members`` asks their clients, on its own connections, because a broker takes 10 s to
    answer for a silent client, and many would hold up others; None asks no clients. ``sample_s``: the time between the
    two readings of a group that lags; 0 for one reading."""

    admin: AdminClient
    members: AdminClient | None
    sample_s: float
    now_ms: int
    topic: str | None = None
    queues_dated_max: int = QUEUES_DATED_MAX
    patience_ms: int = 0
    """A group with members is read a second time if what it last consumed of a queue with lag is older than this."""
    pause: Callable[[float], None] = time.sleep
    settings: KeptSettings = msgspec.field(default_factory=KeptSettings)
    """How long brokers keep messages, asked once for all groups."""

    def read(self, groups: Mapping[str, Sequence[BrokerData]]) -> list[GroupStanding]:
        """Reads the groups, in their order; ``groups`` says on which brokers each may have offsets."""
        unread = UnreadLags(self.admin, len(groups))
        firsts = ask_each(lambda group: self._first(group, groups[group]), list(groups))
        pairs = dict(zip(groups, firsts, strict=True))
        again = [group for group, first in pairs.items() if self._is_worth_a_pause(group, groups[group], first)]
        if again:
            latest_s = max(first.at_s for first in (pairs[group] for group in again) if isinstance(first, _Reading))
            self.pause(max(0.0, latest_s + self.sample_s - time.monotonic()))

        def finish(group: str) -> GroupStanding:
            return self._standing(group, groups[group], pairs[group], unread, is_again=bool(again))

        return ask_each(finish, list(groups))

    def _is_worth_a_pause(self, group: str, brokers: Sequence[BrokerData], first: _Reading | RocketMQError) -> bool:
        """Whether a second reading may show more than the first."""
        if isinstance(first, RocketMQError) or not first.is_behind or self.sample_s <= 0:
            return False
        if not self.patience_ms:
            return True
        last_ms = [entry.last_timestamp for entry in first.offsets.offsets.values() if lag_of(entry)]
        if self.now_ms - min(last_ms) < self.patience_ms:
            return False
        told = [broker for broker in brokers if broker.broker_name not in first.lacking]
        return bool(read_told_clients(self.admin, told, group)[0].connections)

    def _first(self, group: str, brokers: Sequence[BrokerData]) -> _Reading | RocketMQError:
        try:
            offsets, lacking = read_told_offsets(self.admin, brokers, group, self.topic)
        except RocketMQError as error:
            return error
        return _Reading(offsets, lacking, time.monotonic())

    def _standing(
        self,
        group: str,
        brokers: Sequence[BrokerData],
        first: _Reading | RocketMQError,
        unread: UnreadLags,
        *,
        is_again: bool,
    ) -> GroupStanding:
        if isinstance(first, RocketMQError):
            return GroupStanding(group=group, clients=NOBODY, error=first)
        told = [broker for broker in brokers if broker.broker_name not in first.lacking]
        second = self._first(group, told) if first.is_behind and is_again else None
        last = second if isinstance(second, _Reading) else first
        trend = trend_of(first.offsets, last.offsets, last.at_s - first.at_s) if last is not first else None
        stuck = set(stuck_queues(first.offsets, last.offsets)) if trend is not None else set()
        clients, deaf = read_told_clients(self.admin, told, group)
        owners, members = None, self.members
        if members is not None and clients.connections:  # None if no route can be read
            owners = targets.or_none(lambda: read_queue_owners(members, told, group, clients))
        known = {queue.topic for queue in last.offsets.offsets}
        uncommitted = {} if self.topic is not None else read_uncommitted(self.admin, told, clients, known)
        details = self._details(told, last.offsets)
        before = first.offsets.offsets if trend is not None else {}
        queues = [
            QueueStanding(
                queue=queue,
                entry=entry,
                moved_count=entry.consumer_offset - before[queue].consumer_offset if queue in before else None,
                is_stuck=queue in stuck,
                owners=[] if owners is None else owners.queues.get(queue, []),
                state=None if owners is None or queue not in owners.queues else owners.state(queue),
                **details.get(queue, {}),
            )
            for queue, entry in last.offsets.offsets.items()
        ]
        queues += [
            QueueStanding(
                queue=one.queue,
                entry=one.entry,
                broker_addr=one.broker_addr,
                is_unread=True,
                oldest_waiting_ms=first_waiting_ms(self.admin, one.broker_addr, one.queue, one.entry)
                if at < self.queues_dated_max
                else None,
            )
            for at, one in enumerate(unread.read(group, told, self.topic))
        ]
        return GroupStanding(
            group=group, queues=queues, trend=trend, clients=clients, owners=owners, uncommitted=uncommitted,
            lacking={**first.lacking, **last.lacking, **deaf}, member_count=clients.count,
        )  # fmt: skip

    def _details(self, brokers: Sequence[BrokerData], offsets: GroupOffsets) -> dict[MessageQueue, dict[str, Any]]:
        """Of each queue with lag what only its broker knows, as fields of its ``QueueStanding``."""
        addrs = {broker.broker_name: addr for broker in brokers if (addr := broker.selected_addr()) is not None}
        behind = [(queue, entry) for queue, entry in offsets.offsets.items() if lag_of(entry)]
        behind.sort(key=lambda pair: pair[1].last_timestamp)
        places = sorted({(addrs[queue.broker_name], queue.topic) for queue, _ in behind if queue.broker_name in addrs})
        found = ask_each(lambda place: read_min_offsets(self.admin, *place), places)
        begins = dict(zip(places, found, strict=True))
        reserved_ms = {addr: self.settings.reserved_ms(self.admin, addr) for addr, _ in places}

        def detail(of: tuple[int, tuple[MessageQueue, ConsumeOffset]]) -> dict[str, Any]:
            at, (queue, entry) = of
            addr = addrs.get(queue.broker_name)
            if addr is None:
                return {}
            min_offset = begins[addr, queue.topic].get(queue)
            stored_ms = None
            if at < self.queues_dated_max:
                first = max(entry.consumer_offset, min_offset or 0)  # deleted messages cannot be read
                there = ConsumeOffset(broker_offset=entry.broker_offset, consumer_offset=first)
                stored_ms = first_waiting_ms(self.admin, addr, queue, there)
            return {
                "min_offset": min_offset,
                "oldest_waiting_ms": stored_ms,
                "reserved_ms": reserved_ms[addr],
                "broker_addr": addr,
            }

        details = ask_each(detail, list(enumerate(behind)))
        return {queue: of_queue for (queue, _), of_queue in zip(behind, details, strict=True)}
