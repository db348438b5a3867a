"""A group's lag as time: how long its oldest unconsumed message has been waiting.

Brokers tell when the last consumed message of a queue was stored, which says little if no message came for an hour. So
the first message after the committed offset is read, in as few queues as possible: it cannot be older than the message
stored right before it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rmqadmin.core.groups.consumption import GroupOffsets
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.statistics import ConsumeOffset, lag_of
from rmqproto.errors import RocketMQError

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient

QUEUES_READ_MAX = 32
"""How many queues of one group have a message read at once. For the others, the answer is the brokers' own."""


HEADS_MAX, HEADS_KEPT_S = 10_000, 60.0


class KnownHeads:
    """When the first waiting message of each queue was stored, for messages read in the last minute. A message stays
    the first until its group moves on, and a broker counts each reading of it as a delivered message. Any thread may
    use it."""

    def __init__(self) -> None:
        self._read: dict[tuple[MessageQueue, int], tuple[float, int]] = {}

    def get(self, queue: MessageQueue, queue_offset: int) -> int | None:
        read_s, stored_ms = self._read.get((queue, queue_offset), (0.0, 0))
        return stored_ms if time.monotonic() - read_s < HEADS_KEPT_S else None

    def put(self, queue: MessageQueue, queue_offset: int, stored_ms: int) -> None:
        if len(self._read) >= HEADS_MAX:
            self._read = {}
        self._read[queue, queue_offset] = time.monotonic(), stored_ms


def oldest_waiting(
    admin: AdminClient, addrs: Mapping[str, str], offsets: GroupOffsets, heads: KnownHeads | None = None
) -> tuple[MessageQueue, int] | None:
    """In which queue the oldest unconsumed message is, and when it was stored. None if there is no such message, or if
    it cannot be read. ``addrs``: broker addresses by name. ``heads``: messages that need not be read again."""
    waiting = [(queue, entry) for queue, entry in offsets.offsets.items() if lag_of(entry)]
    waiting.sort(key=lambda pair: pair[1].last_timestamp)
    oldest: tuple[MessageQueue, int] | None = None
    for queue, entry in waiting[:QUEUES_READ_MAX]:
        if oldest is not None and entry.last_timestamp >= oldest[1]:
            break
        stored_ms = first_waiting_ms(admin, addrs.get(queue.broker_name), queue, entry, heads)
        if stored_ms is not None and (oldest is None or stored_ms < oldest[1]):
            oldest = queue, stored_ms
    return oldest


def first_waiting_ms(
    admin: AdminClient,
    broker_addr: str | None,
    queue: MessageQueue,
    entry: ConsumeOffset,
    heads: KnownHeads | None = None,
) -> int | None:
    """When the first unconsumed message of one queue was stored. None if there is no such message, or if it cannot be
    read (the queue is not readable, or the message is gone)."""
    if broker_addr is None or not lag_of(entry):
        return None
    known_ms = None if heads is None else heads.get(queue, entry.consumer_offset)
    if known_ms is not None:
        return known_ms
    try:
        messages = admin.pull_message(broker_addr, queue, entry.consumer_offset, max_count=1).messages
    except RocketMQError:
        return None
    if not messages:
        return None
    if heads is not None:
        heads.put(queue, entry.consumer_offset, messages[0].store_timestamp_ms)
    return messages[0].store_timestamp_ms
