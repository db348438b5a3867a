"""Reads a commit log past its damage: every record that can be read, and each stretch without any (``scan.py`` ends at
the first). A place counts as a record's only if the record's own log offset is that place."""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator

import msgspec

from rmqproto.errors import ProtocolError
from rmqproto.message.record import (
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_SIZE_MIN_BYTES,
    RECORD_V4,
    StoredMessage,
    decode_record_untrusted,
)
from rmqserver.store.disk.segments import SegmentedFile
from rmqserver.store.found.found_files import data_end
from rmqserver.store.log.commit_log import BLANK, BLANK_SIZE_BYTES
from rmqserver.store.log.scan import FoundRecord, is_record, scan_portions

_READ_BYTES = 1 << 20
_MAGICS = tuple(magic.to_bytes(4, "big", signed=True) for magic in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK))
# The start of a record: size i32 | magic i32 | - CRC, queue id, flag, queue offset | its log offset i64
_PLACE = struct.Struct(">ii20xq")


class Reason(enum.StrEnum):
    """Why no record can be read at a place of the log."""

    BODY = "the body does not have its checksum"
    PLACE = "the record says that it lies elsewhere"
    LENGTHS = "the lengths of a record do not add up"
    NO_RECORD = "no record begins here"
    ZEROS = "zeros where a record should begin"
    CUT = "the record runs past the end of its file"
    NO_FILE = "the file is missing"
    BEHIND = "bytes behind the end of the log that are no record"


class RecordHead(msgspec.Struct, frozen=True):
    """The readable fields of a record whose topic cannot be read."""

    queue_id: int
    queue_offset: int
    store_timestamp_ms: int


class LogStretch(msgspec.Struct, frozen=True):
    """Bytes of a log that hold no readable record. ``record`` is the damaged record that begins there, if it can be
    told; its ``log_offset`` is its place. ``is_tail``: no record follows."""

    log_offset: int
    end_offset: int
    reason: Reason
    is_tail: bool
    record: FoundRecord | None = None
    head: RecordHead | None = None


def walk(segments: SegmentedFile, start: int) -> Iterator[list[FoundRecord] | LogStretch]:
    """The log in order, from the start of a record on. OSError if the disk fails."""
    at = start
    while True:
        for portion in scan_portions(segments, at):
            yield portion
            at = portion[-1].log_offset + portion[-1].size_bytes
        at = _behind_blanks(segments, at)
        stretch = _examined(segments, at)
        if stretch is None:
            return
        yield stretch
        if stretch.is_tail:
            return
        at = stretch.end_offset


def walk_in_use(
    segments: SegmentedFile, start: int, settled_end: int
) -> Iterator[list[FoundRecord] | LogStretch]:  # fmt: skip
    """As ``walk``, of a log that a broker writes meanwhile. ``settled_end``: where the records ended before; records
    behind are left out. A stretch where by now a record lies was just being written, and the log ends there."""
    for each in walk(segments, start):
        if isinstance(each, LogStretch):
            if is_record(segments, each.log_offset):
                return
            if each.end_offset > settled_end:
                settled_end = segments.end_offset  # damage made the records end there: there may be more behind
            yield each
            continue
        settled = [record for record in each if record.log_offset < settled_end]
        if settled:
            yield settled
        if len(settled) < len(each):
            return


def _behind_blanks(segments: SegmentedFile, at: int) -> int:
    """Where reading continues: the start of the next file, if this one ends at ``at``."""
    while at < segments.end_offset:
        head = segments.read(at, BLANK_SIZE_BYTES)
        if len(head) < BLANK_SIZE_BYTES or BLANK.unpack(head)[1] != MAGIC_BLANK:
            return at
        at = segments.base_of(at) + segments.file_size_bytes
    return at


def _examined(segments: SegmentedFile, at: int) -> LogStretch | None:
    """Examines the place where the records end; None if it is the end of the log, with nothing behind."""
    if at >= segments.end_offset:
        return None
    reason, record = _reason(segments, at)
    head = _head(segments, at) if record is None else None
    behind = next_record(segments, at + (record.size_bytes if record is not None else 1))
    if behind is None:
        end = data_end(segments, at)
        if end <= at:
            return None
        if reason is Reason.ZEROS:
            reason = Reason.BEHIND
        return LogStretch(at, end, reason, True, record, head)
    end = behind if record is None else min(behind, at + record.size_bytes)
    return LogStretch(at, end, reason, False, record, head)


