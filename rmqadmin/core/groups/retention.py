"""How long a group's unconsumed messages are still kept, and how many are gone already.

A broker deletes a file of its log when the newest message in it is older than ``fileReservedTime`` hours, so a message
is safe for that long after it was stored.
"""

import time
from collections.abc import Mapping

from rmqadmin.core.admin_client import AdminClient
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import RocketMQError

_NEAR_PART = 10
"""If less than one part in this many of the retention time is left, the user is told."""

_KEPT_S = 600.0
_HOUR_MS = 3_600_000


class KeptSettings:
    """What brokers' settings say of retention and disks, by address, as read in the last ten minutes. Any thread may
    use it."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, Mapping[str, str]]] = {}

    def reserved_ms(self, admin: AdminClient, broker_addr: str) -> int | None:
        """How long a broker keeps messages. None if it does not say."""
        hours = self.of(admin, broker_addr).get("fileReservedTime", "")
        return int(hours) * _HOUR_MS if hours.isdecimal() else None

    def of(self, admin: AdminClient, broker_addr: str) -> Mapping[str, str]:
        """A broker's settings; empty if it does not say."""
        asked_s, settings = self._known.get(broker_addr, (float("-inf"), {}))
        if time.monotonic() - asked_s >= _KEPT_S:
            try:
                settings = admin.broker_config(broker_addr)
            except RocketMQError:
                settings = {}
            self._known[broker_addr] = time.monotonic(), settings
        return settings


def read_min_offsets(admin: AdminClient, broker_addr: str, topic: str) -> dict[MessageQueue, int]:
    """The queue offset of the first message that remains in each queue. Empty if the broker does not say."""
    try:
        table = admin.topic_stats(broker_addr, topic).offset_table
    except RocketMQError:
        return {}
    return {queue: ends.min_offset for queue, ends in table.items()}


def left_ms(oldest_waiting_ms: int | None, reserved_ms: int | None, now_ms: int) -> int | None:
    """How long the first waiting message is still safe from deletion by age; below 0 it may be deleted at any time.
    None if unknown."""
    if oldest_waiting_ms is None or reserved_ms is None:
        return None
    return oldest_waiting_ms + reserved_ms - now_ms


def near_ms(oldest_waiting_ms: int | None, reserved_ms: int | None, now_ms: int) -> int | None:
    """``left_ms``, but None if that is long."""
    left = left_ms(oldest_waiting_ms, reserved_ms, now_ms)
    return None if left is None or reserved_ms is None or left >= reserved_ms // _NEAR_PART else left
