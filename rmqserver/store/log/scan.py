"""Reads a commit log from a record on, as recovery does: which records are valid, and where the log ends
(``CommitLog.checkMessageAndReturnSize``, 5.5.0). A record's lengths must agree and its body must match its CRC.
Properties have no checksum, so a record torn there still counts, here as in Apache's broker. Unlike Apache's, ours
requires that a record's own log offset is its place: old bytes that lie where a record could begin do not count."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from zlib import crc32

import msgspec

from rmqproto.errors import ProtocolError
from rmqproto.message.properties import parse
from rmqproto.message.record import (
    MAGIC_BLANK,
    MAGIC_V1,
    RECORD_SIZE_MIN_BYTES,
    RECORD_V4,
    StoredMessage,
    decode_record_untrusted,
)
from rmqproto.message.sys_flag import HOSTS_V6
from rmqserver.store.disk.segments import SegmentedFile
from rmqserver.store.fate import INDEXED, fate
from rmqserver.store.log.commit_log import BLANK, BLANK_SIZE_BYTES

CHUNK_BYTES_MIN, CHUNK_BYTES_MAX = 64 << 10, 1 << 20
"""Bytes read at a time; they double each time, so that a caller that wants one record does not pay for a thousand. More
than the maximum would leave the processor's cache before the CRC is computed. A larger record is read on its own."""

# The fields of ``RECORD_V4`` that are needed here; unpacking an unused field costs as much as a used one.
# total size | magic | body CRC | queue id | - flag | queue offset | log offset | sysFlag | - born time, host
# | store time | - store host, reconsume times, prepared transaction offset | body length
_HEAD = struct.Struct(">iiIi4xqqi16xq20xi")
assert _HEAD.size == RECORD_V4.size


class FoundRecord(msgspec.Struct, frozen=True, gc=False):
    """What is needed to dispatch a record."""

    log_offset: int
    size_bytes: int
    topic: str
    queue_id: int
    queue_offset: int
    sys_flag: int
    store_timestamp_ms: int
    properties: bytes


def scan(segments: SegmentedFile, start: int, *, check_crc: bool = True) -> Iterator[FoundRecord]:
    """Every record from ``start``, the offset of one, up to the first place without one: the end of the last record
    found. A blank leads to the next file."""
    for portion in scan_portions(segments, start, check_crc=check_crc):
        yield from portion


def scan_portions(segments: SegmentedFile, start: int, *, check_crc: bool = True) -> Iterator[list[FoundRecord]]:
    """As ``scan``, in lists that are never empty. A start after a crash may read a million messages, so this takes 1.3
    us a record of 1 KiB, half of it for the checksum. Only unusual records go through ``rmqproto.message.record``."""
    offset, chunk_bytes = start, CHUNK_BYTES_MIN
    while True:
        offset, chunk = read_records(segments, offset, chunk_bytes)
        portion = records_untrusted(chunk, offset, check_crc)
        if not portion:
            return
        offset = portion[-1].log_offset + portion[-1].size_bytes
        chunk_bytes = min(2 * chunk_bytes, CHUNK_BYTES_MAX)
        yield portion


def read_records(
    segments: SegmentedFile,
    start: int,
    size_bytes: int,
    end: int | None = None,
    read: Callable[[int, int], bytes | memoryview] | None = None,
) -> tuple[int, bytes | memoryview]:
    """The place of the next record (``start``, or behind a blank there) and the bytes from it on: ``size_bytes``, or
    more if the record is larger. Nothing behind ``end`` is read. Empty if there is nothing. ``read`` replaces the read
    of the files."""
    read = read or segments.read
    while True:
        limit = size_bytes if end is None else min(size_bytes, end - start)
        chunk = read(start, limit) if limit >= BLANK_SIZE_BYTES else b""
        if len(chunk) < BLANK_SIZE_BYTES:
            return start, b""
        size, magic = BLANK.unpack_from(chunk)
        if magic != MAGIC_BLANK:
            break
        start = segments.base_of(start) + segments.file_size_bytes
    if len(chunk) < size <= segments.file_size_bytes and (end is None or start + size <= end):  # larger than a chunk
        chunk = read(start, size)
    return start, chunk


