"""What is known of transactions that have ended, beyond the op messages.

A half message that its producer is asked about goes back to the end of the half queue, as a copy with offsets of its
own. A producer may end a transaction by the offsets of any copy, even of an old one; the op message names only that
copy. A broker that is killed may also have put messages whose op messages it had not yet written. Apache's broker
delivers such a message again after it has asked. Here a transaction is identified by what all its copies have in common
with the message that consumers see.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rmqproto.errors import ProtocolError
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage, decode_record_untrusted
from rmqproto.message.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK
from rmqproto.names import (
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANSACTION_CHECK_MAX_TIME_TOPIC,
    TRANSACTION_HALF_TOPIC,
)

if TYPE_CHECKING:
    from rmqserver.store.message_store import MessageStore

REMEMBERED_MAX = 50_000
"""Transactions that have copies. The oldest is forgotten first; then only the offsets of its newest copy end it."""

CLOCK_ERROR_MAX_MS = 86_400_000
"""How far store times may be off: clocks change."""

COPIES_MAX = 64
"""Records that are looked at for one transaction: one for each check, and others with the same hash."""

Transaction = tuple[str, int, bytes]
"""Unique key, birth in ms, and the producer's host. A second send of a message has another birth."""


def transaction_of(half: StoredMessage, properties: dict[str, str]) -> Transaction:
    return properties.get(props.UNIQUE_KEY, ""), half.born_timestamp_ms, half.born_host


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
