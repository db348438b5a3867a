"""Finds the starts of records in a chunk of bytes. Each record's size leads to the next one. Where no record leads to,
at the beginning of a split and behind damage, the chunk is searched for the magic."""

from __future__ import annotations

import enum
import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from rmqproto.message.record import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, RECORD_SIZE_MIN_BYTES
from rmqserver import core

Offsets = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

RECORD_SIZE_MAX_BYTES = 64 << 20
"""Larger sizes count as damage: a broker's default limit is 4 MiB, and nobody raises it this far."""

_SIZE_AND_MAGIC = struct.Struct(">ii")
_LOG_OFFSET_AT = 28


def record_starts(data: Bytes, stop: int | None = None) -> tuple[Offsets, int]:
    """The starts before ``stop`` of the whole records that follow each other from the first byte on, and the end of the
    last one. That end is at ``stop``, an incomplete record, the end of the file, or damage; ``state_at`` tells
    which."""
    packed, end = core.record_starts(data.data, len(data) if stop is None else stop)
    return np.frombuffer(packed, np.int64), end


class PlaceState(enum.Enum):
    """What was found at the place where a record should start."""

    INCOMPLETE = "a record that goes on behind the data"
    FILE_END = "the blank record"
    DAMAGED = "neither; so are zeros, because nothing is read behind the log's end"


def state_at(data: Bytes, at: int) -> tuple[PlaceState, int]:
    """The state of a place. With INCOMPLETE, also the size of the record in bytes (0 if even its size is missing)."""
    if len(data) - at < _SIZE_AND_MAGIC.size:
        return PlaceState.INCOMPLETE, 0
    size, magic = _SIZE_AND_MAGIC.unpack_from(data.data, at)
    if magic == MAGIC_BLANK:
        return PlaceState.FILE_END, 0
    is_record = magic in (MAGIC_V1, MAGIC_V2) and RECORD_SIZE_MIN_BYTES <= size <= RECORD_SIZE_MAX_BYTES
    if is_record and at + size > len(data):
        return PlaceState.INCOMPLETE, size
    return PlaceState.DAMAGED, 0


def first_certified(data: Bytes, log_offset: int, at: int = 0) -> int | None:
    """The first place from ``at`` on with a record that gives this place as its log offset (``log_offset`` is that of
    the data's first byte). A copy of a record inside a body gives another one. None if there is none in the data."""
    view: Any = data.data
    for place in (_magics(data[at:]) + at).tolist():
        own = view[place + _LOG_OFFSET_AT : place + _LOG_OFFSET_AT + 8]
        if len(own) == 8 and int.from_bytes(own, "big", signed=True) == log_offset + place:
            return int(place)
    return None


def _magics(data: Bytes) -> Offsets:
    """Places where a record could start: four bytes before each V1 or V2 magic, if they are in the data."""
    found = np.flatnonzero(data[4:-3] == 0xDA)
    rest = data[4:]
    last = rest[found + 3]
    is_magic = (rest[found + 1] == 0xA3) & (rest[found + 2] == 0x20) & ((last == 0xA7) | (last == 0xAB))
    places: Offsets = found[is_magic].astype(np.int64)
    return places
