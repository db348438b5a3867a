"""Stored records as Arrow columns, without a loop over messages: the same code for bytes from a commit log and from a
pull answer, which holds the records byte for byte. Only the columns that are asked for are built.

A record with IPv6 hosts or a long topic (V2) has its fields elsewhere; such records are gathered with a layout of their
own, at most eight of them. Lengths are checked, as vectors, before anything is read through them.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rmqproto import properties as props
from rmqproto.crc import body_crc
from rmqproto.errors import ProtocolError
from rmqproto.message_id import offset_id
from rmqproto.record import (
    BORN_HOST_V6,
    COMPRESSED,
    COMPRESSION_LZ4,
    COMPRESSION_TYPE_MASK,
    COMPRESSION_ZSTD,
    MAGIC_V2,
    RECORD_SIZE_MIN_BYTES,
    STORE_HOST_V6,
    host_text,
)
from spark_tools.property_columns import PropertyColumns
from spark_tools.record_scan import Bytes, Offsets, int32_at
from spark_tools.schema import arrow_type

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

BODY_SIZE_MAX_BYTES = 256 << 20
"""A compressed body may not grow beyond this: more is an attack or damage."""

_SYS_FLAG_AT = 36
_HEX = np.frombuffer(b"0123456789ABCDEF", np.uint8)


@functools.cache
def _layout(born_v6: bool, store_v6: bool) -> np.dtype[Any]:
    """The fixed fields, from the size to the body's length: 88 bytes with IPv4 hosts. The drawing is in
    ``rmqproto.record``."""
    return np.dtype([
        ("size", ">i4"), ("magic", ">i4"), ("crc", ">u4"), ("queueId", ">i4"), ("flag", ">i4"),
        ("queueOffset", ">i8"), ("logOffset", ">i8"), ("sysFlag", ">i4"), ("bornTimestamp", ">i8"),
        ("bornHost", "V20" if born_v6 else "V8"), ("storeTimestamp", ">i8"),
        ("storeHost", "V20" if store_v6 else "V8"), ("reconsumeTimes", ">i4"),
        ("preparedTransactionOffset", ">i8"), ("bodySize", ">i4"),
    ])  # fmt: skip


_INTS = (
    "size", "magic", "crc", "queueId", "flag", "queueOffset", "logOffset", "sysFlag", "bornTimestamp",
    "storeTimestamp", "reconsumeTimes", "preparedTransactionOffset", "bodySize",
)  # fmt: skip


@dataclass(slots=True)
class Located:
    """Records found in ``data``: fixed fields as integers, and where the variable ones lie. ``reasons`` says, by row,
    what is wrong with a record whose lengths do not fit; its variable fields are empty."""

    data: Bytes
    starts: Offsets
    ints: dict[str, Ints]
    born_hosts: list[Any]
    store_hosts: list[Any]
    """Per layout: (rows, hosts as raw bytes). Turned into text only when asked for."""
    body_at: Offsets
    body_size: Offsets
    topic_at: Offsets
    topic_size: Offsets
    properties_at: Offsets
    properties_size: Offsets
    reasons: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.starts)

    def select(self, mask: Mask) -> Located:
        """The rows where ``mask`` is true, in order."""
        if mask.all():
            return self
        rows = np.flatnonzero(mask)
        new_row = np.cumsum(mask) - 1
        keep = {int(new_row[row]): why for row, why in self.reasons.items() if mask[row]}

        def hosts(parts: list[Any]) -> list[Any]:
            return [(new_row[at[mask[at]]], raw[mask[at]]) for at, raw in parts]

        return Located(
            self.data, self.starts[rows], {name: values[rows] for name, values in self.ints.items()},
            hosts(self.born_hosts), hosts(self.store_hosts), self.body_at[rows], self.body_size[rows],
            self.topic_at[rows], self.topic_size[rows], self.properties_at[rows], self.properties_size[rows], keep,
        )  # fmt: skip

    def topics(self) -> pa.Array:
        return _text(self.data, self.topic_at, self.topic_size)[0]


def locate_untrusted(data: Bytes, starts: Offsets) -> Located:
    """Fields and places of the records at ``starts`` (ascending, each with its whole size inside ``data``).

    ProtocolError where even the fixed fields do not fit."""
    count = len(starts)
    if count and (int(starts[-1]) + RECORD_SIZE_MIN_BYTES > len(data) or int(starts[0]) < 0):
        raise ProtocolError("a record's fixed fields are cut short")
    padded = data
    sys_flags = int32_at(data, starts + _SYS_FLAG_AT) if count else np.empty(0, np.int64)
    kinds = sys_flags & (BORN_HOST_V6 | STORE_HOST_V6)
    ints = {name: np.empty(count, np.int64) for name in _INTS}
    fixed_size = np.empty(count, np.int64)
    born_hosts: list[Any] = []
    store_hosts: list[Any] = []
    for kind in np.unique(kinds):
        layout = _layout(bool(kind & BORN_HOST_V6), bool(kind & STORE_HOST_V6))
        rows = np.flatnonzero(kinds == kind)
        if int(starts[rows[-1]]) + layout.itemsize > len(padded):
            padded = np.concatenate([data, np.zeros(layout.itemsize, np.uint8)])
        window = np.ndarray((len(padded) - layout.itemsize + 1,), layout, padded.data, strides=(1,))
        heads = window[starts[rows]]
        for name in _INTS:
            ints[name][rows] = heads[name]
        fixed_size[rows] = layout.itemsize
        born_hosts.append((rows, heads["bornHost"]))
        store_hosts.append((rows, heads["storeHost"]))
    return _place(data, starts, ints, fixed_size, born_hosts, store_hosts)


def _place(
    data: Bytes, starts: Offsets, ints: dict[str, Ints], fixed_size: Ints, born_hosts: list[Any], store_hosts: list[Any]
) -> Located:
    """Where the variable fields lie, every length compared with the room there is before it is used."""
    ends = np.minimum(starts + ints["size"], len(data))
    body_at = starts + fixed_size
    body_size = ints["bodySize"]
    width = np.where(ints["magic"] == MAGIC_V2, 2, 1)
    reasons: dict[int, str] = {}
    good = (body_size >= 0) & (body_at + body_size + width + 2 <= ends)
    _note(reasons, ~good, "its body length does not fit")
    length_at = np.where(good, body_at + body_size, 0)
    topic_size = np.where(
        width == 1, data[length_at], (data[length_at].astype(np.int64) << 8) | data[length_at + 1]
    ).astype(np.int64) if len(starts) else np.empty(0, np.int64)  # fmt: skip
    topic_at = length_at + width
    fits = topic_at + topic_size + 2 <= ends
    _note(reasons, good & ~fits, "its topic length does not fit")
    good &= fits
    length_at = np.where(good, topic_at + topic_size, 0)
    properties_size = (data[length_at].astype(np.int64) << 8) | data[length_at + 1] if len(starts) else topic_size
    properties_at = length_at + 2
    fits = properties_at + properties_size == starts + ints["size"]
    _note(reasons, good & ~fits, "its lengths do not add up to its size")
    good &= fits
    zero = ~good
    for sizes, places in ((body_size, body_at), (topic_size, topic_at), (properties_size, properties_at)):
        sizes[zero] = 0
        places[zero] = starts[zero]
    return Located(
        data, starts, ints, born_hosts, store_hosts, body_at, body_size, topic_at, topic_size, properties_at,
        properties_size, reasons,
    )  # fmt: skip


def _note(reasons: dict[int, str], rows: Mask, why: str) -> None:
    for row in np.flatnonzero(rows).tolist():
        reasons.setdefault(row, why)


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """How columns are filled. ``columns`` in the order of the schema."""

    columns: Sequence[str]
    broker_name: str | None = None
    properties: str = "map"
    decompress: bool = True
    verify_crc: bool = False


class BatchMaker:
    """Turns located records into record batches of one schema."""

    def __init__(self, options: BatchOptions):
        self._options = options
        self.schema = pa.schema(
            [(name, arrow_type(name, properties=options.properties)) for name in options.columns]
        )  # fmt: skip

    def check(self, located: Located) -> None:
        """Notes, in ``located.reasons``, bodies that do not have the CRC they were stored with."""
        if self._options.verify_crc:
            view: Any = located.data.data
            crcs = located.ints["crc"]
            for row, (at, size) in enumerate(zip(located.body_at.tolist(), located.body_size.tolist(), strict=True)):
                if row not in located.reasons and body_crc(view[at : at + size]) != crcs[row]:
                    located.reasons[row] = "its body does not have the CRC it was stored with"

    def batch(self, located: Located) -> pa.RecordBatch:
        """One row a record. ProtocolError for a compressed body that cannot be decompressed, unless there is a column
        ``corrupt`` to say so."""
        columns = _Columns(located, self._options)
        arrays = {name: columns.column(name) for name in self._options.columns if name != "corrupt"}
        if "corrupt" in self._options.columns:
            reasons = [located.reasons.get(row) for row in range(len(located))]
            arrays["corrupt"] = pa.array(reasons, pa.string())
        elif columns.decompress_errors:
            raise ProtocolError(next(iter(columns.decompress_errors.values())))
        return pa.RecordBatch.from_arrays([arrays[name] for name in self._options.columns], schema=self.schema)


class _Columns:
    """Columns of one batch, each built at most once."""

    def __init__(self, located: Located, options: BatchOptions):
        self._located = located
        self._options = options
        self._taken_apart: PropertyColumns | None = None
        self.decompress_errors: dict[int, str] = {}

    def column(self, name: str) -> pa.Array:
        build = _BUILDERS.get(name)
        return build(self) if build is not None else self._integers(name)

    def _integers(self, name: str) -> pa.Array:
        source = "size" if name == "storeSize" else name
        values = self._located.ints[source]
        if name.endswith("Timestamp"):
            return pa.array(values * 1000, pa.int64()).view(pa.timestamp("us", "UTC"))
        kind = arrow_type(name)
        return pa.array(values.astype(np.int32) if kind == pa.int32() else values, kind)

    def topic(self) -> pa.Array:
        return self._located.topics()

    def broker_name(self) -> pa.Array:
        return pa.repeat(pa.scalar(self._options.broker_name or None, pa.string()), len(self._located))

    def born_host(self) -> pa.Array:
        return _host_texts(self._located.born_hosts, len(self._located))

    def store_host(self) -> pa.Array:
        return _host_texts(self._located.store_hosts, len(self._located))

    def offset_message_id(self) -> pa.Array:
        located = self._located
        found: list[Any] = [None] * len(located)
        log_offsets = located.ints["logOffset"].astype(">i8")
        for rows, raw in located.store_hosts:
            if raw.dtype.itemsize == 8 and len(rows) == len(located):
                return _hex_texts(raw, log_offsets)
            for row, host in zip(rows.tolist(), raw.tolist(), strict=True):
                found[row] = offset_id(bytes(host), int(log_offsets[row]))
        return pa.array(found, pa.string())

    def message_id(self) -> pa.Array:
        return pc.coalesce(self.property(props.UNIQUE_KEY), self.offset_message_id())

    def origin_topic(self) -> pa.Array:
        found = [self.property(name) for name in (props.RETRY_TOPIC, "DLQ_ORIGIN_TOPIC", props.REAL_TOPIC)]
        return pc.coalesce(*found, self.topic())

    def property(self, name: str) -> pa.Array:
        """One property's values, null where a message has none."""
        return self._properties().value(name)

    def properties(self) -> pa.Array:
        found = self._properties()
        return found.texts if self._options.properties == "raw" else found.maps()

    def body(self) -> pa.Array:
        located = self._located
        bodies = _binary(located.data, located.body_at, located.body_size)
        compressed = np.flatnonzero(located.ints["sysFlag"] & COMPRESSED)
        if not self._options.decompress or not len(compressed):
            return bodies
        values = bodies.to_pylist()
        for row in compressed.tolist():
            if row in located.reasons:
                continue
            try:
                values[row] = plain_body_untrusted(values[row], int(located.ints["sysFlag"][row]))
            except ProtocolError as error:
                where = f"{located.ints['logOffset'][row]}"
                self.decompress_errors[row] = f"message at log offset {where}: {error}"
                located.reasons[row] = str(error)
        return pa.array(values, pa.binary())

    def _properties(self) -> PropertyColumns:
        if self._taken_apart is None:
            located = self._located
            texts, bad = _text(located.data, located.properties_at, located.properties_size)
            self._taken_apart = PropertyColumns(texts)
            for row in bad:
                located.reasons.setdefault(row, "its properties are not UTF-8")
        return self._taken_apart


