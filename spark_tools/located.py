"""Where records begin in a chunk of bytes, and the places of the fields of many at once. The bytes come from a commit
log or from a pull answer, which contains the records unchanged.

Each record's size leads to the next one. Where no record leads to, at the beginning of a split and behind damage, the
chunk is searched for the magic.

The fixed fields of all records are copied in one gather. The variable fields are only located, and copied when a column
is made of them. A record with IPv6 hosts or a long topic (V2) has its fields in other places. Lengths are checked, as
vectors, before they are used for reading.
"""

from __future__ import annotations

import enum
import functools
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rmqproto.errors import ProtocolError
from rmqproto.message.record import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, RECORD_SIZE_MIN_BYTES
from rmqproto.message.sys_flag import BORN_HOST_V6, HOSTS_V6, STORE_HOST_V6
from rmqserver import core
from spark_tools.property_columns import PropertyColumns

Offsets = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

RECORD_SIZE_MAX_BYTES = 64 << 20
"""Larger sizes count as damage: a broker's default limit is 4 MiB, and nobody raises it this far."""

_SIZE_AND_MAGIC = struct.Struct(">ii")
_LOG_OFFSET_AT = 28

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]


@functools.cache
def _layout(born_v6: bool, store_v6: bool) -> np.dtype[Any]:
    """The fixed fields, from the size to the body's length: 88 bytes with IPv4 hosts. ``rmqproto.message.record`` shows
    the layout. Hosts are bytes, four at a time because numpy copies those faster."""
    return np.dtype([
        ("size", ">i4"), ("magic", ">i4"), ("crc", ">u4"), ("queueId", ">i4"), ("flag", ">i4"),
        ("queueOffset", ">i8"), ("logOffset", ">i8"), ("sysFlag", ">i4"), ("bornTimestamp", ">i8"),
        ("bornHost", "<u4", 5 if born_v6 else 2), ("storeTimestamp", ">i8"),
        ("storeHost", "<u4", 5 if store_v6 else 2), ("reconsumeTimes", ">i4"),
        ("preparedTransactionOffset", ">i8"), ("bodySize", ">i4"),
    ])  # fmt: skip


@dataclass(slots=True)
class Spans:
    """Pieces of one buffer, in ascending order and without overlap: the start and length of each."""

    at: Offsets
    size: Offsets

    def select(self, rows: Rows) -> Spans:
        return Spans(self.at[rows], self.size[rows])

    def binary(self, data: Bytes) -> pa.Array:
        """Copies of the pieces. Offsets that alternate between pieces and gaps make one array over the whole buffer,
        and one ``take`` in C++ copies the pieces."""
        count = len(self.at)
        if not count:
            return pa.array([], pa.binary())
        edges = np.empty(2 * count, np.int32)
        edges[0::2] = self.at
        edges[1::2] = self.at + self.size
        alternating = pa.Array.from_buffers(
            pa.binary(), 2 * count - 1, [None, pa.py_buffer(edges), pa.py_buffer(data)]
        )  # fmt: skip
        return alternating.take(pa.array(np.arange(0, 2 * count - 1, 2)))

    def text(self, data: Bytes) -> tuple[pa.Array, list[int]]:
        """The pieces as text. A piece that is not UTF-8 gets replacement characters, and its row number is returned."""
        raw = self.binary(data)
        try:
            return raw.cast(pa.string()), []
        except pa.ArrowInvalid:
            texts, bad = [], []
            for row, value in enumerate(raw.to_pylist()):
                try:
                    texts.append(value.decode())
                except UnicodeDecodeError:
                    texts.append(value.decode("utf-8", "replace"))
                    bad.append(row)
            return pa.array(texts, pa.string()), bad


@dataclass(slots=True)
class Located:
    """Records found in ``data``. ``heads`` has their fixed fields by name. ``reasons`` gives the error of a record
    whose lengths do not fit, by row; its variable fields are empty."""

    data: Bytes
    heads: npt.NDArray[Any]
    body: Spans
    topic: Spans
    properties: Spans
    reasons: dict[int, str] = field(default_factory=dict)
    known_topics: dict[int, str] = field(default_factory=dict)
    """The topics of damaged records that are known by other means than the record."""
    _topics: pa.Array | None = None
    _property_columns: PropertyColumns | None = None

    def __len__(self) -> int:
        return len(self.heads)

    def ints(self, name: str) -> Ints:
        """A fixed field that is a number."""
        return self.heads[name].astype(np.int64)

    def topics(self) -> pa.Array:
        if self._topics is None:
            self._topics = self.topic.text(self.data)[0]
            if self.known_topics:
                names = [self.known_topics.get(row, name) for row, name in enumerate(self._topics.to_pylist())]
                self._topics = pa.array(names, pa.string())
        return self._topics

    def property_columns(self) -> PropertyColumns:
        if self._property_columns is None:
            self._property_columns = PropertyColumns(*self.properties.text(self.data))
        return self._property_columns

    def select(self, mask: Mask) -> Located:
        """The rows where ``mask`` is true, in order."""
        if mask.all():
            return self
        rows = np.flatnonzero(mask)
        reasons, known_topics = {}, {}
        if self.reasons:
            new_row = np.cumsum(mask) - 1
            reasons = {int(new_row[row]): why for row, why in self.reasons.items() if mask[row]}
            known_topics = {int(new_row[row]): name for row, name in self.known_topics.items() if mask[row]}
        return Located(
            self.data, _gather(self.heads, rows), self.body.select(rows), self.topic.select(rows),
            self.properties.select(rows), reasons, known_topics,
        )  # fmt: skip


