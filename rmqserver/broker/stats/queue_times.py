"""When the message at a queue offset was stored. Tools show it as ages and delays."""

from __future__ import annotations

from rmqserver.store.message_store import MessageStore
from rmqserver.store.queues.consume_queue import PRE_BLANK_SIZE

UNKNOWN_MS = -1


def store_time_ms(store: MessageStore, topic: str, queue_id: int, queue_offset: int) -> int:
    """Store time of the message at a queue offset; UNKNOWN_MS if there is none, or none any more. May read the
    device."""
    queue = store.queue(topic, queue_id)
    unit = queue.unit(queue_offset) if queue is not None and queue_offset >= queue.min_offset else None
    if unit is None or unit[1] == PRE_BLANK_SIZE:
        return UNKNOWN_MS
    found = store.store_time(unit[0])
    return UNKNOWN_MS if found is None else found
