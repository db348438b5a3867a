"""The revive log: entries for popped messages (check points) and for acknowledgements, in the queues of the topic
``rmq_sys_REVIVE_LOG_<cluster>`` and in Apache's form (``PopMessageProcessor.buildCkMsg``, ``AckMessageProcessor``,
5.5.0).

Apache's broker sends each entry as a timer message that reaches this topic when it is due. Ours appends it here at once
and looks at the times itself (``revive.py``), so POP needs no timer wheel. Each can read what the other wrote: our
entries have the time of writing as delivery time, from which Apache's reviver takes how far the log has come.

A reader that has read a queue to its end is told of later entries, and need not read them back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import UNSET

from rmqproto.bodies.popping import AckMessage, CheckPoint, encode_entry
from rmqproto.errors import ProtocolError
from rmqproto.java.java_numbers import saturated
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage
from rmqproto.names import revive_topic
from rmqproto.wire import fastjson

if TYPE_CHECKING:
    from rmqserver.broker.consuming.pop.revive_queue import ReviveQueue
    from rmqserver.broker.tables.topics import TopicTable
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.store.message_store import MessageStore

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

    def put_check_point(self, check_point: CheckPoint, queue_id: int, store_host: bytes) -> None:
        check_point.revive_time = saturated(check_point.pop_time + check_point.invisible_time)
        key = _unique_key(check_point, check_point.start_offset, "ck")
        self._put(check_point, CHECK_POINT_TAG, key, queue_id, store_host)

    def put_ack(self, ack: AckMessage, queue_id: int, store_host: bytes) -> None:
        tag = ACK_TAG if ack.ack_offsets is UNSET else BATCH_ACK_TAG
        self._put(ack, tag, _unique_key(ack, ack.ack_offset, "ack"), queue_id, store_host)

    def _put(self, body: CheckPoint | AckMessage, tag: str, key: str, queue_id: int, store_host: bytes) -> None:
        now_ms = self._clock_ms()
        # The form of the record is known, so none of the checks of ``put`` is needed.
        properties = f"TAGS\x01{tag}\x02TIMER_DELIVER_MS\x01{now_ms}\x02UNIQ_KEY\x01{key}\x02".encode()
        appended = self._store.append(
            self.topic, queue_id, 0, 0, now_ms, store_host, store_host, 0, encode_entry(body), properties, 0,
            (key.encode(), b"", tag.encode()),
        )  # fmt: skip
        told = self._told.get(queue_id)
        if told is not None and told.next_offset == appended.queue_offset:
            told.take(body, appended.queue_offset, now_ms, store_host)


def _unique_key(entry: CheckPoint | AckMessage, offset: int, kind: str) -> str:
    """``genCkUniqueId``, ``genAckUniqueId``."""
    before = f"{entry.topic}@{entry.queue_id}@{offset}@{entry.consumer_group}"
    return f"{before}@{entry.pop_time}@{entry.broker_name}@{kind}"