def _reason(segments: SegmentedFile, at: int) -> tuple[Reason, FoundRecord | None]:
    """The reason, and the record if only its body or its place is wrong."""
    if segments.base_of(at) not in segments.bases:
        return Reason.NO_FILE, None
    head = segments.read(at, _PLACE.size)
    if not any(head):
        return Reason.ZEROS, None
    if len(head) < _PLACE.size:
        return Reason.CUT, None
    size, magic, log_offset = _PLACE.unpack(head)
    if magic not in (MAGIC_V1, MAGIC_V2):
        return Reason.NO_RECORD, None
    left = segments.base_of(at) + segments.file_size_bytes - at
    if not RECORD_SIZE_MIN_BYTES <= size <= left:
        return Reason.CUT if size > left and log_offset == at else Reason.LENGTHS, None
    data = segments.read(at, size)
    try:
        message = decode_record_untrusted(data)
    except ProtocolError:
        return Reason.CUT if len(data) < size else Reason.LENGTHS, None
    if log_offset != at:
        # If everything else is right, only its offset is wrong; otherwise it is no record, or an old one.
        return (Reason.PLACE, _found(message, at)) if message.is_intact else (Reason.NO_RECORD, None)
    return Reason.BODY, _found(message, at)


def _head(segments: SegmentedFile, at: int) -> RecordHead | None:
    """The head of a record that belongs there, if there is one, whatever follows it."""
    data = segments.read(at, RECORD_V4.size)
    if len(data) < RECORD_V4.size:
        return None
    _, magic, _, queue_id, _, queue_offset, log_offset, _, _, _, store_ms, *_ = RECORD_V4.unpack(data)
    if magic not in (MAGIC_V1, MAGIC_V2) or log_offset != at:
        return None
    return RecordHead(queue_id, queue_offset, store_ms)


def _found(message: StoredMessage, at: int) -> FoundRecord:
    return FoundRecord(
        at, message.size_bytes, message.topic, message.queue_id, message.queue_offset, message.sys_flag,
        message.store_timestamp_ms, message.properties_raw,
    )  # fmt: skip


def next_record(segments: SegmentedFile, start: int) -> int | None:
    """The first place from ``start`` on where a record begins, or the blank at a file's end that leads to one. A record
    counts here even if its body is damaged. None if there is none."""
    for base in segments.bases:
        end = base + segments.file_size_bytes
        if end <= start:
            continue
        for at in _candidates(segments, base, max(start, base)):
            size, magic = BLANK.unpack(segments.read(at, BLANK_SIZE_BYTES))
            if magic == MAGIC_BLANK:
                if size == end - at and next_record(segments, end) is not None:
                    return at
            elif _is_certified(segments, at, size):
                return at
    return None


def _candidates(segments: SegmentedFile, base: int, start: int) -> Iterator[int]:
    """Places of one file, from ``start`` on, where a magic number follows the first four bytes."""
    try:
        file = segments.file(base)
    except FileNotFoundError:
        return
    at, size = start - base, file.size()
    while (at := file.next_data(at)) < size:
        data = file.pread(_READ_BYTES + BLANK_SIZE_BYTES, at)
        found = sorted(place for magic in _MAGICS for place in _all(data, magic))
        for place in found:
            if start - base <= at + place - 4 and 4 <= place < _READ_BYTES + 4:
                yield base + at + place - 4
        at += _READ_BYTES


def _all(data: bytes, magic: bytes) -> Iterator[int]:
    place = data.find(magic)
    while place >= 0:
        yield place
        place = data.find(magic, place + 1)


def _is_certified(segments: SegmentedFile, at: int, size: int) -> bool:
    if not RECORD_SIZE_MIN_BYTES <= size <= segments.base_of(at) + segments.file_size_bytes - at:
        return False
    data = segments.read(at, size)
    try:
        return decode_record_untrusted(data).log_offset == at
    except ProtocolError:
        return False
