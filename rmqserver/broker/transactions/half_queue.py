"""The progress in one half queue. All offsets here are queue offsets: of the half queue, and of the op queue with the
same queue id, whose messages say which half messages have ended."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rmqproto.message.special_messages import ended_in
from rmqproto.names import TRANSACTION_CHECK_MAX_TIME_TOPIC, TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC
from rmqserver.broker.transactions.half_messages import transaction_of

if TYPE_CHECKING:
    from rmqproto.message.record import StoredMessage
    from rmqserver.store.message_store import MessageStore

log = logging.getLogger(__name__)

LOOKED_AT_MAX = 10_000
"""Messages among which the end of one transaction is looked for. If it is not there, the queue is read anew."""


class HalfQueue:
    """``half_offset``: all half messages before it are dealt with, or cannot be read. ``op_offset``: all op messages
    before it name only such half messages. ``read_offset`` is where the op messages are to be read on."""

    def __init__(self, queue_id: int, half_offset: int, op_offset: int):
        self.queue_id = queue_id
        self.half_offset = half_offset
        self.op_offset = self.read_offset = op_offset
        self._ended: set[int] = set()
        """The half offsets from ``half_offset`` on that are dealt with."""
        self._ops: deque[tuple[int, int]] = deque()
        """Op messages from ``op_offset`` on, each with the highest half offset in it."""

    def end(self, half_offset: int) -> None:
        """Notes that the half message there is dealt with: committed, rolled back, put back to the end, or given up."""
        if half_offset >= self.half_offset:
            self._ended.add(half_offset)

    def end_all(self, half_offsets: range) -> None:
        for half_offset in half_offsets:
            self.end(half_offset)

    def op_read(self, op_offset: int, half_offsets: Iterable[int]) -> None:
        """Takes the op message there, the next that can be read."""
        highest = -1
        for half_offset in half_offsets:
            self.end(half_offset)
            highest = max(highest, half_offset)
        self._ops.append((op_offset, highest))

    def advance(self) -> None:
        """Moves both offsets past what is dealt with."""
        while self.half_offset in self._ended:
            self._ended.remove(self.half_offset)
            self.half_offset += 1
        while self._ops and self._ops[0][1] < self.half_offset:
            self.op_offset = self._ops.popleft()[0] + 1

    def skip_to(self, half_min_offset: int, op_min_offset: int) -> None:
        """Moves past what stood before these offsets, which retention has deleted."""
        if half_min_offset > self.half_offset:
            self.half_offset = half_min_offset
            self._ended = {offset for offset in self._ended if offset >= half_min_offset}
        self.op_offset = max(self.op_offset, op_min_offset)
        self.read_offset = max(self.read_offset, op_min_offset)

    def is_ended(self, half_offset: int) -> bool:
        return half_offset < self.half_offset or half_offset in self._ended

    def open_run(self, start: int, count_max: int) -> tuple[int, int]:
        """The first offset from ``start`` on that is not dealt with, and how many such offsets follow each other
        there."""
        while self.is_ended(start):
            start += 1
        count = 1
        while count < count_max and not self.is_ended(start + count):
            count += 1
        return start, count


def true_progress(store: MessageStore, queue_id: int, half_offset: int, op_offset: int) -> tuple[int, int]:
    """The progress to start from, if a file says these queue offsets of half and op queue. They may not be about this
    log: the file may come from another store, from a copy that was made after the log's, from a former master, or from
    a hand. Then half messages of which the log does not say that they are dealt with are asked about again."""
    topics = TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC
    half_end, op_end = (store.max_offset(topic, queue_id) for topic in topics)
    if half_offset <= half_end and op_offset <= op_end and _is_dealt_with(store, queue_id, half_offset - 1):
        return half_offset, op_offset
    half_start, op_start = (store.min_offset(topic, queue_id) for topic in topics)
    log.warning(
        "event=transactions-read-again queue=%d half_from=%d half_to=%d op_from=%d op_to=%d",
        queue_id, half_offset, half_start, op_offset, op_start,
    )  # fmt: skip
    return half_start, op_start


def _is_dealt_with(store: MessageStore, queue_id: int, half_offset: int) -> bool:
    """Whether the log says so of the half message there: an op message names it, or there is a newer copy."""
    if half_offset < store.min_offset(TRANSACTION_HALF_TOPIC, queue_id):
        return True
    half = next(store.messages(TRANSACTION_HALF_TOPIC, queue_id, half_offset), None)
    if half is None or half.queue_offset != half_offset:
        return True  # nobody can be asked about it
    op_start = store.offset_for_time(TRANSACTION_OP_TOPIC, queue_id, half.store_timestamp_ms)
    if any(half_offset in ended_in(op) for op in _some(store, TRANSACTION_OP_TOPIC, queue_id, op_start)):
        return True
    given_up_start = store.offset_for_time(TRANSACTION_CHECK_MAX_TIME_TOPIC, 0, half.store_timestamp_ms)
    copies = (
        (TRANSACTION_HALF_TOPIC, queue_id, half_offset + 1),
        (TRANSACTION_CHECK_MAX_TIME_TOPIC, 0, given_up_start),
    )
    transaction = transaction_of(half, half.properties)
    return any(transaction_of(each, each.properties) == transaction for at in copies for each in _some(store, *at))


def _some(store: MessageStore, topic: str, queue_id: int, start: int) -> Iterator[StoredMessage]:
    return store.messages(topic, queue_id, start, start + LOOKED_AT_MAX)