_BUILDERS: dict[str, Callable[[_Columns], pa.Array]] = {
    "topic": _Columns.topic,
    "brokerName": _Columns.broker_name,
    "bornHost": _Columns.born_host,
    "storeHost": _Columns.store_host,
    "offsetMsgId": _Columns.offset_message_id,
    "msgId": _Columns.message_id,
    "originTopic": _Columns.origin_topic,
    "tags": lambda columns: columns.property(props.TAGS),
    "keys": lambda columns: columns.property(props.KEYS),
    "properties": _Columns.properties,
    "body": _Columns.body,
}


def plain_body_untrusted(body: bytes, sys_flag: int) -> bytes:
    """ProtocolError where it is damaged or grows past BODY_SIZE_MAX_BYTES."""
    kind = sys_flag & COMPRESSION_TYPE_MASK
    try:
        if kind in (COMPRESSION_LZ4, COMPRESSION_ZSTD):
            codec = "lz4" if kind == COMPRESSION_LZ4 else "zstd"
            with pa.CompressedInputStream(pa.BufferReader(body), codec) as stream:
                plain: bytes = stream.read(BODY_SIZE_MAX_BYTES + 1)
        else:
            plain = zlib.decompressobj().decompress(body, BODY_SIZE_MAX_BYTES + 1)
    except (zlib.error, OSError, pa.ArrowException) as error:
        raise ProtocolError(f"its compressed body is damaged: {error}") from None
    if len(plain) > BODY_SIZE_MAX_BYTES:
        raise ProtocolError(f"its body is larger than {BODY_SIZE_MAX_BYTES} bytes when decompressed")
    return plain


