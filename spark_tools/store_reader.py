"""Reads one partition of a store: bytes in, record batches out. It runs in Spark's tasks and needs only numpy and
pyarrow.

A scan finds its first record without an index: a place counts only if the record there gives this place as its log
offset. It takes every record that starts in its part, and reads past its end for the last one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rmqproto.errors import StorageError
from rmqproto.filters.subscription import parse_tags
from rmqproto.java.java_hash import tag_code
from rmqproto.message.record import RECORD_SIZE_MIN_BYTES
from rmqproto.names import is_system_topic
from rmqreplay.source.offset_ranges import OffsetRange
from rmqserver.store.queues.consume_queue import PRE_BLANK_SIZE
from spark_tools.located import (
    Bytes,
    Ints,
    Located,
    Mask,
    PlaceState,
    first_certified,
    is_one_of,
    locate_untrusted,
    nothing_located,
    record_starts,
    state_at,
)
from spark_tools.partitions import IndexPart, ScanPart
from spark_tools.read_rules import ReadRules

CHUNK_BYTES = 3 << 20
"""Bytes read at a time. 1 MiB was much slower because of a batch's fixed costs, 16 MiB because of the caches."""

OVERHANG_BYTES = 64 << 10
"""Bytes that are first read past a part's end, for a record that starts in the part and ends behind it."""

GAP_BYTES_MAX = 4 << 10
"""Records this near are read as one piece."""

UNITS_PER_READ = 50_000

_UNIT = np.dtype([("log_offset", ">i8"), ("size", ">i4"), ("tag_code", ">i8")])


def read_part(part: ScanPart | IndexPart, rules: ReadRules) -> Iterator[pa.RecordBatch]:
    return _scan(part, rules) if isinstance(part, ScanPart) else _index(part, rules)


# -- scan


def _scan(part: ScanPart, rules: ReadRules) -> Iterator[pa.RecordBatch]:
    file = _open_log_file(part.root, part.base, rules)
    if file is None:
        return
    try:
        for located in _located_in(file, part):
            yield from _wanted(located, part, rules)
    finally:
        os.close(file)


def _located_in(file: int, part: ScanPart) -> Iterator[Located]:
    """The records of the part, a chunk at a time; a stretch without records, or with a damaged one, is one row."""
    chunk = _Chunk()
    at = part.begin if part.begin == part.base else _next_record(file, part, part.begin)
    needed = 0
    while at < part.end:
        size = max(needed, min(CHUNK_BYTES, part.end - at + OVERHANG_BYTES))
        data = chunk.read(file, at - part.base, size)
        starts, end = record_starts(data, part.end - at)
        if len(starts):
            located, end = _until_damage(data, starts, at, end)
            following = at + end
            if not end:
                bad_at = at + int(starts[len(located) - 1])
                following = _next_record(file, part, bad_at + 1)
                _say_where(located, part, bad_at, following)
        else:
            state, needed = state_at(data, 0)
            if state is PlaceState.FILE_END:
                return
            if state is PlaceState.INCOMPLETE and len(data) == size < needed:
                continue
            following = _next_record(file, part, at + 1)
            located = nothing_located(at, "no record starts here, where one should")
            _say_where(located, part, at, following)
        yield located
        at, needed = following, 0


def _until_damage(data: Bytes, starts: npt.NDArray[np.int64], at: int, end: int) -> tuple[Located, int]:
    """The records up to the first damaged one, which is included and has no topic. The place to continue at is then 0,
    because its size cannot be trusted."""
    located = locate_untrusted(data, starts)
    own = located.heads["logOffset"]
    for row in np.flatnonzero(own != starts + at).tolist():
        located.reasons.setdefault(row, f"it says that it lies at log offset {own[row]}")
        located.known_topics[row] = ""
        own[row] = starts[row] + at
    if not located.reasons:
        return located, end
    mask = np.zeros(len(located), np.bool_)
    mask[: min(located.reasons) + 1] = True
    return located.select(mask), 0


def _say_where(located: Located, part: ScanPart, at: int, until: int) -> None:
    """Adds to the reason of the last row, which is damaged, the file and the bytes up to the next record. A scan knows
    no other name for it."""
    row = len(located) - 1
    file = f"{part.root}/commitlog/{part.base:020d}"
    located.reasons[row] += f" (bytes {at - part.base} to {until - part.base} of {file})"
    located.heads["size"][row] = until - at


def _wanted(located: Located, part: ScanPart, rules: ReadRules) -> Iterator[pa.RecordBatch]:
    mask = _topic_mask(located, part)
    if mask.any():
        batch = rules.batch(located.select(mask))
        if batch is not None:
            yield batch


