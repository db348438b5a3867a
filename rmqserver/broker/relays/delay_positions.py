"""Which messages of a delay level this log really has delivered. A ``delayOffset.json`` may say more: it may come from
another store, from a copy that was made after the log's, from a former master, or from a hand."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from rmqproto.errors import ProtocolError
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage, decode_record_untrusted
from rmqproto.names import SCHEDULE_TOPIC, TRANSACTION_HALF_TOPIC

if TYPE_CHECKING:
    from rmqserver.store.message_store import MessageStore
    from rmqserver.store.queues.consume_queue import ConsumeQueue

LATE_MAX_MS = 2_000
"""A broker that runs delivers no later than this. What was due before the log's last message by more was delivered."""

EARLY_MAX_MS = 1_000

LOOKED_AT_MAX = 10_000
"""Messages among which the copy of one is looked for."""


def delivered_up_to(store: MessageStore, level: int, queue_offset: int) -> int:
    """The queue offset up to which the level's messages are delivered, if a file says ``queue_offset``: never more than
    that."""
    queue = store.queue(SCHEDULE_TOPIC, level - 1)
    if queue is None:
        return 0
    end = min(queue_offset, queue.max_offset)
    if end <= queue.min_offset or _is_passed(store, queue, end - 1):
        return end
    offsets = range(queue.min_offset, end)
    low = bisect_left(offsets, True, key=lambda at: _due_ms(queue, at) > store.newest_store_time_ms - LATE_MAX_MS)
    return offsets.start + bisect_left(offsets, True, low, key=lambda at: not _is_passed(store, queue, at))


def _due_ms(queue: ConsumeQueue, queue_offset: int) -> int:
    unit = queue.unit(queue_offset)
    return unit[2] if unit is not None else 0


def _is_passed(store: MessageStore, queue: ConsumeQueue, queue_offset: int) -> bool:
    """Whether nothing is left to do for the message: it was due long before the log's last message, its copy is there,
    or it cannot be read."""
    newest_ms, due_ms = store.newest_store_time_ms, _due_ms(queue, queue_offset)
    if due_ms <= newest_ms - LATE_MAX_MS:
        return True
    unit = queue.unit(queue_offset)
    record = store.get_record(unit[0]) if unit is not None else None
    if record is None:
        return True
    try:
        message = decode_record_untrusted(record)
        topic, queue_id = message.properties[props.REAL_TOPIC], int(message.properties[props.REAL_QUEUE_ID])
    except (ProtocolError, KeyError, ValueError):
        return True
    start_ms = max(due_ms - EARLY_MAX_MS, message.store_timestamp_ms) if due_ms <= newest_ms else 0
    start_ms = start_ms or message.store_timestamp_ms  # the levels may have been longer once
    return topic == TRANSACTION_HALF_TOPIC or _has_copy(store, message, topic, queue_id, start_ms)


def _has_copy(store: MessageStore, message: StoredMessage, topic: str, queue_id: int, start_ms: int) -> bool:
    at = store.offset_for_time(topic, queue_id, start_ms)
    end = min(store.max_offset(topic, queue_id), at + LOOKED_AT_MAX)
    while at < end:
        result = store.get(topic, queue_id, at, 32)
        if any(_is_copy(record, message) for record in result.records()):
            return True
        if result.next_offset <= at:
            return False
        at = result.next_offset
    return False


def _is_copy(record: bytes, message: StoredMessage) -> bool:
    try:
        other = decode_record_untrusted(record)
        return (
            other.log_offset > message.log_offset
            and other.born_timestamp_ms == message.born_timestamp_ms
            and other.reconsume_times == message.reconsume_times
            and other.body == message.body
            and other.properties.get(props.UNIQUE_KEY) == message.properties.get(props.UNIQUE_KEY)
        )
    except ProtocolError:
        return False
