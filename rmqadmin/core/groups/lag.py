"""How old a lag is, how it changes, how long the messages in it are still kept, and what groups have left in queues
that consumers do not read: brokers report lag only for the topics' read queues, so that a topic that was given fewer of
them seems to be consumed.

A broker deletes a file of its log when the newest message in it is older than ``fileReservedTime`` hours, so a message
is safe for that long after it was stored.
"""

import time
from collections.abc import Mapping, Sequence
from enum import StrEnum
from threading import Lock

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.groups.consumption import GroupOffsets
from rmqadmin.core.topic_and_group_configs import read_topic
from rmqadmin.core.topics.stored_queues import UnreadQueue, unread_queues
from rmqadmin.core.units import duration
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import BrokerData, TopicConfig
from rmqproto.bodies.statistics import ConsumeOffset, TopicOffset, lag_of, unread_offset
from rmqproto.errors import RocketMQError
from rmqproto.names import DLQ_PREFIX, RETRY_PREFIX

SAMPLE_DEFAULT_S = 6.0
"""Longer than the time between two commits of a client."""

LAG_AGE_MS = 5 * 60_000
"""A lag whose oldest message has waited for less than this is no cause for concern."""

FORETOLD_FROM_MS = 10_000
"""An earlier end than this is not foretold: a lag that comes and goes within two readings says nothing about it."""


class Idle(msgspec.Struct, frozen=True):
    """For how long a group with lag has consumed nothing, or no more than ``consumed_count`` messages between two that
    held it up, and how much its lag has grown in that time."""

    for_ms: int
    lag_grown_count: int
    consumed_count: int = 0


class LagMotion(StrEnum):
    GROWING = "growing"
    SHRINKING = "shrinking"
    STEADY = "steady"


class LagTrend(msgspec.Struct, frozen=True):
    """How a group's lag changed in ``elapsed_s``, over the queues in both readings."""

    elapsed_s: float
    lag_before_count: int
    lag_count: int
    consumed_count: int

    @property
    def motion(self) -> LagMotion:
        if self.lag_count == self.lag_before_count:
            return LagMotion.STEADY
        return LagMotion.GROWING if self.lag_count > self.lag_before_count else LagMotion.SHRINKING

    @property
    def consumed_tps(self) -> float:
        return self._per_s(self.consumed_count)

    @property
    def arrived_tps(self) -> float:
        return self._per_s(self.lag_count - self.lag_before_count + self.consumed_count)

    @property
    def drain_ms(self) -> int | None:
        """How long until no lag is left at this rate. None if the lag does not shrink."""
        if self.lag_count == 0:
            return 0
        shrunk_per_s = self._per_s(self.lag_before_count - self.lag_count)
        return round(self.lag_count / shrunk_per_s * 1000) if shrunk_per_s > 0 else None

    @property
    def drain_text(self) -> str:
        """When no lag is left, in words."""
        return "never at this rate" if self.drain_ms is None else f"in {duration(self.drain_ms)}"

    def _per_s(self, count: int) -> float:
        return count / self.elapsed_s if self.elapsed_s > 0 else 0.0


def trend_of(before: GroupOffsets, after: GroupOffsets, elapsed_s: float) -> LagTrend:
    both = [queue for queue in after.offsets if queue in before.offsets]
    return LagTrend(
        elapsed_s,
        sum(lag_of(before.offsets[queue]) for queue in both),
        sum(lag_of(after.offsets[queue]) for queue in both),
        sum(after.offsets[queue].consumer_offset - before.offsets[queue].consumer_offset for queue in both),
    )


def stuck_queues(before: GroupOffsets, after: GroupOffsets) -> list[MessageQueue]:
    """Queues whose committed offset did not move although messages were waiting all the time."""
    return [
        queue
        for queue, entry in after.offsets.items()
        if (first := before.offsets.get(queue)) is not None
        and lag_of(first) > 0
        and lag_of(entry) > 0
        and entry.consumer_offset == first.consumer_offset
    ]


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


def lost_count(entry: ConsumeOffset, min_offset: int) -> int:
    """Messages deleted before they were consumed; ``min_offset`` is the queue offset of the first one that remains."""
    return max(0, min(min_offset, entry.broker_offset) - entry.consumer_offset)


