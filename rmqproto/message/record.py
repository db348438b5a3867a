"""Stored messages: the record of commit logs, and of pull, query and view answers (``MessageDecoder``,
``CommitLog``, ``MessageExtEncoder``, 5.5.0), and the items of a batch send.

Every length is checked against the bytes at hand before it is used."""

from __future__ import annotations

import functools
import ipaddress
import struct
from zlib import crc32

import msgspec

from rmqproto.errors import ProtocolError
from rmqproto.hosts import join
from rmqproto.message import properties as props
from rmqproto.message.compression import beginning_untrusted
from rmqproto.message.message_id import offset_id
from rmqproto.message.sys_flag import (
    BORN_HOST_V6,
    COMPRESSED,
    HOST_V4_SIZE,
    HOST_V6_SIZE,
    HOSTS_V6,
    STORE_HOST_V6,
    with_host_bits,
)

MAGIC_V1 = -626843481  # 0xDAA320A7: one byte of topic length
MAGIC_V2 = -626843477  # 0xDAA320AB: two bytes of topic length
MAGIC_BLANK = -875286124  # 0xCBD43194: filler at the end of a commit log file, never sent


TOPIC_V1_LENGTH_MAX = 127

PLAIN_BODY_MAX_BYTES = 64 << 20
"""The limit for a decompressed body: four frames. 64 KiB can hold 64 MiB of compressed zeros, and a frame 16 GiB."""

# A record with IPv4 hosts, from its first byte (all big-endian):
#  0 total size      i32 | 4 magic        i32 | 8 body CRC         u32 | 12 queue id i32 | 16 flag i32
# 20 queue offset    i64 | 28 log offset  i64 | 36 sysFlag         i32 | 40 born time i64
# 48 born host  4B + i32 | 56 store time  i64 | 64 store host 4B + i32 | 72 reconsume times i32
# 76 prepared transaction offset i64 | 84 body length i32 | body | topic length u8 (V2: u16) | topic
#    | properties length u16 | properties
# An IPv6 host (sysFlag 0x10 born, 0x20 store) takes 20 bytes where IPv4 takes 8, and moves what follows.
RECORD_V4 = struct.Struct(">iiIiiqqiq8sq8siqi")
RECORD_SIZE_MIN_BYTES = RECORD_V4.size + 1 + 2
_HEAD = struct.Struct(">iiIiiqqiq")
_HEAD_SIZE = _HEAD.size
QUEUE_OFFSET = slice(20, 28)
"""The place of the queue offset in a record."""
_TAIL = struct.Struct(">iqi")  # reconsume times, prepared transaction offset, body length

# An item of a batch send:
# size i32 | magic i32 | CRC i32 | flag i32 | body length i32 | body | properties length u16 | properties
BATCH_ITEM = struct.Struct(">iiIii")
_BATCH_FLAG_AND_SIZE = struct.Struct(">12xii")
_BATCH_BODY_AT = BATCH_ITEM.size
_BATCH_ITEM_SIZE_MIN = _BATCH_BODY_AT + 2


class StoredMessage(msgspec.Struct, frozen=True):
    """One record, decoded. Times are ms since the epoch; hosts are 4 or 16 address bytes and the port as i32;
    ``body`` and ``properties_raw`` are as stored."""

    size_bytes: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    log_offset: int
    sys_flag: int
    born_timestamp_ms: int
    born_host: bytes
    store_timestamp_ms: int
    store_host: bytes
    reconsume_times: int
    prepared_transaction_offset: int
    body: bytes
    topic: str
    properties_raw: bytes

    @property
    def properties(self) -> dict[str, str]:
        """Parsed at each use. ProtocolError if they are not UTF-8."""
        return props.parse_untrusted(self.properties_raw)

    @property
    def message_id(self) -> str:
        """The offset message id."""
        return offset_id(self.store_host, self.log_offset)

    @property
    def is_intact(self) -> bool:
        """Whether the body still has the CRC it was stored with."""
        return body_crc(self.body) == self.body_crc

    def plain_body(self, size_max_bytes: int = PLAIN_BODY_MAX_BYTES) -> bytes:
        """The body, decompressed if the record says so. ProtocolError if that fails, gives more than so many bytes, or
        needs a library that is missing."""
        if not self.sys_flag & COMPRESSED:
            return self.body
        plain, is_whole = self._inflated(size_max_bytes)
        if not is_whole:
            is_long = len(plain) == size_max_bytes
            problem = f"longer than {size_max_bytes} bytes" if is_long else "damaged: it is cut off"
            raise ProtocolError(f"message {self.message_id}: compressed body is {problem}")
        return plain

    def beginning_of_body(self, size_max_bytes: int) -> bytes:
        """As ``plain_body``, but at most the first ``size_max_bytes``; no more are decompressed."""
        if not self.sys_flag & COMPRESSED:
            return self.body[:size_max_bytes]
        return self._inflated(size_max_bytes)[0]

    def _inflated(self, size_max_bytes: int) -> tuple[bytes, bool]:
        try:
            return beginning_untrusted(self.body, self.sys_flag, size_max_bytes)
        except ProtocolError as error:
            raise ProtocolError(f"message {self.message_id}: {error}", hint=error.hint) from None


