"""The state that ends of transactions and checks share: the progress of each half queue, ended transactions, and what
the store says of them. The progress is kept as offsets of the group CID_RMQ_SYS_TRANS in
``config/consumerOffset.json``, as by Apache's broker, and is never ahead of the device."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rmqproto.message import properties as props
from rmqproto.message.half_message import check_times
from rmqproto.names import TRANSACTION_GROUP, TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC
from rmqserver.broker.errors import TableFull
from rmqserver.broker.relays.relay import Progress
from rmqserver.broker.transactions.endings import Endings, History, transaction_of
from rmqserver.broker.transactions.half_queue import HalfQueue, true_progress

if TYPE_CHECKING:
    from rmqproto.message.record import StoredMessage
    from rmqserver.broker.tables.consumer_offsets import ConsumerOffsets
    from rmqserver.broker.tables.topics import TopicTable
    from rmqserver.broker.transactions.half_messages import OpMessages
    from rmqserver.store.disk.config_files import Document
    from rmqserver.store.message_store import MessageStore

log = logging.getLogger(__name__)


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