QUEUES_READ_MAX = 32
"""How many queues of one group have a message read at once. For the others, the answer is the brokers' own."""


HEADS_MAX, HEADS_KEPT_S = 10_000, 60.0


class KnownHeads:
    """When the first waiting message of each queue was stored, for messages read in the last minute. A message stays
    the first until its group moves on, and a broker counts each reading of it as a delivered message. Any thread may
    use it."""

    def __init__(self) -> None:
        self._read: dict[tuple[MessageQueue, int], tuple[float, int]] = {}

    def get(self, queue: MessageQueue, queue_offset: int) -> int | None:
        read_s, stored_ms = self._read.get((queue, queue_offset), (0.0, 0))
        return stored_ms if time.monotonic() - read_s < HEADS_KEPT_S else None

    def put(self, queue: MessageQueue, queue_offset: int, stored_ms: int) -> None:
        if len(self._read) >= HEADS_MAX:
            self._read = {}
        self._read[queue, queue_offset] = time.monotonic(), stored_ms


def oldest_waiting(
    admin: AdminClient, addrs: Mapping[str, str], offsets: GroupOffsets, heads: KnownHeads | None = None
) -> tuple[MessageQueue, int] | None:
    """In which queue the oldest unconsumed message is, and when it was stored. None if there is no such message, or if
    it cannot be read. ``addrs``: broker addresses by name. ``heads``: messages that need not be read again."""
    waiting = [(queue, entry) for queue, entry in offsets.offsets.items() if lag_of(entry)]
    waiting.sort(key=lambda pair: pair[1].last_timestamp)
    oldest: tuple[MessageQueue, int] | None = None
    for queue, entry in waiting[:QUEUES_READ_MAX]:
        if oldest is not None and entry.last_timestamp >= oldest[1]:
            break
        stored_ms = first_waiting_ms(admin, addrs.get(queue.broker_name), queue, entry, heads)
        if stored_ms is not None and (oldest is None or stored_ms < oldest[1]):
            oldest = queue, stored_ms
    return oldest


def first_waiting_ms(
    admin: AdminClient,
    broker_addr: str | None,
    queue: MessageQueue,
    entry: ConsumeOffset,
    heads: KnownHeads | None = None,
) -> int | None:
    """When the first unconsumed message of one queue was stored. None if there is no such message, or if it cannot be
    read (the queue is not readable, or the message is gone)."""
    if broker_addr is None or not lag_of(entry):
        return None
    known_ms = None if heads is None else heads.get(queue, entry.consumer_offset)
    if known_ms is not None:
        return known_ms
    pulled = targets.or_none(lambda: admin.pull_message(broker_addr, queue, entry.consumer_offset, max_count=1))
    if pulled is None or not pulled.messages:
        return None
    stored_ms = pulled.messages[0].store_timestamp_ms
    if heads is not None:
        heads.put(queue, entry.consumer_offset, stored_ms)
    return stored_ms


_KEPT_S = 600.0
_HOUR_MS = 3_600_000


class KeptSettings:
    """What brokers' settings say of retention and disks, as read in the last ten minutes. Any thread may use it."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, Mapping[str, str]]] = {}

    def reserved_ms(self, admin: AdminClient, broker_addr: str) -> int | None:
        """How long a broker keeps messages. None if it does not say."""
        hours = self.of(admin, broker_addr).get("fileReservedTime", "")
        return int(hours) * _HOUR_MS if hours.isdecimal() else None

    def of(self, admin: AdminClient, broker_addr: str) -> Mapping[str, str]:
        """A broker's settings; empty if it does not say."""
        asked_s, settings = self._known.get(broker_addr, (float("-inf"), {}))
        if time.monotonic() - asked_s >= _KEPT_S:
            settings = targets.or_none(lambda: admin.broker_config(broker_addr)) or {}
            self._known[broker_addr] = time.monotonic(), settings
        return settings


