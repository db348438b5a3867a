"""Reading a commit log from a record on, as recovery does: what is a valid record, and where the log ends
(``CommitLog.checkMessageAndReturnSize``, 5.5.0). A record's lengths must agree and its body must have its CRC; its
properties have no checksum, so a record that was torn in them still counts, here as in Apache's broker. Unlike there,
its own log offset must be where it is: old bytes that happen to lie at a record's place are none."""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

import msgspec

from rmqproto.errors import ProtocolError
from rmqproto.properties import parse
from rmqproto.record import (
    BORN_HOST_V6,
    MAGIC_BLANK,
    MAGIC_V1,
    RECORD_SIZE_MIN_BYTES,
    RECORD_V4,
    STORE_HOST_V6,
    StoredMessage,
    decode_record_untrusted,
)
from rmqserver.store.commit_log import BLANK, BLANK_SIZE_BYTES
from rmqserver.store.segments import SegmentedFile

CHUNK_BYTES = 4 << 20
"""Read at a time; a larger record is read on its own."""

_HOSTS_V6 = BORN_HOST_V6 | STORE_HOST_V6


class Found(msgspec.Struct, frozen=True, gc=False):
    """What dispatching a record needs."""

    log_offset: int
    size_bytes: int
    topic: str
    queue_id: int
    queue_offset: int
    sys_flag: int
    store_timestamp_ms: int
    properties: bytes


def scan(segments: SegmentedFile, start: int, *, check_crc: bool = True) -> Iterator[Found]:
    """Every record from ``start``, the offset of one, to the first place that holds none. Where that is, is the end
    of the last record found; a blank leads to the next file. A store of a million messages is read at each start
    after a crash, so this takes 2 us a record, and ``rmqproto.record`` only for what is unusual."""
    offset = start
    while True:
        # One chunk after the other, each from the start of a record.
        chunk = segments.read(offset, CHUNK_BYTES)
        if len(chunk) < BLANK_SIZE_BYTES:
            return
        size, magic = BLANK.unpack_from(chunk)
        if magic == MAGIC_BLANK:
            offset = segments.base_of(offset) + segments.file_size_bytes
            continue
        if len(chunk) < size <= segments.file_size_bytes:  # larger than a chunk
            chunk = segments.read(offset, size)
        used = 0
        for found in _records_untrusted(chunk, offset, check_crc):
            yield found
            used += found.size_bytes
        if not used:
            return
        offset += used


def _records_untrusted(chunk: bytes, chunk_offset: int, check_crc: bool) -> Iterator[Found]:
    """The valid records from the start of ``chunk`` on, until one is not, or is not wholly in it."""
    unpack, end, at = RECORD_V4.unpack_from, len(chunk), 0
    view = memoryview(chunk)
    topics: dict[bytes, str] = {}
    while end - at >= RECORD_SIZE_MIN_BYTES:
        (
            size, magic, crc, queue_id, _, queue_offset, log_offset, sys_flag, _, _, store_timestamp_ms, _, _, _,
            body_size,
        ) = unpack(chunk, at)  # fmt: skip
        stop = at + size
        if log_offset != chunk_offset + at or size < RECORD_SIZE_MIN_BYTES or stop > end:
            return
        if magic != MAGIC_V1 or sys_flag & _HOSTS_V6:
            found = _unusual_untrusted(chunk, at, check_crc)
            if found is None:
                return
            yield found
            at = stop
            continue
        body_at = at + RECORD_V4.size
        topic_at = body_at + body_size + 1
        if body_size < 0 or topic_at + 2 > stop:
            return
        topic_end = topic_at + chunk[topic_at - 1]
        if topic_end + 2 + int.from_bytes(chunk[topic_end : topic_end + 2], "big") != stop:
            return
        if check_crc and crc32(view[body_at : topic_at - 1]) & 0x7FFFFFFF != crc:
            return
        raw_topic = chunk[topic_at:topic_end]
        topic = topics.get(raw_topic)
        if topic is None:
            try:
                topic = topics[raw_topic] = raw_topic.decode()
            except UnicodeDecodeError:
                return
        yield Found(
            log_offset, size, topic, queue_id, queue_offset, sys_flag, store_timestamp_ms, chunk[topic_end + 2 : stop]
        )
        at = stop


def _unusual_untrusted(chunk: bytes, at: int, check_crc: bool) -> Found | None:
    """A record with IPv6 hosts or a long topic; None if it is not valid."""
    try:
        message = decode_record_untrusted(chunk, at)
    except ProtocolError:
        return None
    if check_crc and not message.is_intact:
        return None
    return Found(
        message.log_offset, message.size_bytes, message.topic, message.queue_id, message.queue_offset,
        message.sys_flag, message.store_timestamp_ms, message.properties_raw,
    )  # fmt: skip


def first_record(segments: SegmentedFile, base: int) -> StoredMessage | None:
    """The record at the start of a file, unchecked but for its lengths; None if there is none."""
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
    """Log offsets of the records from ``start`` on that an index would find: by tag (kind ``T``), else by unique key
    or one of the keys."""
    found = []
    for record in scan(segments, start, check_crc=False):
        if record.topic != topic or not begin_ms <= record.store_timestamp_ms <= end_ms:
            continue
        properties = parse(record.properties.decode("utf-8", "replace"))
        if kind == "T":
            is_match = properties.get("TAGS") == key
        else:
            is_match = properties.get("UNIQ_KEY") == key or key in properties.get("KEYS", "").split(" ")
        if is_match:
            found.append(record.log_offset)
    return found
