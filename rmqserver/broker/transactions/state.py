"""The state that ends of transactions and checks share: the progress of each half queue, ended transactions, and what
the store says of them. The progress is kept as offsets of the group CID_RMQ_SYS_TRANS in
``config/consumerOffset.json``, as by Apache's broker, and is never ahead of the device.

A half message that its producer is asked about goes back to the end of the half queue, as a copy with offsets of its
own. A producer may end a transaction by the offsets of any copy, even of an old one; the op message names only that
copy. A broker that is killed may also have put messages whose op messages it had not yet written. Apache's broker
delivers such a message again after it has asked. Here a transaction is identified by what all its copies have in
common with the message that consumers see."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rmqproto.errors import ProtocolError
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage, decode_record_untrusted
from rmqproto.message.special_messages import check_times
from rmqproto.message.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK
from rmqproto.names import (
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANSACTION_CHECK_MAX_TIME_TOPIC,
    TRANSACTION_GROUP,
    TRANSACTION_HALF_TOPIC,
    TRANSACTION_OP_TOPIC,
)
from rmqserver.broker.errors import TableFull
from rmqserver.broker.relays.relay import Progress
from rmqserver.broker.transactions.half_messages import Transaction, transaction_of
from rmqserver.broker.transactions.half_queue import HalfQueue, true_progress

if TYPE_CHECKING:
    from rmqserver.broker.tables.consumer_offsets import ConsumerOffsets
    from rmqserver.broker.tables.topics import TopicTable
    from rmqserver.broker.transactions.half_messages import OpMessages
    from rmqserver.store.disk.config_files import Document
    from rmqserver.store.message_store import MessageStore

log = logging.getLogger(__name__)


REMEMBERED_MAX = 50_000
"""Transactions that have copies. The oldest is forgotten first; then only the offsets of its newest copy end it."""

CLOCK_ERROR_MAX_MS = 86_400_000
"""How far store times may be off: clocks change."""

COPIES_MAX = 64
"""Records that are looked at for one transaction: one for each check, and others with the same hash."""


class Endings:
    """Of transactions that have copies."""

    def __init__(self) -> None:
        self._is_committed: OrderedDict[Transaction, bool | None] = OrderedDict()
        """None of one that has not ended."""

    def copied(self, transaction: Transaction) -> None:
        self._put(transaction, self._is_committed.get(transaction))

    def note(self, transaction: Transaction, *, is_committed: bool) -> None:
        self._put(transaction, is_committed or self.is_committed(transaction))

    def _put(self, transaction: Transaction, is_committed: bool | None) -> None:
        self._is_committed[transaction] = is_committed
        self._is_committed.move_to_end(transaction)
        if len(self._is_committed) > REMEMBERED_MAX:
            self._is_committed.popitem(last=False)

    def has_copies(self, transaction: Transaction) -> bool:
        return transaction in self._is_committed

    def is_ended(self, transaction: Transaction) -> bool:
        return self._is_committed.get(transaction) is not None

    def is_committed(self, transaction: Transaction) -> bool:
        return bool(self._is_committed.get(transaction))


class History:
    """What the store's index knows of half messages that were stored before this process opened the store. Only about
    those may the memory lack something. Without an index they are asked about once more than needed, as by Apache's
    broker."""

    def __init__(self, store: MessageStore, opened_at: int):
        """``opened_at``: the log's end when the store was opened."""
        self._store = store
        self._opened_at = opened_at

    def is_about(self, log_offset: int) -> bool:
        return log_offset < self._opened_at

    def knows(self, log_offset: int) -> bool:
        """Whether it can tell of the half message at that log offset now: soon after kill -9 the index lacks some."""
        return not self.is_about(log_offset) or self._store.has_whole_index

    def is_committed(self, half: StoredMessage, properties: dict[str, str]) -> bool:
        topics = (properties.get(props.REAL_TOPIC, ""), SCHEDULE_TOPIC, TIMER_TOPIC)
        return any(
            record.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT for record in self._kin(half, properties, topics)
        )

    def has_newer_copy(self, half: StoredMessage, properties: dict[str, str]) -> bool:
        """Whether a newer copy is in the half queue, or among those that were given up."""
        kin = self._kin(half, properties, (TRANSACTION_HALF_TOPIC, TRANSACTION_CHECK_MAX_TIME_TOPIC))
        return any(record.log_offset > half.log_offset for record in kin)

    def _kin(self, half: StoredMessage, properties: dict[str, str], topics: tuple[str, ...]) -> list[StoredMessage]:
        """Records of the same transaction in these topics."""
        if not self.is_about(half.log_offset):
            return []
        transaction = transaction_of(half, properties)
        if not transaction[0]:
            return []
        begin_ms, end_ms = half.store_timestamp_ms - CLOCK_ERROR_MAX_MS, self._store.clock_ms() + CLOCK_ERROR_MAX_MS
        return [
            message for topic in topics
            for message in indexed(self._store, topic, transaction[0], begin_ms, end_ms)
            if transaction_of(message, message.properties) == transaction
        ]  # fmt: skip


