"""Located records as Arrow columns, without a loop over messages. It builds only the wanted columns, and reads only the
bytes that they need."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rmqproto.errors import ProtocolError
from rmqproto.message import properties as props
from rmqproto.message.compression import beginning_untrusted
from rmqproto.message.message_id import offset_id
from rmqproto.message.record import body_crc, host_text
from rmqproto.message.sys_flag import (
    BORN_HOST_V6,
    COMPRESSED,
    COMPRESSION_LZ4,
    COMPRESSION_TYPE_MASK,
    COMPRESSION_ZSTD,
    STORE_HOST_V6,
)
from spark_tools.located import Located
from spark_tools.property_columns import PropertyColumns
from spark_tools.schema import arrow_type

DATE_MIN_MS, DATE_MAX_MS = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999. A producer may send any number as its time, and a damaged record may hold any. With a time that
Python cannot show, ``collect`` would fail for all rows."""

BODY_SIZE_MAX_BYTES = 256 << 20
"""The limit for a decompressed body: a larger one is an attack or damage."""

_HOST_V4_SIZE, _HOST_V6_SIZE = 8, 20
_HEX = np.array([f"{value:02X}".encode() for value in range(256)]).view(np.uint16)
"""Two hex digits for each byte."""


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """How columns are filled. ``columns`` are in the order of the schema."""

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
        """Notes in ``located.reasons`` which bodies do not match their CRC."""
        if self._options.verify_crc:
            view: Any = located.data.data
            fields = zip(
                located.ints("crc").tolist(), located.body.at.tolist(), located.body.size.tolist(), strict=True
            )
            for row, (crc, at, size) in enumerate(fields):
                if row not in located.reasons and body_crc(view[at : at + size]) != crc:
                    located.reasons[row] = "its body does not have the CRC it was stored with"

    def batch(self, located: Located) -> pa.RecordBatch:
        """One row per record. ProtocolError if a body cannot be decompressed, unless there is a column ``corrupt`` to
        report it."""
        columns = _Columns(located, self._options)
        arrays = {name: columns.column(name) for name in self._options.columns if name != "corrupt"}
        if "corrupt" in self._options.columns:
            reasons = [located.reasons.get(row) for row in range(len(located))]
            arrays["corrupt"] = pa.array(reasons, pa.string())
        elif columns.decompress_errors:
            raise ProtocolError(next(iter(columns.decompress_errors.values())))
        return pa.RecordBatch.from_arrays([arrays[name] for name in self._options.columns], schema=self.schema)


class _Columns:
    """The columns of one batch, each built at most once."""

    def __init__(self, located: Located, options: BatchOptions):
        self.located = located
        self._options = options
        self._built: dict[str, pa.Array] = {}
        self.decompress_errors: dict[int, str] = {}

    def column(self, name: str) -> pa.Array:
        if name not in self._built:
            build = _BUILDERS.get(name)
            self._built[name] = build(self) if build is not None else self._integers(name)
        return self._built[name]

    def _integers(self, name: str) -> pa.Array:
        values = self.located.heads["size" if name == "storeSize" else name]
        if name.endswith("Timestamp"):
            no_date = (values < DATE_MIN_MS) | (values > DATE_MAX_MS)
            micros = np.where(no_date, 0, values) * 1000
            return pa.array(micros, pa.int64(), mask=no_date).view(pa.timestamp("us", "UTC"))
        return pa.array(values.astype(values.dtype.newbyteorder("=")), arrow_type(name))

    def broker_name(self) -> pa.Array:
        return _repeated(self._options.broker_name or None, len(self.located))

    def message_id(self) -> pa.Array:
        unique_keys = self.property(props.UNIQUE_KEY)
        return pc.coalesce(unique_keys, self.column("offsetMsgId")) if unique_keys.null_count else unique_keys

    def origin_topic(self) -> pa.Array:
        found = [self.property(name) for name in (props.RETRY_TOPIC, "DLQ_ORIGIN_TOPIC", props.REAL_TOPIC)]
        used = [each for each in found if each.null_count < len(each)]
        return pc.coalesce(*used, self.column("topic")) if used else self.column("topic")

    def property(self, name: str) -> pa.Array:
        """One property's values, null if a message has none."""
        return self._properties().value(name)

    def properties(self) -> pa.Array:
        found = self._properties()
        return found.texts if self._options.properties == "raw" else found.maps()

    def body(self) -> pa.Array:
        located = self.located
        bodies = located.body.binary(located.data)
        sys_flags = located.ints("sysFlag")
        compressed = np.flatnonzero(sys_flags & COMPRESSED)
        if not self._options.decompress or not len(compressed):
            return bodies
        values = bodies.to_pylist()
        for row in compressed.tolist():
            if row in located.reasons:
                continue
            try:
                values[row] = plain_body_untrusted(values[row], int(sys_flags[row]))
            except ProtocolError as error:
                where = located.ints("logOffset")[row]
                self.decompress_errors[row] = f"message at log offset {where}: {error}"
                located.reasons[row] = str(error)
        return pa.array(values, pa.binary())

    def _properties(self) -> PropertyColumns:
        found = self.located.property_columns()
        for row in found.not_utf8:
            self.located.reasons.setdefault(row, "its properties are not UTF-8")
        return found


