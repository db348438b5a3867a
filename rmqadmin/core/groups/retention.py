"""How long what a group has not consumed is still kept, and what of it is gone already.

A broker deletes a file of its log when the newest message in it is older than ``fileReservedTime`` hours, so a message
is safe for that long after it was stored.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import RocketMQError

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient

_NEAR_PART = 10
"""If less than this part of the time is left for which messages are kept, somebody should know."""

_KEPT_S = 600.0
_HOUR_MS = 3_600_000


class ReservedTimes:
    """How long brokers keep messages, by their addresses, as they said in the last ten minutes. Any thread may use
    it."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, int | None]] = {}

    def read_ms(self, admin: AdminClient, broker_addr: str) -> int | None:
        """None if the broker does not say it."""
        asked_s, reserved_ms = self._known.get(broker_addr, (float("-inf"), None))
        if time.monotonic() - asked_s >= _KEPT_S:
            reserved_ms = _read_ms(admin, broker_addr)
            self._known[broker_addr] = time.monotonic(), reserved_ms
        return reserved_ms


def _read_ms(admin: AdminClient, broker_addr: str) -> int | None:
    try:
        hours = admin.broker_config(broker_addr).get("fileReservedTime", "")
    except RocketMQError:
        return None
    return int(hours) * _HOUR_MS if hours.isdecimal() else None


def read_min_offsets(admin: AdminClient, broker_addr: str, topic: str) -> dict[MessageQueue, int]:
    """The queue offset of the first message that is left in each queue. Empty if the broker does not say it."""
    try:
        table = admin.topic_stats(broker_addr, topic).offset_table
    except RocketMQError:
        return {}
    return {queue: ends.min_offset for queue, ends in table.items()}


def left_ms(oldest_waiting_ms: int | None, reserved_ms: int | None, now_ms: int) -> int | None:
    """How long the first waiting message is still safe from being deleted for its age; below 0 it may go at any
    time. None if that is not known."""
    if oldest_waiting_ms is None or reserved_ms is None:
        return None
    return oldest_waiting_ms + reserved_ms - now_ms


def near_ms(oldest_waiting_ms: int | None, reserved_ms: int | None, now_ms: int) -> int | None:
    """The same, and None if that is long."""
    left = left_ms(oldest_waiting_ms, reserved_ms, now_ms)
    return None if left is None or reserved_ms is None or left >= reserved_ms // _NEAR_PART else left