def indexed(store: MessageStore, topic: str, unique_key: str, begin_ms: int, end_ms: int) -> Iterator[StoredMessage]:
    """Messages of the topic with that unique key, in log order. May wait for the device."""
    for record in store.query(topic, unique_key, COPIES_MAX, begin_ms, end_ms, "U").records:
        try:
            message = decode_record_untrusted(record)
            is_it = message.properties.get(props.UNIQUE_KEY) == unique_key and message.topic == topic
        except ProtocolError:  # a damaged record says nothing
            continue
        if is_it:
            yield message


class TransactionState:
    """To ``load`` when the store is open."""

    def __init__(self, store: MessageStore, topics: TopicTable, offsets: ConsumerOffsets, op_messages: OpMessages):
        self.endings = Endings()
        self.op_messages = op_messages
        self.progress = Progress(store, self._document, self._save)
        self._store = store
        self._topics = topics
        self._offsets = offsets
        self._queues: dict[int, HalfQueue] = {}
        self._history = History(store, opened_at=0)

    def load(self) -> None:
        self._history = History(self._store, opened_at=self._store.written_offset)
        self.queues()
        self.progress.loaded()

    def queues(self) -> list[HalfQueue]:
        """The half queues that exist now: one, unless somebody made more."""
        config = self._topics.get(TRANSACTION_HALF_TOPIC)
        return [self._queue(queue_id) for queue_id in range(config.read_queue_nums if config is not None else 1)]

    def _queue(self, queue_id: int) -> HalfQueue:
        found = self._queues.get(queue_id)
        if found is None:
            half, op = (self._committed(topic, queue_id) for topic in (TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC))
            found = self._queues[queue_id] = HalfQueue(queue_id, *true_progress(self._store, queue_id, half, op))
        return found

    def _committed(self, topic: str, queue_id: int) -> int:
        queue_offset = self._offsets.committed(TRANSACTION_GROUP, topic, queue_id)
        return self._store.min_offset(topic, queue_id) if queue_offset is None else queue_offset

    # --- ends --------------------------------------------------------------------------------------------------------

    def end(self, half: StoredMessage) -> None:
        """Notes that the half message is dealt with; an op message is to say so."""
        self._queue(half.queue_id).end(half.queue_offset)
        self.op_messages.add(half)

    def replaced(self, half: StoredMessage, properties: dict[str, str]) -> None:
        """Notes that a copy at the end of the queue has taken the half message's place."""
        self._queue(half.queue_id).end(half.queue_offset)
        self.endings.copied(transaction_of(half, properties))

    def may_have_copies(self, half: StoredMessage, properties: dict[str, str]) -> bool:
        """Whether the half message may be a copy, or have one that was put back to the end of its queue."""
        return (
            self._history.is_about(half.log_offset)
            or check_times(properties) > 0
            or props.TRAN_PREPARED_QUEUE_OFFSET in properties
            or self.endings.has_copies(transaction_of(half, properties))
        )

    def is_dealt_with(self, half: StoredMessage) -> bool:
        """Whether the half message needs no decision, or has a newer copy that does."""
        return self._queue(half.queue_id).is_ended(half.queue_offset)

    def knows(self, log_offset: int) -> bool:
        """Whether ``is_committed`` and ``is_over`` can tell of the half message at that log offset now."""
        return self._history.knows(log_offset)

    def is_committed(self, half: StoredMessage, properties: dict[str, str]) -> bool:
        """Whether consumers have the message, through this half message or a copy of it."""
        return self.endings.is_committed(transaction_of(half, properties)) or self._history.is_committed(
            half, properties
        )

    def is_over(self, half: StoredMessage, properties: dict[str, str]) -> bool:
        """Whether the half message needs no decision any more: its transaction has ended, or there is a newer copy to
        be asked about."""
        return (
            self.endings.is_ended(transaction_of(half, properties))
            or self._history.is_committed(half, properties)
            or self._history.has_newer_copy(half, properties)
        )

    # --- progress ----------------------------------------------------------------------------------------------------

    def save_when_kept(self) -> None:
        for queue in self._queues.values():
            queue.advance()
        self.progress.save_when_kept()

    def save(self) -> None:
        """Saves the progress at the end, when all of the log is kept."""
        for queue in self._queues.values():
            queue.advance()
        self.progress.save()

    def _document(self) -> Document:
        """Offsets of half and op queue, by queue id."""
        return {queue_id: (queue.half_offset, queue.op_offset) for queue_id, queue in self._queues.items()}

    def _save(self, document: Document) -> None:
        try:
            for queue_id, (half_offset, op_offset) in document.items():
                self._offsets.commit(TRANSACTION_GROUP, TRANSACTION_HALF_TOPIC, queue_id, half_offset)
                self._offsets.commit(TRANSACTION_GROUP, TRANSACTION_OP_TOPIC, queue_id, op_offset)
        except TableFull as error:
            log.error("event=transaction-offsets-not-saved reason=%r", str(error))
