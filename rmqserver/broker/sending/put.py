"""The full way of a message into the store: the rules for all messages change it, the store takes it, it is counted,
and its maker is told when the store has done what was promised."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rmqproto.message import properties as props
from rmqproto.names import TRANSACTION_HALF_TOPIC
from rmqserver.broker.sending.pending import OnDone
from rmqserver.broker.sending.properties import wants_safe
from rmqserver.core import Appended
from rmqserver.store.new_message import NewMessage

if TYPE_CHECKING:
    from rmqproto.message.record import StoredMessage
    from rmqserver.broker.sending.pending import PendingPuts
    from rmqserver.broker.sending.rewrites import Rewrites, Sender
    from rmqserver.broker.stats import BrokerStats
    from rmqserver.broker.tables.topic_counts import TransactionMetrics
    from rmqserver.store.message_store import MessageStore

_MULTI_DISPATCH = props.MULTI_DISPATCH.encode()


class SendOutcome(msgspec.Struct, frozen=True, gc=False):
    """A message that was put, as its producer is told of it. ``unique_key`` is empty if it has none; ``batch`` has the
    log offsets of a whole batch, of which it is the first."""

    appended: Appended
    queue_id: int
    store_host: bytes
    unique_key: bytes
    recall_handle: str | None = None
    batch: list[int] | None = None
    is_repeat: bool = False


class Put:
    def __init__(
        self, store: MessageStore, stats: BrokerStats, pending: PendingPuts, metrics: TransactionMetrics,
        rewrites: Rewrites,
    ):  # fmt: skip
        self._store = store
        self._stats = stats
        self._pending = pending
        self._metrics = metrics
        self._rewrites = rewrites

    def put(self, message: NewMessage) -> Appended:
        """Takes the message into this round. The rules may change it: afterwards its topic and queue are those where it
        waits. Raises Refused or MessageRefused if it cannot be taken; nothing is stored then."""
        self._rewrites.for_all(message)
        return self.put_through(message)

    def put_from(self, sender: Sender, message: NewMessage) -> tuple[Appended, int]:
        """As ``put``, for a producer's message: the rules for producers come first. Returns where it went, and the
        queue that its producer is told: the one in its own topic, even if it waits elsewhere. Afterwards the message
        has a unique key."""
        message.sys_flag |= sender.target.sys_flag
        self._rewrites.for_producer(message, sender)
        queue_id = message.queue_id
        self._rewrites.half_message(message)
        appended = self.put(message)
        if message.topic == TRANSACTION_HALF_TOPIC:
            self._metrics.add(message.properties[props.REAL_TOPIC], 1)
        return appended, queue_id

    def put_through(self, message: NewMessage) -> Appended:
        """As ``put``, for a message that has passed the rules before: it waited, and is delivered now."""
        appended = self._store.put(message)
        self._count(message.topic, appended)
        return appended

    def put_on(self, message: StoredMessage, topic: str, queue_id: int, properties: bytes) -> Appended:
        """As ``put_through``, for a stored message that goes on to a queue with these properties, in the form of a
        record. They are parsed only if the message also goes to light queues."""
        if _MULTI_DISPATCH in properties:
            return self.put_through(
                NewMessage(
                    topic, queue_id, message.flag, message.sys_flag, message.born_timestamp_ms, message.born_host,
                    message.store_host, message.reconsume_times, message.body, props.parse_untrusted(properties),
                )
            )  # fmt: skip
        appended = self._store.append(
            topic, queue_id, message.flag, message.sys_flag, message.born_timestamp_ms, message.born_host,
            message.store_host, message.reconsume_times, message.body, properties,
        )  # fmt: skip
        self._count(topic, appended)
        return appended

    def _count(self, topic: str, appended: Appended) -> None:
        self._stats.puts[topic].add(1, appended.size_bytes)

    def when_stored(self, properties: dict[str, str], on_done: OnDone) -> None:
        """Calls ``on_done`` once, when everything put so far is as safe as the broker promises to the producer of a
        message with these properties, or is lost."""
        self._pending.wait(on_done, until_safe=self.knows_safe and wants_safe(properties))

    def when_stored_at(self, log_offset: int, properties: dict[str, str], on_done: OnDone) -> None:
        """As ``when_stored``, for a message that was put at that log offset before."""
        until_safe = wants_safe(properties) and not self._pending.is_safe(log_offset)
        self._pending.wait(on_done, until_safe=self.knows_safe and until_safe)

    @property
    def knows_safe(self) -> bool:
        """Whether a message counts as stored only when it is on the device, or on slaves."""
        return self._pending.knows_safe
