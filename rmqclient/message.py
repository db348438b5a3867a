"""Messages as a producer makes them and as a consumer gets them, and the result of a send."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

import msgspec

from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import ResponseCode
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage
from rmqproto.message.special_messages import queue_offset_in_untrusted


@dataclass(slots=True)
class Message:
    """What a producer sends. ``tags`` is one tag. Each of ``keys`` is indexed, and none may contain a space.

    ``lite_topic`` names the lite topic below ``topic``, which must be a parent of lite topics. ``priority``, 0 and up,
    is for topics whose messages are popped by priority.

    ``delay_level`` 1 to 18 delays delivery by the broker's table (1 s to 2 h); 0 means no delay. ``delay_s`` delays it
    by any time, and ``deliver_at_ms`` until a time, in ms since 1970. At most one of the three may be set.
    ``jitter_ms`` adds a random time up to that to the last two, so that a million timers of one midnight do not come in
    one second.

    Messages with the same ``sharding_key`` go to one queue, where a consumer in order gets them in the order of their
    sends. ``flag`` is the application's own number. ``properties`` are the application's, and any of RocketMQ's that
    have no field here.
    """

    topic: str
    body: bytes
    tags: str | None = None
    keys: Iterable[str] | str = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    delay_level: int = 0
    flag: int = 0
    delay_s: float = 0.0
    deliver_at_ms: int = 0
    lite_topic: str | None = None
    priority: int | None = None
    sharding_key: str | None = None
    jitter_ms: int = 0

    @property
    def is_delayed(self) -> bool:
        return bool(self.delay_level or self.delay_s or self.deliver_at_ms)


class SendStatus(Enum):
    """The message is stored in all four cases. The last three say which promise of durability the broker could not keep
    in time."""

    SEND_OK = ResponseCode.SUCCESS
    FLUSH_DISK_TIMEOUT = ResponseCode.FLUSH_DISK_TIMEOUT
    FLUSH_SLAVE_TIMEOUT = ResponseCode.FLUSH_SLAVE_TIMEOUT
    SLAVE_NOT_AVAILABLE = ResponseCode.SLAVE_NOT_AVAILABLE


class SendResult(msgspec.Struct, frozen=True):
    """Where a message went. ``message_id`` is the unique key, made by the client; ``offset_message_id`` is the
    broker's. For a batch each has one id per message, joined by commas, and ``queue_offset`` is the first message's.
    ``recall_handle`` recalls a message delayed by ``delay_s`` or ``deliver_at_ms`` (``Producer.recall``).
    ``is_trace_on``: whether the broker of ``region_id`` wants sends to be traced."""

    status: SendStatus
    message_id: str
    offset_message_id: str
    queue: MessageQueue
    queue_offset: int
    region_id: str = ""
    is_trace_on: bool = True
    recall_handle: str | None = None


@dataclass(frozen=True)
class ReceivedMessage:
    """What a consumer gets: a stored message, where it came from, and what it means to the application.

    ``stored`` is the record as it lies in the log. A message that came back over a retry topic shows the topic it was
    first sent to. ``suspended_times``: how often a consumer in order has failed with it since it was pulled.
    ``light_queue``: the light queue that it was read from, if any.
    """

    stored: StoredMessage
    broker_name: str
    suspended_times: int = 0
    light_queue: MessageQueue | None = None

    @cached_property
    def properties(self) -> dict[str, str]:
        return self.stored.properties

    @cached_property
    def body(self) -> bytes:
        """The body, decompressed if necessary. ProtocolError if that fails."""
        return self.stored.plain_body()

    @property
    def topic(self) -> str:
        return self.properties.get(props.RETRY_TOPIC) or self.stored.topic

    @property
    def queue(self) -> MessageQueue:
        """The queue that the message was read from: one of the retry topic for a message that came back."""
        return self.light_queue or MessageQueue(self.stored.topic, self.broker_name, self.stored.queue_id)

    @property
    def queue_offset(self) -> int:
        """The offset in ``queue``."""
        return self.stored.queue_offset if self.light_queue is None else self._light_queue_offset

    @cached_property
    def _light_queue_offset(self) -> int:
        return queue_offset_in_untrusted(self.stored, self.queue.topic)

    @property
    def tags(self) -> str | None:
        return self.properties.get(props.TAGS)

    @property
    def keys(self) -> list[str]:
        return props.split_keys(self.properties.get(props.KEYS, ""))

    @property
    def lite_topic(self) -> str | None:
        return self.properties.get(props.LITE_TOPIC)

    @property
    def sharding_key(self) -> str | None:
        return self.properties.get(props.SHARDING_KEY)

    @property
    def message_id(self) -> str:
        """The unique key, or the offset message id of a message whose producer gave it none."""
        return self.properties.get(props.UNIQUE_KEY) or self.stored.message_id

    @property
    def offset_message_id(self) -> str:
        return self.stored.message_id

    @property
    def reconsume_times(self) -> int:
        return self.stored.reconsume_times + self.suspended_times

    @property
    def born_timestamp_ms(self) -> int:
        return self.stored.born_timestamp_ms

    @property
    def store_timestamp_ms(self) -> int:
        return self.stored.store_timestamp_ms