@functools.lru_cache(maxsize=1024)
def host_text(host: bytes) -> str:
    """``address:port`` of a record's host field (4 or 16 address bytes, then the port as i32)."""
    return join(str(ipaddress.ip_address(host[:-4])), int.from_bytes(host[-4:], "big"))


def host_bytes(address: str, port: int) -> bytes:
    """A record's host field. An IPv4-mapped IPv6 address is stored as IPv4, which every client can read."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped:
        parsed = parsed.ipv4_mapped
    return parsed.packed + port.to_bytes(4, "big")


def topic_field(topic: str) -> bytes:
    """Length and bytes of a topic as a record holds them: the length is one byte, or two for more than 127 bytes
    (V2)."""
    raw = topic.encode()
    width = 1 if len(raw) <= TOPIC_V1_LENGTH_MAX else 2
    return len(raw).to_bytes(width, "big") + raw


def encode_record(message: StoredMessage) -> bytes:
    """The record's bytes. Size, CRC, magic and the host flags are computed; those of the message are ignored."""
    topic = topic_field(message.topic)
    magic = MAGIC_V1 if len(topic) <= TOPIC_V1_LENGTH_MAX + 1 else MAGIC_V2
    sys_flag = with_host_bits(message.sys_flag, message.born_host, message.store_host)
    size = (
        _HEAD_SIZE + len(message.born_host) + 8 + len(message.store_host) + _TAIL.size
        + len(message.body) + len(topic) + 2 + len(message.properties_raw)
    )  # fmt: skip
    return b"".join((
        _HEAD.pack(
            size, magic, body_crc(message.body), message.queue_id, message.flag, message.queue_offset,
            message.log_offset, sys_flag, message.born_timestamp_ms,
        ),
        message.born_host,
        message.store_timestamp_ms.to_bytes(8, "big", signed=True),
        message.store_host,
        _TAIL.pack(message.reconsume_times, message.prepared_transaction_offset, len(message.body)),
        message.body,
        topic,
        len(message.properties_raw).to_bytes(2, "big"),
        message.properties_raw,
    ))  # fmt: skip


