"""What the store answers: statuses under Apache's names (``PutMessageStatus``, ``GetMessageStatus``, 5.5.0), and the
few records that carry an answer."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from rmqproto.errors import RocketMQError

if TYPE_CHECKING:
    from rmqproto.filters.message_filter import MessageFilter
    from rmqserver.store.disk.cached_reads import Place


class PutStatus(enum.Enum):
    """Why a message was not stored; the value is the name that Apache uses in remarks."""

    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
    PROPERTIES_SIZE_EXCEEDED = "PROPERTIES_SIZE_EXCEEDED"
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
    CREATE_MAPPED_FILE_FAILED = "CREATE_MAPPED_FILE_FAILED"
    LMQ_CONSUME_QUEUE_NUM_EXCEEDED = "LMQ_CONSUME_QUEUE_NUM_EXCEEDED"


class MessageRefused(RocketMQError):
    """The store did not take a message. Nothing of it was written and no offset was used."""

    def __init__(self, status: PutStatus, message: str):
        super().__init__(message)
        self.status = status


class GetStatus(enum.Enum):
    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


MOVED = (GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY, GetStatus.OFFSET_FOUND_NULL)
"""There is no message at the offset, and ``next_offset`` says where to go on."""


class Boundary(enum.Enum):
    """Which of several candidates a search by time takes."""

    LOWER = "LOWER"
    UPPER = "UPPER"


LogRange = tuple[int, int]
"""Log offset and size of some bytes of the commit log, all in one file."""


class Walk(msgspec.Struct, frozen=True, gc=False):
    """Units that a pull looks at one by one, from ``queue_offset`` on, and what the pull wants."""

    queue_offset: int
    units: bytes
    max_count: int
    max_bytes: int
    wanted: MessageFilter
    place: Place | None = None
    """Where the units lie, if they are not in memory."""


class GetResult(msgspec.Struct, gc=False):
    """Answer to a pull. ``next_offset`` is the queue offset to ask for next. Until it ``is_loaded``, its status is
    FOUND and its content is not known yet."""

    status: GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    chunks: list[bytes] = []
    """Stored bytes; joined they are the records in queue order. One chunk may hold many records."""
    sizes: list[int] = []
    """Size of each record, in order."""
    ranges: list[LogRange] = []
    """Where the records lie; empty if the filter's second stage has read them. With ``cached_only``, if not everything
    is in memory, ``chunks`` is empty until ``MessageStore.load`` reads them."""
    walk: Walk | None = None
    """Units not looked at yet, because they, or the records that the filter's second stage needs, are not in memory."""
    suggest_slave: bool = False
    """The reader is further behind than this machine's memory reaches."""
    is_run: bool = False
    """Each record is known to hold the queue offset that follows on the one before it."""

    @property
    def is_loaded(self) -> bool:
        return self.walk is None and (bool(self.chunks) or not self.ranges)

    def records(self) -> list[bytes]:
        """The records one by one."""
        if len(self.sizes) == len(self.chunks):
            return self.chunks
        found: list[bytes] = []
        data = self.chunks[0] if len(self.chunks) == 1 else b"".join(self.chunks)
        at = 0
        for size in self.sizes:
            found.append(data[at : at + size])
            at += size
        return found


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Answer to an index look-up. It includes hash collisions: the caller compares topic and key."""

    records: list[bytes]
    last_update_timestamp_ms: int
    last_update_log_offset: int
