"""Where records start in a chunk of bytes, found without a Python loop: look for the magic, and let the sizes prove the
chain. Where they do not (a body that holds the magic, damage), the chunk is walked record by record."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
import numpy.typing as npt

from rmqproto.record import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, RECORD_SIZE_MIN_BYTES

Offsets = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

RECORD_SIZE_MAX_BYTES = 64 << 20
"""Larger sizes are damage: a broker's own limit is 4 MiB, and nobody raises it this far."""

_LOG_OFFSET_AT = 28


def int32_at(data: Bytes, places: Offsets) -> npt.NDArray[np.int64]:
    """Big-endian i32 at every place."""
    b = data
    value = (
        (b[places].astype(np.int64) << 24)
        | (b[places + 1].astype(np.int64) << 16)
        | (b[places + 2].astype(np.int64) << 8)
        | b[places + 3].astype(np.int64)
    )
    signed: Offsets = np.where(value >= 1 << 31, value - (1 << 32), value)
    return signed


def magics(data: Bytes) -> Offsets:
    """Places where a record could start: four bytes before each V1 or V2 magic, if that is in the data."""
    found = np.flatnonzero(data[4:-3] == 0xDA)
    rest = data[4:]
    last = rest[found + 3]
    is_magic = (rest[found + 1] == 0xA3) & (rest[found + 2] == 0x20) & ((last == 0xA7) | (last == 0xAB))
    places: Offsets = found[is_magic].astype(np.int64)
    return places


def record_starts(data: Bytes, first: int = 0) -> tuple[Offsets, int]:
    """Starts of the whole records from ``first`` (the start of one) on, and where the next one starts or would: the
    rest of the data is an incomplete record, the end of the file, or damage. ``state_at`` tells which."""
    if len(data) - first < RECORD_SIZE_MIN_BYTES:
        return np.empty(0, np.int64), first
    starts = magics(data[first:]) + first
    if not len(starts) or starts[0] != first:
        return np.empty(0, np.int64), first
    sizes = int32_at(data, starts)
    ends = starts + sizes
    whole = len(starts) if ends[-1] <= len(data) else len(starts) - 1
    chained = bool((sizes[:whole] >= RECORD_SIZE_MIN_BYTES).all()) and bool((ends[:-1] == starts[1:]).all())
    if chained:
        return starts[:whole], int(ends[whole - 1]) if whole else first
    return _walk(data, first)


def _walk(data: Bytes, first: int) -> tuple[Offsets, int]:
    view: Any = data.data
    found, at = [], first
    while len(data) - at >= RECORD_SIZE_MIN_BYTES:
        size = int.from_bytes(view[at : at + 4], "big", signed=True)
        magic = int.from_bytes(view[at + 4 : at + 8], "big", signed=True)
        if magic not in (MAGIC_V1, MAGIC_V2) or size < RECORD_SIZE_MIN_BYTES or at + size > len(data):
            break
        found.append(at)
        at += size
    return np.array(found, np.int64), at


class PlaceState(enum.Enum):
    """What stands where a record should start."""

    INCOMPLETE = "a record that goes on behind the data"
    END = "the blank record, or zeros"
    DAMAGED = "neither"


def state_at(data: Bytes, at: int) -> tuple[PlaceState, int]:
    """With INCOMPLETE, the size of the record in bytes (0: not even that is there)."""
    if len(data) - at < 8:
        return PlaceState.INCOMPLETE, 0
    view: Any = data.data
    size = int.from_bytes(view[at : at + 4], "big", signed=True)
    magic = int.from_bytes(view[at + 4 : at + 8], "big", signed=True)
    if magic in (0, MAGIC_BLANK):
        return PlaceState.END, 0
    is_record = magic in (MAGIC_V1, MAGIC_V2) and RECORD_SIZE_MIN_BYTES <= size <= RECORD_SIZE_MAX_BYTES
    if is_record and at + size > len(data):
        return PlaceState.INCOMPLETE, size
    return PlaceState.DAMAGED, 0


def first_certified(data: Bytes, log_offset: int, at: int = 0) -> int | None:
    """The first place from ``at`` on where a record starts that says itself that it lies there (``log_offset`` is that
    of the data's first byte): no copy of a record inside a body does. None if there is none in the data."""
    view: Any = data.data
    for place in (magics(data[at:]) + at).tolist():
        own = view[place + _LOG_OFFSET_AT : place + _LOG_OFFSET_AT + 8]
        if len(own) == 8 and int.from_bytes(own, "big", signed=True) == log_offset + place:
            return int(place)
    return None