def _topic_mask(located: Located, part: ScanPart) -> Mask:
    """Rows of wanted topics and, if there are ranges, of wanted offsets. Damaged rows are always included."""
    if part.topics is None and part.internal:
        return np.ones(len(located), np.bool_)
    topics = located.topics()
    if part.topics is None:
        internal = [name for name in pc.unique(topics).to_pylist() if is_system_topic(name)]
        mask = ~is_one_of(topics, internal) if internal else np.ones(len(located), np.bool_)
    else:
        mask = is_one_of(topics, part.topics)
    if part.ranges is not None and mask.any():
        mask = _range_mask(located, topics, part.ranges)
    mask[list(located.reasons)] = True
    return mask


def _range_mask(located: Located, topics: pa.Array, ranges: tuple[OffsetRange, ...]) -> Mask:
    offsets, ids = located.ints("queueOffset"), located.ints("queueId")
    mask = np.zeros(len(located), np.bool_)
    for each in ranges:
        of_topic = is_one_of(topics, [each.queue.topic])
        mask |= of_topic & (ids == each.queue.queue_id) & (offsets >= each.start) & (offsets < each.end)
    return mask


def _next_record(file: int, part: ScanPart, at: int) -> int:
    """The place of the first record that starts at or after ``at``; ``part.end`` if none does within the part."""
    while at < part.end:
        data = np.frombuffer(os.pread(file, CHUNK_BYTES, at - part.base), np.uint8)
        found = first_certified(data, at)
        if found is not None:
            return at + found
        if len(data) < CHUNK_BYTES:
            break
        at += len(data) - RECORD_SIZE_MIN_BYTES  # the chunk's end may cut off a record's head
    return part.end


# -- index


def _index(part: IndexPart, rules: ReadRules) -> Iterator[pa.RecordBatch]:
    wanted = parse_tags(rules.tags).tags
    codes = None if wanted is None else np.array(sorted(map(tag_code, wanted)), np.int64)
    files = _LogFiles(part, rules)
    try:
        for first, units in _units(part, rules):
            offsets = np.arange(len(units)) + first
            keep = (units["size"] > 0) & (units["size"] < PRE_BLANK_SIZE)
            if codes is not None:
                keep &= np.isin(units["tag_code"], codes)
            units, offsets = units[keep], offsets[keep]
            for pieces in _together(units, _pieces(units, part.log_file_size_bytes)):
                batch = _read_pieces(files, units, offsets, pieces, rules)
                if batch is not None:
                    yield batch
    finally:
        files.close()


def _units(part: IndexPart, rules: ReadRules) -> Iterator[tuple[int, Any]]:
    """The range's units, a bounded number at a time, with the queue offset of the first. A unit's log offset rises with
    its queue offset. Files that are gone are left out, if ``rules`` allow it."""
    queue = part.range.queue
    directory = f"{part.root}/consumequeue/{queue.topic}/{queue.queue_id}"
    per_file = part.queue_file_size_bytes // _UNIT.itemsize
    at = part.range.start
    while at < part.range.end:
        base = at // per_file * per_file
        count = min(part.range.end - at, base + per_file - at, UNITS_PER_READ)
        path = f"{directory}/{base * _UNIT.itemsize:020d}"
        try:
            units = np.fromfile(path, _UNIT, count, offset=(at - base) * _UNIT.itemsize)
        except FileNotFoundError:
            rules.file_is_gone(path)
        else:
            if len(units) != count:
                raise StorageError(f"{path} is shorter than its queue")
            yield at, units
        at += count


def _pieces(units: Any, log_file_size_bytes: int) -> Iterator[slice]:
    """Runs of units whose records are read in one piece: near each other, in one file, and not too large."""
    if not len(units):
        return
    starts = units["log_offset"].astype(np.int64)
    ends = starts + units["size"]
    far = (starts[1:] - ends[:-1] > GAP_BYTES_MAX) | (starts[1:] < ends[:-1])
    far |= starts[1:] // log_file_size_bytes != starts[:-1] // log_file_size_bytes
    first = 0
    for edge in [*(np.flatnonzero(far) + 1).tolist(), len(units)]:
        while first < edge:
            last = max(first + 1, int(np.searchsorted(ends[first:edge], starts[first] + CHUNK_BYTES, "right")) + first)
            yield slice(first, last)
            first = last


