"""Queue offsets by time (``ConsumeQueue.getOffsetInQueueByTime``, 5.5.0): a binary search over the store times of the
records that the units point to. Like Apache's search, it assumes that store times rise along a queue; a clock that was
set back may break that."""

from __future__ import annotations

from rmqproto.message.sys_flag import BORN_HOST_V6
from rmqserver.store.log.commit_log import CommitLog
from rmqserver.store.queues.consume_queue import PRE_BLANK_SIZE, ConsumeQueue
from rmqserver.store.results import Boundary

_SYS_FLAG_AT = 36
_STORE_TIME_AT, _STORE_TIME_V6_AT = 56, 68
_READ_BYTES = _STORE_TIME_V6_AT + 8


def store_time_ms(log: CommitLog, log_offset: int) -> int | None:
    """Store time of the record that starts there; None if there is none (anymore)."""
    data = log.read(log_offset, _READ_BYTES)
    if len(data) < _READ_BYTES:
        return None
    sys_flag = int.from_bytes(data[_SYS_FLAG_AT : _SYS_FLAG_AT + 4], "big")
    at = _STORE_TIME_V6_AT if sys_flag & BORN_HOST_V6 else _STORE_TIME_AT
    return int.from_bytes(data[at : at + 8], "big", signed=True)


def offset_for_time(log: CommitLog, queue: ConsumeQueue, timestamp_ms: int, boundary: Boundary) -> int:
    """LOWER: the first message stored at or after the time, ``max_offset`` if there is none. UPPER: the last message
    stored at or before it, ``min_offset`` if there is none. May read the log once in each step."""
    low, high = queue.min_offset, queue.max_offset
    while low < high:
        middle = (low + high) // 2
        found = _time_of(log, queue, middle)
        # A unit whose record is gone lies before all that are left.
        if found is None or found < timestamp_ms or (boundary is Boundary.UPPER and found == timestamp_ms):
            low = middle + 1
        else:
            high = middle
    return low if boundary is Boundary.LOWER else max(queue.min_offset, low - 1)


def earliest_store_time_ms(log: CommitLog, queue: ConsumeQueue) -> int:
    """Store time of the queue's first message, -1 if it has none."""
    found = _time_of(log, queue, queue.min_offset)
    return -1 if found is None else found


def _time_of(log: CommitLog, queue: ConsumeQueue, queue_offset: int) -> int | None:
    unit = queue.unit(queue_offset)
    if unit is None or unit[1] == PRE_BLANK_SIZE:
        return None
    return store_time_ms(log, unit[0])