def is_one_of(texts: pa.Array, wanted: Iterable[str]) -> Mask:
    found = pc.is_in(texts, pa.array(sorted(wanted), pa.string()))
    return np.array(found.to_numpy(zero_copy_only=False), np.bool_)


def locate_untrusted(data: Bytes, starts: Offsets) -> Located:
    """The fields and places of the records at ``starts`` (ascending, each with its whole size inside ``data``).

    ProtocolError if even the fixed fields do not fit."""
    if len(starts) and (int(starts[-1]) + RECORD_SIZE_MIN_BYTES > len(data) or int(starts[0]) < 0):
        raise ProtocolError("a record's fixed fields are cut short")
    heads = _heads(data, starts, _layout(False, False))
    kinds = heads["sysFlag"] & HOSTS_V6
    if not kinds.any():
        return _place(data, starts, heads, starts + heads.itemsize)
    wide = np.zeros(len(starts), _layout(True, True))
    body_at = np.empty(len(starts), np.int64)
    for kind in np.unique(kinds):
        rows = np.flatnonzero(kinds == kind)
        some = _heads(data, starts[rows], _layout(bool(kind & BORN_HOST_V6), bool(kind & STORE_HOST_V6)))
        for name in wide.dtype.names or ():
            if name.endswith("Host"):
                wide[name][rows, : some[name].shape[1]] = some[name]  # a short one is padded with zeros
            else:
                wide[name][rows] = some[name]
        body_at[rows] = starts[rows] + some.itemsize
    return _place(data, starts, wide, body_at)


def nothing_located(log_offset: int, why: str) -> Located:
    """One damaged row for a place in the log where nothing could be located. It has no topic and no times."""
    heads = np.zeros(1, _layout(False, False))
    heads["logOffset"] = log_offset
    heads["bornTimestamp"] = heads["storeTimestamp"] = np.iinfo(np.int64).min
    nowhere = Spans(np.zeros(1, np.int64), np.zeros(1, np.int64))
    return Located(np.zeros(1, np.uint8), heads, nowhere, nowhere, nowhere, {0: why})


def _heads(data: Bytes, starts: Offsets, layout: np.dtype[Any]) -> npt.NDArray[Any]:
    if len(starts) and int(starts[-1]) + layout.itemsize > len(data):
        data = np.concatenate([data, np.zeros(layout.itemsize, np.uint8)])  # the last record gives a wrong size
    window = np.ndarray((max(0, len(data) - layout.itemsize + 1),), layout, data.data, strides=(1,))
    return _gather(window, starts)


def _gather(heads: npt.NDArray[Any], rows: Any) -> npt.NDArray[Any]:
    """Copies of some rows. They are copied as bytes without fields, which numpy does sixteen times as fast."""
    copies: npt.NDArray[Any] = heads.view(f"V{heads.itemsize}")[rows].view(heads.dtype)
    return copies


def _place(data: Bytes, starts: Offsets, heads: npt.NDArray[Any], body_at: Offsets) -> Located:
    """The places of the variable fields. Every length is compared with the available room before it is used."""
    record_end = starts + heads["size"]
    ends = np.minimum(record_end, len(data))
    body_size = heads["bodySize"].astype(np.int64)
    is_v2 = heads["magic"] == MAGIC_V2
    width = is_v2 + 1
    reasons: dict[int, str] = {}
    good = (body_size >= 0) & (body_at + body_size + width + 2 <= ends)
    _note(reasons, ~good, "its body length does not fit")
    length_at = np.where(good, body_at + body_size, 0)
    topic_size = data[length_at].astype(np.int64) if len(starts) else body_size
    if is_v2.any():
        topic_size = np.where(is_v2, _uint16_at(data, length_at), topic_size)
    topic_at = length_at + width
    fits = topic_at + topic_size + 2 <= ends
    _note(reasons, good & ~fits, "its topic length does not fit")
    good &= fits
    length_at = np.where(good, topic_at + topic_size, 0)
    properties_size = _uint16_at(data, length_at) if len(starts) else body_size
    properties_at = length_at + 2
    fits = properties_at + properties_size == record_end
    _note(reasons, good & ~fits, "its lengths do not add up to its size")
    good &= fits
    located = Located(
        data, heads, Spans(body_at, body_size), Spans(topic_at, topic_size), Spans(properties_at, properties_size),
        reasons,
    )  # fmt: skip
    if not good.all():
        for spans in (located.body, located.topic, located.properties):
            spans.at, spans.size = np.where(good, spans.at, starts), np.where(good, spans.size, 0)
    return located


def _uint16_at(data: Bytes, places: Offsets) -> Ints:
    return (data[places].astype(np.int64) << 8) | data[places + 1]


def _note(reasons: dict[int, str], rows: Mask, why: str) -> None:
    if rows.any():
        for row in np.flatnonzero(rows).tolist():
            reasons.setdefault(row, why)


# --- where records begin ---------------------------------------------------------------------------------------------


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