def _together(units: Any, pieces: Iterator[slice]) -> Iterator[list[slice]]:
    """The pieces in runs of at most a chunk each, because a batch costs more than most records."""
    found: list[slice] = []
    size_bytes = 0
    for piece in pieces:
        more_bytes = _size_bytes(units, piece)
        if found and size_bytes + more_bytes > CHUNK_BYTES:
            yield found
            found, size_bytes = [], 0
        found.append(piece)
        size_bytes += more_bytes
    if found:
        yield found


def _size_bytes(units: Any, piece: slice) -> int:
    last = units[piece.stop - 1]
    return int(last["log_offset"]) + int(last["size"]) - int(units["log_offset"][piece.start])


def _read_pieces(
    files: _LogFiles, units: Any, offsets: Ints, pieces: Sequence[slice], rules: ReadRules
) -> pa.RecordBatch | None:
    """The records of pieces that follow each other, whose queue offsets are ``offsets``. A damaged one gets the place
    that it has by its unit, so that it can be named."""
    there, starts, data = files.gather(units, pieces)
    units, offsets = units[there], offsets[there]
    queue = files.part.range.queue
    located = locate_untrusted(data, starts)
    differs = (located.ints("size") != units["size"]) | (located.ints("logOffset") != units["log_offset"])
    differs |= located.ints("queueId") != queue.queue_id
    for row in np.flatnonzero(differs).tolist():
        located.reasons.setdefault(row, "it is not the record that the consume queue points to")
    for row in located.reasons:
        located.known_topics[row] = queue.topic
        located.heads["queueId"][row], located.heads["queueOffset"][row] = queue.queue_id, offsets[row]
        located.heads["logOffset"][row] = units["log_offset"][row]
    return rules.batch(located)


class _LogFiles:
    """The commit log file read last, open; none if it is gone."""

    def __init__(self, part: IndexPart, rules: ReadRules):
        self.part = part
        self._rules = rules
        self._base: int | None = None
        self._file: int | None = None
        self._chunk = _Chunk()

    def gather(self, units: Any, pieces: Sequence[slice]) -> tuple[npt.NDArray[np.intp], Ints, Bytes]:
        """The bytes of the pieces, one behind the other: the rows of ``units`` that are there, where each starts, and
        the bytes, which are valid until the next call."""
        rows: list[npt.NDArray[np.intp]] = []
        starts: list[Ints] = []
        end = 0
        for piece in pieces:
            begin, size = int(units["log_offset"][piece.start]), _size_bytes(units, piece)
            if not self._read(begin, size, end):
                continue
            rows.append(np.arange(piece.start, piece.stop))
            starts.append(units["log_offset"][piece].astype(np.int64) - begin + end)
            end += size
        none = np.empty(0, np.int64)
        return np.concatenate([none, *rows]), np.concatenate([none, *starts]), self._chunk.bytes(end)

    def _read(self, log_offset: int, size_bytes: int, into: int) -> bool:
        """Reads bytes to a place of the chunk; False if their file is gone."""
        base = log_offset - log_offset % self.part.log_file_size_bytes
        if base != self._base:
            self.close()
            self._base, self._file = base, _open_log_file(self.part.root, base, self._rules)
        if self._file is None:
            return False
        if self._chunk.read_into(self._file, log_offset - base, size_bytes, into) < size_bytes:
            raise StorageError(f"{self.part.root}: the commit log ends before log offset {log_offset + size_bytes}")
        return True

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._base = self._file = None


def _open_log_file(root: str, base: int, rules: ReadRules) -> int | None:
    """The open file, which the caller closes; None if it is gone and ``rules`` allow that."""
    path = f"{root}/commitlog/{base:020d}"
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        rules.file_is_gone(path)
        return None


class _Chunk:
    """Memory that is reused for reads, because fresh memory would have to be cleared each time. A batch copies what it
    needs before the next read."""

    def __init__(self) -> None:
        self._buffer = bytearray(CHUNK_BYTES)

    def read(self, file: int, at: int, size_bytes: int) -> Bytes:
        """Bytes of the file, fewer at its end. They are valid until the next read."""
        return self.bytes(self.read_into(file, at, size_bytes, 0))

    def read_into(self, file: int, at: int, size_bytes: int, into: int) -> int:
        """How many bytes of the file, fewer at its end, were put to the place ``into``."""
        if len(self._buffer) < into + size_bytes:
            self._buffer = self._buffer[:into] + bytearray(size_bytes)
        return os.preadv(file, [memoryview(self._buffer)[into : into + size_bytes]], at)

    def bytes(self, size_bytes: int) -> Bytes:
        """The first bytes, valid until the next read."""
        return np.frombuffer(self._buffer, np.uint8, size_bytes)