def records_untrusted(
    chunk: bytes | memoryview, chunk_offset: int, check_crc: bool, count_max: int | None = None
) -> list[FoundRecord]:
    """The valid records from the start of ``chunk`` to the first that is invalid or not wholly in it."""
    chunk = bytes(chunk)
    unpack, head_size, last = _HEAD.unpack_from, _HEAD.size, len(chunk) - RECORD_SIZE_MIN_BYTES
    end, at = len(chunk), 0
    view = memoryview(chunk)
    topics: dict[bytes, str] = {}
    records: list[FoundRecord] = []
    while at <= last and len(records) != count_max:
        size, magic, crc, queue_id, queue_offset, log_offset, sys_flag, store_timestamp_ms, body_size = unpack(
            chunk, at
        )
        stop = at + size
        if log_offset != chunk_offset + at or size < RECORD_SIZE_MIN_BYTES or stop > end:
            break
        if magic != MAGIC_V1 or sys_flag & HOSTS_V6:
            found = _unusual_untrusted(chunk, at, check_crc)
            if found is None:
                break
            records.append(found)
            at = stop
            continue
        body_at = at + head_size
        topic_at = body_at + body_size + 1
        if body_size < 0 or topic_at + 2 > stop:
            break
        topic_end = topic_at + chunk[topic_at - 1]
        properties_at = topic_end + 2
        if properties_at > stop or properties_at + (chunk[topic_end] << 8 | chunk[topic_end + 1]) != stop:
            break
        if check_crc and crc32(view[body_at : topic_at - 1]) & 0x7FFFFFFF != crc:
            break
        raw_topic = chunk[topic_at:topic_end]
        topic = topics.get(raw_topic)
        if topic is None:
            try:
                topic = topics[raw_topic] = raw_topic.decode()
            except UnicodeDecodeError:
                break
        records.append(
            FoundRecord(log_offset, size, topic, queue_id, queue_offset, sys_flag, store_timestamp_ms,
                  chunk[properties_at:stop])
        )  # fmt: skip
        at = stop
    return records


def _unusual_untrusted(chunk: bytes, at: int, check_crc: bool) -> FoundRecord | None:
    """A record with IPv6 hosts or a long topic; None if it is not valid."""
    try:
        message = decode_record_untrusted(chunk, at)
    except ProtocolError:
        return None
    if check_crc and not message.is_intact:
        return None
    return FoundRecord(
        message.log_offset, message.size_bytes, message.topic, message.queue_id, message.queue_offset,
        message.sys_flag, message.store_timestamp_ms, message.properties_raw,
    )  # fmt: skip


def is_record(segments: SegmentedFile, log_offset: int) -> bool:
    """Whether a valid record starts there."""
    return next(scan(segments, log_offset), None) is not None


def first_record(segments: SegmentedFile, base: int) -> StoredMessage | None:
    """The record at the start of a file, with only its lengths checked; None if there is none."""
    size, _ = BLANK.unpack(segments.read(base, BLANK_SIZE_BYTES))
    if not RECORD_SIZE_MIN_BYTES <= size <= segments.file_size_bytes:
        return None
    try:
        return decode_record_untrusted(segments.read(base, size))
    except ProtocolError:
        return None


def search_log(
    segments: SegmentedFile, start: int, topic: str, key: str, kind: str, begin_ms: int, end_ms: int
) -> list[int]:
    """Log offsets of the records from ``start`` on that an index would find: by tag (kind ``T``), else by unique key or
    keys."""
    found = []
    for record in scan(segments, start, check_crc=False):
        if record.topic != topic or not begin_ms <= record.store_timestamp_ms <= end_ms:
            continue
        if not fate(record.sys_flag, topic) & INDEXED:
            continue
        properties = parse(record.properties.decode("utf-8", "replace"))
        if kind == "T":
            is_match = properties.get("TAGS") == key
        else:
            is_match = properties.get("UNIQ_KEY") == key or key in properties.get("KEYS", "").split(" ")
        if is_match:
            found.append(record.log_offset)
    return found