def read_min_offsets(admin: AdminClient, broker_addr: str, topic: str) -> dict[MessageQueue, int]:
    """The queue offset of the first message that remains in each queue. Empty if the broker does not say."""
    stats = targets.or_none(lambda: admin.topic_stats(broker_addr, topic))
    return {} if stats is None else {queue: ends.min_offset for queue, ends in stats.offset_table.items()}


_ONE_BY_ONE_MAX = 8
"""For more groups all topics of a broker are read at once."""

_SEARCHED_MAX = 64
"""For so many topics queues past the counts are looked for; of others only those in which some group has an offset are
known."""

_AT_SEPARATOR = "@"


class UnreadQueueLag(msgspec.Struct, frozen=True):
    """One queue, and where the group stands there."""

    queue: MessageQueue
    broker_addr: str
    entry: ConsumeOffset


class UnreadLags:
    """Reads for many groups; each broker is asked for all offsets once. Any thread may use it. ``problem``: why what
    groups have left is not known on some broker."""

    def __init__(self, admin: AdminClient, group_count: int = 1):
        self._admin = admin
        self._reads_all = group_count > _ONE_BY_ONE_MAX
        self._lock = Lock()
        self._offsets: dict[str, dict[str, dict[str, Mapping[int, int]]]] = {}
        """Offsets by queue id, by address, topic and group."""
        self._configs: dict[str, Mapping[str, TopicConfig]] = {}
        self.problem: str | None = None
        self._searched_count = 0
        self._queues: dict[tuple[str, str], list[UnreadQueue]] = {}

    def read(self, group: str, brokers: Sequence[BrokerData], topic: str | None = None) -> list[UnreadQueueLag]:
        """The queues with messages that the group has not consumed, sorted; with ``topic``, only that one's. Brokers
        that do not answer, or refuse, are taken to have none."""
        found: list[UnreadQueueLag] = []
        for broker in brokers:
            addr = broker.selected_addr()
            if addr is None:
                continue
            try:
                for name, by_group in self._offsets_on(addr).items():
                    if group in by_group and topic in (None, name):
                        found += self._of_topic(broker.broker_name, addr, name, by_group[group])
            except RocketMQError as error:
                self.problem = f"queues that consumers do not read are not known on {broker.broker_name}: {error}"
        return sorted(found, key=lambda one: one.queue)

    def _offsets_on(self, addr: str) -> Mapping[str, Mapping[str, Mapping[int, int]]]:
        with self._lock:  # so that one thread asks for all
            if addr not in self._offsets:
                of_broker = self._offsets[addr] = {}  # a broker that fails is not asked again for the next group
                for key, offsets in self._admin.all_consumer_offsets(addr).offset_table.items():
                    topic, _, group = key.partition(_AT_SEPARATOR)
                    if not topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
                        of_broker.setdefault(topic, {})[group] = offsets
        return self._offsets[addr]

    def _of_topic(self, broker_name: str, addr: str, topic: str, committed: Mapping[int, int]) -> list[UnreadQueueLag]:
        found = []
        for one in self._unread(broker_name, addr, topic):
            ends = TopicOffset(min_offset=one.min_offset, max_offset=one.max_offset)
            entry = unread_offset(committed.get(one.queue.queue_id), ends)
            if entry is not None:
                found.append(UnreadQueueLag(one.queue, addr, entry))
        return found

    def _unread(self, broker_name: str, addr: str, topic: str) -> list[UnreadQueue]:
        """The topic's unread queues on a broker, which are the same for each of its groups."""
        with self._lock:
            found = self._queues.get((addr, topic))
            is_searched = self._searched_count < _SEARCHED_MAX
            self._searched_count += found is None
        if found is None:
            config, found = self._config(addr, topic), []
            known = {each for offsets in self._offsets[addr][topic].values() for each in offsets}
            if config is not None:
                found = unread_queues(self._admin, broker_name, addr, config, known, is_searched=is_searched)
            with self._lock:
                self._queues[addr, topic] = found
        return found

    def _config(self, addr: str, topic: str) -> TopicConfig | None:
        if not self._reads_all:
            return read_topic(self._admin, addr, topic)
        with self._lock:
            if addr not in self._configs:
                self._configs[addr] = self._admin.all_topics(addr).topic_config_table
        return self._configs[addr].get(topic)
