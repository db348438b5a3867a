"""Reading a commit log from a record on, as recovery does: what is a valid record, and where the log ends
(``CommitLog.checkMessageAndReturnSize``, 5.5.0). A record's lengths must agree and its body must have its CRC; its
properties have no checksum, so a record that was torn in them still counts, here as in Apache's broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rmqproto.errors import ProtocolError
from rmqproto.properties import parse
from rmqproto.record import (
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_SIZE_MIN_BYTES,
    RECORD_V4,
    StoredMessage,
    decode_record_untrusted,
)  # fmt: skip
from rmqserver.store.commit_log import BLANK, BLANK_SIZE_BYTES
from rmqserver.store.segments import SegmentedFile

CHUNK_BYTES = 4 << 20
"""Read at a time; a larger record is read on its own."""


class Found(NamedTuple):
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
    of the last record found; a blank leads to the next file."""
    offset = start
    chunk, chunk_at = b"", start
    while True:
        at = offset - chunk_at
        if len(chunk) - at < RECORD_V4.size:
            chunk, chunk_at, at = segments.read(offset, CHUNK_BYTES), offset, 0
            if len(chunk) < BLANK_SIZE_BYTES:
                return
        size, magic = BLANK.unpack_from(chunk, at)
        if magic == MAGIC_BLANK:
            offset = segments.base_of(offset) + segments.file_size_bytes
            if offset >= segments.end_offset:
                return
            chunk, chunk_at = b"", offset
            continue
        if magic not in (MAGIC_V1, MAGIC_V2) or size < RECORD_SIZE_MIN_BYTES:
            return
        if at + size > len(chunk):
            if segments.base_of(offset + size) != segments.base_of(offset):
                return
            chunk, chunk_at, at = segments.read(offset, max(size, CHUNK_BYTES)), offset, 0
        found = read_one(chunk, at, offset, check_crc=check_crc)
        if found is None:
            return
        yield found
        offset += size


def read_one(data: bytes, at: int, log_offset: int, *, check_crc: bool) -> Found | None:
    """The record at ``at``, None if there is no valid one. Its own log offset must be ``log_offset``: old bytes that
    happen to lie at a record's place are none."""
    try:
        message = decode_record_untrusted(data, at)
    except ProtocolError:
        return None
    if message.log_offset != log_offset or (check_crc and not message.is_intact):
        return None
    return Found(
        log_offset, message.size_bytes, message.topic, message.queue_id, message.queue_offset, message.sys_flag,
        message.store_timestamp_ms, message.properties_raw,
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