def tag_texts(located: Located) -> pa.Array:
    """TAGS of every record, null where it has none."""
    texts, _ = _text(located.data, located.properties_at, located.properties_size)
    return PropertyColumns(texts).value(props.TAGS)


def _binary(data: Bytes, places: Offsets, sizes: Offsets) -> pa.Array:
    """Copies of the wanted bytes. Offsets that alternate value, gap, value over the same buffer make one array of all,
    and one ``take`` in C++ copies the values out."""
    count = len(places)
    if not count:
        return pa.array([], pa.binary())
    edges = np.empty(2 * count, np.int32)
    edges[0::2] = places
    edges[1::2] = places + sizes
    alternating = pa.Array.from_buffers(
        pa.binary(), 2 * count - 1, [None, pa.py_buffer(edges), pa.py_buffer(data)]
    )  # fmt: skip
    return alternating.take(pa.array(np.arange(0, 2 * count - 1, 2)))


def _text(data: Bytes, places: Offsets, sizes: Offsets) -> tuple[pa.Array, list[int]]:
    """As ``_binary``, as text; with replacement characters, and the row's number, where it is not UTF-8."""
    raw = _binary(data, places, sizes)
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


def _host_texts(parts: list[Any], count: int) -> pa.Array:
    """``address:port``; there are few distinct ones, so each is written once."""
    if len(parts) == 1:
        distinct, inverse = np.unique(parts[0][1].view(f"S{parts[0][1].dtype.itemsize}"), return_inverse=True)
        size = parts[0][1].dtype.itemsize
        texts = pa.array([host_text(host.ljust(size, b"\0")) for host in distinct.tolist()], pa.string())
        return texts.take(pa.array(inverse.reshape(-1)))
    found: list[str | None] = [None] * count
    for rows, raw in parts:
        for row, host in zip(rows.tolist(), raw.tolist(), strict=True):
            found[row] = host_text(bytes(host))
    return pa.array(found, pa.string())


def _hex_texts(hosts: Any, log_offsets: Any) -> pa.Array:
    """Upper-case hex of host and log offset, 32 digits each."""
    count = len(hosts)
    raw = np.empty((count, 16), np.uint8)
    raw[:, :8] = np.frombuffer(hosts.tobytes(), np.uint8).reshape(count, 8)
    raw[:, 8:] = np.frombuffer(log_offsets.tobytes(), np.uint8).reshape(count, 8)
    digits = np.empty((count, 32), np.uint8)
    digits[:, 0::2] = _HEX[raw >> 4]
    digits[:, 1::2] = _HEX[raw & 15]
    edges = np.arange(0, 32 * count + 1, 32, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(edges), pa.py_buffer(digits)])