_BUILDERS: dict[str, Callable[[_Columns], pa.Array]] = {
    "topic": lambda columns: columns.located.topics(),
    "brokerName": _Columns.broker_name,
    "bornHost": lambda columns: _host_texts(columns.located, "bornHost"),
    "storeHost": lambda columns: _host_texts(columns.located, "storeHost"),
    "offsetMsgId": lambda columns: _offset_ids(columns.located),
    "msgId": _Columns.message_id,
    "originTopic": _Columns.origin_topic,
    "tags": lambda columns: columns.property(props.TAGS),
    "keys": lambda columns: columns.property(props.KEYS),
    "properties": _Columns.properties,
    "body": _Columns.body,
}


def plain_body_untrusted(body: bytes, sys_flag: int) -> bytes:
    """The decompressed body. ProtocolError if it is damaged, cut off, or larger than BODY_SIZE_MAX_BYTES."""
    kind = sys_flag & COMPRESSION_TYPE_MASK
    try:
        if kind in (COMPRESSION_LZ4, COMPRESSION_ZSTD):
            codec = "lz4" if kind == COMPRESSION_LZ4 else "zstd"
            with pa.CompressedInputStream(pa.BufferReader(body), codec) as stream:
                plain: bytes = stream.read(BODY_SIZE_MAX_BYTES + 1)
        else:
            plain, is_whole = beginning_untrusted(body, sys_flag, BODY_SIZE_MAX_BYTES + 1)
            if not is_whole and len(plain) <= BODY_SIZE_MAX_BYTES:
                raise ProtocolError("its compressed body is damaged: it is cut off")
    except (OSError, pa.ArrowException) as error:
        raise ProtocolError(f"its compressed body is damaged: {error}") from None
    if len(plain) > BODY_SIZE_MAX_BYTES:
        raise ProtocolError(f"its body is larger than {BODY_SIZE_MAX_BYTES} bytes when decompressed")
    return plain


def _hosts(located: Located, name: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
    """Hosts as a table of bytes padded with zeros, and a mask of those that are IPv6."""
    flag = BORN_HOST_V6 if name == "bornHost" else STORE_HOST_V6
    return np.ascontiguousarray(located.heads[name]).view(np.uint8), (located.heads["sysFlag"] & flag) != 0


def _host_texts(located: Located, name: str) -> pa.Array:
    """``address:port``. There are few distinct hosts, often one, so each text is made once."""
    raw, is_v6 = _hosts(located, name)
    if is_v6.any() and not is_v6.all():
        sizes = np.where(is_v6, _HOST_V6_SIZE, _HOST_V4_SIZE).tolist()
        return pa.array([host_text(bytes(host[:size])) for host, size in zip(raw, sizes, strict=True)], pa.string())
    size = _HOST_V6_SIZE if is_v6.any() else _HOST_V4_SIZE
    used = np.ascontiguousarray(raw[:, :size])
    flat = used.reshape(-1)
    if len(used) and (flat[size:] == flat[:-size]).all():
        return _repeated(host_text(used[0].tobytes()), len(used))
    hosts = pa.Array.from_buffers(pa.binary(size), len(used), [None, pa.py_buffer(used)]).dictionary_encode()
    return pa.array(map(host_text, hosts.dictionary.to_pylist()), pa.string()).take(hosts.indices)


def _repeated(text: str | None, count: int) -> pa.Array:
    return _many(text, 1 << count.bit_length())[:count]


@functools.lru_cache(maxsize=64)
def _many(text: str | None, count: int) -> pa.Array:
    """A column of one text. Batch after batch has the same broker and hosts, and a slice of an existing array costs
    nothing."""
    return pa.array([text], pa.string()).take(pa.array(np.zeros(count, np.int32)))


def _offset_ids(located: Located) -> pa.Array:
    """Upper-case hex of store host and log offset: 32 digits with an IPv4 host."""
    raw, is_v6 = _hosts(located, "storeHost")
    count = len(located)
    if is_v6.any():
        sizes = np.where(is_v6, _HOST_V6_SIZE, _HOST_V4_SIZE).tolist()
        places = located.ints("logOffset").tolist()
        found = [offset_id(bytes(host[:size]), at) for host, size, at in zip(raw, sizes, places, strict=True)]
        return pa.array(found, pa.string())
    parts = np.empty((count, 16), np.uint8)
    parts[:, :8] = raw[:, :8]
    parts[:, 8:] = np.ascontiguousarray(located.heads["logOffset"]).view(np.uint8).reshape(count, 8)
    edges = np.arange(0, 32 * count + 1, 32, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(edges), pa.py_buffer(np.take(_HEX, parts))])
