"""The revive log: what was popped (check points) and what of it is acknowledged, in the queues of the topic
``rmq_sys_REVIVE_LOG_<cluster>`` and in Apache's form (``PopMessageProcessor.buildCkMsg``, ``AckMessageProcessor``,
5.5.0).

Apache's broker sends each as a timer message that reaches this topic when it is due. Ours appends it here at once and
looks at the times itself (``revive.py``), so POP needs no timer wheel. Both find their way in what the other wrote: the
delivery time of ours is the time of writing, from which Apache's reviver takes how far the log has come.

Who has read a queue to its end is told of what is put behind that, and need not read it back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import UNSET

from rmqproto.bodies.popping import AckMessage, CheckPoint, encode_entry
from rmqproto.errors import ProtocolError
from rmqproto.java.java_numbers import saturated
from rmqproto.message import properties as props
from rmqproto.message.record import decode_record_untrusted
from rmqproto.names import revive_topic
from rmqproto.wire import fastjson

if TYPE_CHECKING:
    from rmqserver.broker.consuming.pop.revive_queue import ReviveQueue
    from rmqserver.broker.parts import BrokerParts

CHECK_POINT_TAG, ACK_TAG, BATCH_ACK_TAG = "ck", "ack", "bAck"


class ReviveEntry(NamedTuple):
    """One of a revive queue, as it was read. ``queue_offset`` is that of the revive queue."""

    body: CheckPoint | AckMessage
    queue_offset: int
    store_timestamp_ms: int
    store_host: bytes


def entry_untrusted(record: bytes) -> ReviveEntry:
    """ProtocolError if it is none."""
    message = decode_record_untrusted(record)
    tag = message.properties.get(props.TAGS)
    if tag not in (CHECK_POINT_TAG, ACK_TAG, BATCH_ACK_TAG):
        raise ProtocolError(f"tag {tag!r} is none of a check point or an acknowledgement")
    body: CheckPoint | AckMessage
    if tag == CHECK_POINT_TAG:
        body = fastjson.loads_untrusted(message.body, CheckPoint)
    else:
        body = fastjson.loads_untrusted(message.body, AckMessage)
    return ReviveEntry(body, message.queue_offset, message.store_timestamp_ms, message.store_host)


class ReviveLog:
    """Appends to the log. MessageRefused and StorageError as from the store."""

    def __init__(self, parts: BrokerParts):
        self._config = parts.config
        self._store = parts.store
        self._topics = parts.topics
        self._clock_ms = parts.clock_ms
        self.topic = revive_topic(parts.config.broker_cluster_name)
        self._turn = 0
        self._told: dict[int, ReviveQueue] = {}

    @property
    def queue_nums(self) -> int:
        """Queues that there are: with a smaller reviveQueueNum than before, more than are written to."""
        topic = self._topics.get(self.topic)
        return max(self._config.revive_queue_num, topic.read_queue_nums if topic is not None else 0)

    def next_queue_id(self) -> int:
        """For the check points of one pop: each queue in its turn."""
        queue_id = self._turn % self._config.revive_queue_num
        self._turn += 1
        return queue_id

    def tell(self, queue_id: int, queue: ReviveQueue) -> None:
        """``queue`` takes what is put into that queue, from when on it has taken all before. It does so within the
        round: before a reader of the log sees it."""
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
        # What it is stored with is known, so it needs none of the looks that ``put`` takes at a message.
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
