"""How long the oldest message that a group has not consumed has been waiting: its lag as time.

Brokers tell when the last consumed message of a queue was stored. That says little if nothing came for an hour. So the
first message after the committed offset is read, in as few queues as possible: it cannot be older than the message that
was stored right before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rmqadmin.core.groups.consumption import GroupOffsets
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.statistics import ConsumeOffset
from rmqproto.errors import RocketMQError

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient

QUEUES_READ_MAX = 32
"""Queues of one group whose messages are read at once. For the rest, the answer is what the brokers say."""


def oldest_waiting_ms(admin: AdminClient, addrs: Mapping[str, str], offsets: GroupOffsets) -> int | None:
    """When the oldest unconsumed message was stored. None if there is no such message, or if it cannot be read.
    ``addrs``: broker addresses by name."""
    waiting = [(queue, entry) for queue, entry in offsets.offsets.items() if _is_behind(entry)]
    waiting.sort(key=lambda pair: pair[1].last_timestamp)
    oldest_ms: int | None = None
    for queue, entry in waiting[:QUEUES_READ_MAX]:
        if oldest_ms is not None and entry.last_timestamp >= oldest_ms:
            break
        stored_ms = first_waiting_ms(admin, addrs.get(queue.broker_name), queue, entry)
        if stored_ms is not None and (oldest_ms is None or stored_ms < oldest_ms):
            oldest_ms = stored_ms
    return oldest_ms


def first_waiting_ms(
    admin: AdminClient, broker_addr: str | None, queue: MessageQueue, entry: ConsumeOffset
) -> int | None:
    """When the first unconsumed message of one queue was stored. None if there is no such message, or if it cannot be
    read (the queue may not be read, or the message is gone)."""
    if broker_addr is None or not _is_behind(entry):
        return None
    try:
        messages = admin.pull_message(broker_addr, queue, entry.consumer_offset, max_count=1).messages
    except RocketMQError:
        return None
    return messages[0].store_timestamp_ms if messages else None


def _is_behind(entry: ConsumeOffset) -> bool:
    return entry.broker_offset > entry.consumer_offset
