"""What a stored record enters, by its sysFlag and its topic (``ConsumeQueueStore``, ``IndexService``, 5.5.0). The
append, recovery, the index and readers of bare files all ask here, so a message is treated alike when it is sent and
when it is read back from the log."""

from __future__ import annotations

from rmqproto.message.sys_flag import INNER_BATCH, TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from rmqproto.names import SCHEDULE_TOPIC

QUEUED = 0x1
"""It takes the next offset of its queue and has a unit there."""
INDEXED = 0x2
"""It can be looked up by its unique key, its keys and its tag."""
DUE_TIME = 0x4
"""If it has a delay level, its unit holds its due time instead of a tags code."""
BATCH_QUEUED = 0x8
"""Its body is a batch, and it belongs in a batch consume queue; this store skips it."""

FATE_MASK = 0xFF
"""The part of a sysFlag that decides; the bits above tell how a body is compressed."""


def _fate(sys_flag: int, topic: str) -> int:
    kind = sys_flag & TRANSACTION_MASK
    found = 0 if kind == TRANSACTION_ROLLBACK else INDEXED
    if kind not in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK):
        found |= BATCH_QUEUED if sys_flag & INNER_BATCH else QUEUED
    if topic == SCHEDULE_TOPIC:
        found |= DUE_TIME
    return found


_ANY_TOPIC = bytes(_fate(sys_flag, "") for sys_flag in range(FATE_MASK + 1))
_SCHEDULE_TOPIC = bytes(_fate(sys_flag, SCHEDULE_TOPIC) for sys_flag in range(FATE_MASK + 1))


def fates(topic: str) -> bytes:
    """The fates of a topic's records, by the low bits of their sysFlag: a table for callers that ask often."""
    return _SCHEDULE_TOPIC if topic == SCHEDULE_TOPIC else _ANY_TOPIC


def fate(sys_flag: int, topic: str) -> int:
    """What a record enters, as the bits above."""
    return fates(topic)[sys_flag & FATE_MASK]