def decode_record_untrusted(data: bytes | bytearray | memoryview, start: int = 0) -> StoredMessage:
    """The record at ``start``. ProtocolError if there is no record, if it is cut short, or if a length in it does not
    fit.

    The CRC is not compared: ``StoredMessage.is_intact`` does.
    """
    if len(data) - start < RECORD_SIZE_MIN_BYTES:
        raise ProtocolError(f"record at byte {start}: {len(data) - start} bytes are too few")
    (
        size, magic, crc, queue_id, flag, queue_offset, log_offset, sys_flag, born_ms, born_host, store_ms, store_host,
        reconsume_times, prepared_offset, body_size,
    ) = RECORD_V4.unpack_from(data, start)  # fmt: skip
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise ProtocolError(f"record at byte {start}: magic {magic & 0xFFFFFFFF:#010x} is not a message's")
    end = start + size
    if size < RECORD_SIZE_MIN_BYTES or end > len(data):
        raise ProtocolError(f"record at byte {start}: size {size} does not fit {len(data) - start} bytes")
    fixed_end = start + RECORD_V4.size
    if sys_flag & HOSTS_V6:
        at = start + _HEAD_SIZE
        born_size = HOST_V6_SIZE if sys_flag & BORN_HOST_V6 else HOST_V4_SIZE
        store_size = HOST_V6_SIZE if sys_flag & STORE_HOST_V6 else HOST_V4_SIZE
        fixed_end = at + born_size + 8 + store_size + _TAIL.size
        if fixed_end > end:
            raise ProtocolError(f"record at byte {start}: size {size} is smaller than its fixed fields")
        born_host = bytes(data[at : at + born_size])
        at += born_size
        store_ms = int.from_bytes(data[at : at + 8], "big", signed=True)
        store_host = bytes(data[at + 8 : at + 8 + store_size])
        reconsume_times, prepared_offset, body_size = _TAIL.unpack_from(data, fixed_end - _TAIL.size)
    body_end = fixed_end + body_size
    width = 1 if magic == MAGIC_V1 else 2
    if body_size < 0 or body_end + width + 2 > end:
        raise ProtocolError(f"record at byte {start}: body length {body_size} does not fit")
    topic_at = body_end + width
    topic_end = topic_at + int.from_bytes(data[body_end:topic_at], "big")
    if topic_end + 2 > end:
        raise ProtocolError(f"record at byte {start}: topic length {topic_end - topic_at} does not fit")
    properties_size = int.from_bytes(data[topic_end : topic_end + 2], "big")
    if topic_end + 2 + properties_size != end:
        raise ProtocolError(f"record at byte {start}: lengths do not add up to its size {size}")
    try:
        topic = str(data[topic_at:topic_end], "utf-8")
    except UnicodeDecodeError:
        raise ProtocolError(f"record at byte {start}: topic is not UTF-8") from None
    return StoredMessage(
        size, crc, queue_id, flag, queue_offset, log_offset, sys_flag, born_ms, born_host, store_ms, store_host,
        reconsume_times, prepared_offset, bytes(data[fixed_end:body_end]), topic, bytes(data[topic_end + 2 : end]),
    )  # fmt: skip


def decode_records_untrusted(data: bytes) -> list[StoredMessage]:
    """All records of a concatenation, as in the body of a pull answer."""
    found = []
    at = 0
    while at < len(data):
        message = decode_record_untrusted(data, at)
        found.append(message)
        at += message.size_bytes
    return found


class BatchItem(msgspec.Struct, frozen=True, gc=False):
    """One message of a batch send, as the producer packed it."""

    flag: int
    body: bytes
    properties_raw: bytes


def encode_batch(items: list[BatchItem]) -> bytes:
    """The body of a batch send (``MessageDecoder.encodeMessages``)."""
    parts: list[bytes] = []
    for item in items:
        size = _BATCH_ITEM_SIZE_MIN + len(item.body) + len(item.properties_raw)
        parts += (
            BATCH_ITEM.pack(size, 0, 0, item.flag, len(item.body)),
            item.body,
            len(item.properties_raw).to_bytes(2, "big"),
            item.properties_raw,
        )
    return b"".join(parts)


BatchPart = tuple[int, bytes, bytes]
"""The parts of a batch item that go into a record unchanged: flag, body, and properties with their length in front. It
is not a class for speed: a broker makes one for every message of a batch."""


def batch_parts_untrusted(data: bytes) -> list[BatchPart]:
    """The items of a batch send. ProtocolError at the first item that does not fit. As in Apache's
    ``MessageExtEncoder`` only the lengths of body and properties count: size, magic and checksum are not read."""
    at, end = 0, len(data)
    unpack = _BATCH_FLAG_AND_SIZE.unpack_from
    parts = []
    while at < end:
        if end - at < _BATCH_ITEM_SIZE_MIN:
            raise ProtocolError(f"batch item at byte {at}: {end - at} bytes are too few")
        flag, body_size = unpack(data, at)
        body_end = at + _BATCH_BODY_AT + body_size
        if body_size < 0 or body_end + 2 > end:
            raise ProtocolError(f"batch item at byte {at}: body length {body_size} does not fit")
        item_end = body_end + 2 + (data[body_end] << 8 | data[body_end + 1])
        if item_end > end:
            raise ProtocolError(f"batch item at byte {at}: its properties do not fit")
        properties = data[body_end:item_end]
        parts.append((flag, data[at + _BATCH_BODY_AT : body_end], properties))
        at = item_end
    return parts


def split_batch_untrusted(data: bytes) -> list[BatchItem]:
    """As ``batch_parts_untrusted``."""
    return [BatchItem(flag, body, properties[2:]) for flag, body, properties in batch_parts_untrusted(data)]


def body_crc(body: bytes | bytearray | memoryview) -> int:
    """CRC-32 of a message body as stored, that is, after compression; with the sign bit off (``UtilAll.crc32``,
    5.5.0)."""
    return crc32(body) & 0x7FFFFFFF
