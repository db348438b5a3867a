"""The revive log: entries for popped messages (check points) and for acknowledgements, in the queues of the topic
``rmq_sys_REVIVE_LOG_<cluster>`` and in Apache's form (``PopMessageProcessor.buildCkMsg``, ``AckMessageProcessor``,
5.5.0); and the present state of each of its queues, kept in memory and read again from the log after a start.

Apache's broker sends each entry as a timer message that reaches this topic when it is due. Ours appends it here at once
and looks at the times itself (``revive.py``), so POP needs no timer wheel. Each can read what the other wrote: our
entries have the time of writing as delivery time, from which Apache's reviver takes how far the log has come.

A reader that has read a queue to its end is told of later entries, and need not read them back."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import UNSET

from rmqproto.bodies.popping import AckMessage, CheckPoint, encode_entry
from rmqproto.errors import ProtocolError
from rmqproto.java.java_numbers import saturated
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage
from rmqproto.names import revive_topic
from rmqproto.wire import fastjson

if TYPE_CHECKING:
    from rmqserver.broker.tables.topics import TopicTable
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.store.message_store import MessageStore


REVIVE_MARGIN_MS = 2000
"""How much later than its time a check point is due, since acknowledgements may be on their way (Apache:
ackTimeInterval and a second)."""

ACK_WAITS_MS = 180_000
"""How long an acknowledgement waits for its check point (reviveAckWaitMs). Only a check point that Apache's timers
still hold comes after its acknowledgements. All other acknowledgements without a check point came too late."""

MESSAGES_MAX = 127
"""The most messages of one check point: Apache keeps their number in a byte."""

_STALE_MAX = 1000
"""The heap may also hold closed check points. It is made anew when it exceeds twice the open ones by more than this."""


MergeKey = tuple[str, str, int, int, int]
"""What an acknowledgement shares with its check point: topic, group, queue id, start offset, pop time."""


def merge_key(entry: CheckPoint | AckMessage) -> MergeKey:
    return entry.topic, entry.consumer_group, entry.queue_id, entry.start_offset, entry.pop_time


class Open(msgspec.Struct):
    """A check point that is not done. ``waiting``: the queue offsets of its messages that are not acknowledged and have
    not come again. ``store_host`` is that of its entry."""

    key: MergeKey
    check_point: CheckPoint
    revive_offset: int
    due_ms: int
    waiting: list[int]
    store_host: bytes


class _Early(msgspec.Struct):
    """Acknowledgements without a check point."""

    revive_offset: int
    until_ms: int
    offsets: set[int]


class ReviveQueue:
    """The state of one revive queue. ``next_offset`` is the offset to be read next."""

    def __init__(self, next_offset: int, revived_ms: int = 0):
        """Check points that were due before ``revived_ms`` have come again, or are acknowledged."""
        self.next_offset = next_offset
        self._revived_ms = revived_ms
        self._open: dict[MergeKey, Open] = {}  # in the order of the queue
        self._early: dict[MergeKey, _Early] = {}  # in the order of the queue, too
        self._due: list[tuple[int, int, MergeKey]] = []

    @property
    def open_count(self) -> int:
        """Open check points."""
        return len(self._open)

    @property
    def done_offset(self) -> int:
        """The last offset that a start need not read again, as Apache commits it; -1: the queue must be read whole."""
        first_open, first_early = next(iter(self._open.values()), None), next(iter(self._early.values()), None)
        needed = [each.revive_offset for each in (first_open, first_early) if each is not None]
        return min([self.next_offset, *needed]) - 1

    def is_open(self, due: Open) -> bool:
        """False if the check point was acknowledged or replaced since it became due."""
        return self._open.get(due.key) is due

    def take(
        self, body: CheckPoint | AckMessage, queue_offset: int, store_timestamp_ms: int, store_host: bytes
    ) -> None:
        """Takes the next entry of the queue. Raises ProtocolError for an impossible check point, which is then
        skipped."""
        self.next_offset = queue_offset + 1
        if isinstance(body, CheckPoint):
            self._take_check_point(body, queue_offset, store_timestamp_ms, store_host)
        else:
            self._take_ack(body, queue_offset, store_timestamp_ms)

    def _take_check_point(
        self, check_point: CheckPoint, revive_offset: int, store_timestamp_ms: int, store_host: bytes
    ) -> None:
        if not 0 <= check_point.message_count <= MESSAGES_MAX:
            raise ProtocolError(f"a check point of {check_point.message_count} messages")
        key = merge_key(check_point)
        waiting = check_point.offsets
        if check_point.bit_map:
            waiting = [offset for number, offset in enumerate(waiting) if not check_point.bit_map >> number & 1]
        if self._early and (early := self._early.pop(key, None)) is not None:
            waiting = [offset for offset in waiting if offset not in early.offsets]
        self._open.pop(key, None)  # else the newer one would take the older one's place in the order
        due_ms = max(check_point.pop_time + check_point.invisible_time, store_timestamp_ms) + REVIVE_MARGIN_MS
        if waiting and due_ms >= self._revived_ms:
            self._open[key] = Open(key, check_point, revive_offset, due_ms, waiting, store_host)
            heapq.heappush(self._due, (due_ms, revive_offset, key))

    def _take_ack(self, ack: AckMessage, revive_offset: int, store_timestamp_ms: int) -> None:
        key = merge_key(ack)
        found = self._open.get(key)
        if found is None:
            until_ms = store_timestamp_ms + ACK_WAITS_MS
            early = self._early.setdefault(key, _Early(revive_offset, until_ms, set()))
            early.offsets.update(ack.offsets)
            return
        acked = ack.offsets
        if acked == found.waiting:  # usually all are acknowledged together
            found.waiting = []
        else:
            done = set(acked)
            found.waiting = [offset for offset in found.waiting if offset not in done]
        if not found.waiting:
            self.close(found)

    def next_due(self, now_ms: int) -> Open | None:
        """The check point that is overdue the longest; None if none is due. The caller closes it, writes an
        acknowledgement that closes it when it is read, puts it back, or postpones it."""
        while self._due and self._due[0][0] <= now_ms:
            _, revive_offset, key = heapq.heappop(self._due)
            found = self._open.get(key)
            if found is not None and found.revive_offset == revive_offset:
                return found
        return None

    def put_back(self, due: Open) -> None:
        """Makes the check point due again, at its ``due_ms``."""
        heapq.heappush(self._due, (due.due_ms, due.revive_offset, due.key))

    def postpone(self, due: Open, until_ms: int) -> None:
        """Makes the check point due at that time."""
        due.due_ms = until_ms
        self.put_back(due)

    def close(self, done: Open) -> None:
        """Closes a check point whose messages are all acknowledged or have come again."""
        del self._open[done.key]
        if len(self._due) > 2 * len(self._open) + _STALE_MAX:
            self._due = [(each.due_ms, each.revive_offset, key) for key, each in self._open.items()]
            heapq.heapify(self._due)

    def forget_early(self, now_ms: int) -> None:
        """Forgets acknowledgements that have waited long enough."""
        for key in [key for key, early in self._early.items() if early.until_ms <= now_ms]:
            del self._early[key]


CHECK_POINT_TAG, ACK_TAG, BATCH_ACK_TAG = "ck", "ack", "bAck"


QueueOfGroup = tuple[str, str, int]
"""Topic, group, queue id."""


class ReviveEntry(NamedTuple):
    """An entry of a revive queue, as it was read. ``queue_offset`` is its offset in the revive queue."""

    body: CheckPoint | AckMessage
    queue_offset: int
    store_timestamp_ms: int
    store_host: bytes


def entry_untrusted(message: StoredMessage) -> ReviveEntry:
    """The entry in a message of the log. Raises ProtocolError if there is none."""
    tag = message.properties.get(props.TAGS)
    if tag not in (CHECK_POINT_TAG, ACK_TAG, BATCH_ACK_TAG):
        raise ProtocolError(f"tag {tag!r} is none of a check point or an acknowledgement")
    body: CheckPoint | AckMessage
    if tag == CHECK_POINT_TAG:
        body = fastjson.loads_untrusted(message.body, CheckPoint)
    else:
        body = fastjson.loads_untrusted(message.body, AckMessage)
    return ReviveEntry(body, message.queue_offset, message.store_timestamp_ms, message.store_host)


class InFlight:
    """How many messages of each queue a group has popped and not settled (``PopInflightMessageCounter``, 5.5.0). The
    counts start at zero whenever the broker starts: they bound the memory of consumers, and are not exact."""

    def __init__(self, started_ms: int):
        self._started_ms = started_ms
        self._counts: dict[QueueOfGroup, int] = {}

    def count(self, topic: str, group: str, queue_id: int) -> int:
        return self._counts.get((topic, group, queue_id), 0)

    def popped(self, topic: str, group: str, queue_id: int, message_count: int) -> None:
        key = topic, group, queue_id
        self._counts[key] = self._counts.get(key, 0) + message_count

    def settled(self, topic: str, group: str, queue_id: int, pop_time_ms: int, message_count: int) -> None:
        """Counts messages as settled: acknowledged, come again, or popped for nothing."""
        key = topic, group, queue_id
        left = self._counts.get(key, 0) - message_count
        if pop_time_ms < self._started_ms:
            return
        if left > 0:
            self._counts[key] = left
        else:
            self._counts.pop(key, None)


class ReviveLog:
    """Appends to the log. Raises MessageRefused and StorageError as the store does."""

    def __init__(self, config: BrokerConfig, store: MessageStore, topics: TopicTable):
        self._config = config
        self._store = store
        self._topics = topics
        self._clock_ms = store.clock_ms
        self.topic = revive_topic(config.broker_cluster_name)
        self.in_flight = InFlight(store.clock_ms())
        self._turn = 0
        self._told: dict[int, ReviveQueue] = {}

    @property
    def queue_nums(self) -> int:
        """How many queues exist. After reviveQueueNum was lowered, this is more than are written to."""
        topic = self._topics.get(self.topic)
        return max(self._config.revive_queue_num, topic.read_queue_nums if topic is not None else 0)

    def next_queue_id(self) -> int:
        """The queue for the check points of one pop; the queues take turns."""
        queue_id = self._turn % self._config.revive_queue_num
        self._turn += 1
        return queue_id

    def tell(self, queue_id: int, queue: ReviveQueue) -> None:
        """``queue`` is given each entry that is put into that queue, once it has taken all earlier ones. It gets them
        within the round, before a reader of the log sees them."""
        self._told[queue_id] = queue

    def put(self, entry: CheckPoint | AckMessage, queue_id: int, store_host: bytes) -> None:
        """Puts an entry, with a key as of ``genCkUniqueId`` and ``genAckUniqueId``."""
        if isinstance(entry, CheckPoint):
            entry.revive_time = saturated(entry.pop_time + entry.invisible_time)
            tag, offset, kind = CHECK_POINT_TAG, entry.start_offset, "ck"
        else:
            tag = ACK_TAG if entry.ack_offsets is UNSET else BATCH_ACK_TAG
            offset, kind = entry.ack_offset, "ack"
        before = f"{entry.topic}@{entry.queue_id}@{offset}@{entry.consumer_group}"
        key = f"{before}@{entry.pop_time}@{entry.broker_name}@{kind}"
        now_ms = self._clock_ms()
        # The form of the record is known, so none of the checks of ``put`` is needed.
        properties = f"TAGS\x01{tag}\x02TIMER_DELIVER_MS\x01{now_ms}\x02UNIQ_KEY\x01{key}\x02".encode()
        appended = self._store.append(
            self.topic, queue_id, 0, 0, now_ms, store_host, store_host, 0, encode_entry(entry), properties, 0,
            (key.encode(), b"", tag.encode()),
        )  # fmt: skip
        told = self._told.get(queue_id)
        if told is not None and told.next_offset == appended.queue_offset:
            told.take(entry, appended.queue_offset, now_ms, store_host)
