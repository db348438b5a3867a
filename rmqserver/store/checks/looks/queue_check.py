"""Compares all consume queues with the log: the units that its records call for with the files, in blocks, up to the
first difference of each queue. Behind that one, only whether a start makes the queue anew is still found out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rmqproto.message.light_queues import LIGHT_QUEUE_ID
from rmqproto.message.properties import message_keys
from rmqproto.names import SCHEDULE_TOPIC
from rmqserver.core import IndexItem, pack_entries
from rmqserver.store.checks.found_files import FoundFiles
from rmqserver.store.checks.looks.log_walk import LogStretch
from rmqserver.store.disk.disk import Disk
from rmqserver.store.disk.segments import FileCache
from rmqserver.store.fate import DUE_TIME, FATE_MASK, INDEXED, QUEUED
from rmqserver.store.log.scan import FoundRecord
from rmqserver.store.options import UNIT_SIZE_BYTES, StoreOptions
from rmqserver.store.queues.consume_queue import PRE_BLANK, PRE_BLANK_SIZE, UNIT
from rmqserver.store.queues.consume_queues import Topic, can_be_directory
from rmqserver.store.queues.feed import deliver_time_ms
from rmqserver.store.queues.light import OFFSETS_MARK, light_units_untrusted

RECORDS_PER_SWEEP = 500_000
"""After this many records, the waiting units of all queues are compared: there may be many queues with a few units
each."""

BLOCK_BYTES = 2000 * UNIT_SIZE_BYTES
"""Units of a queue compared at once."""

NO_UNIT = bytes(UNIT_SIZE_BYTES)

_SHIFT_MS_MAX = 30 * 24 * 3_600_000
_MS_PER_S = 1000

_pack = UNIT.pack


@dataclass(slots=True)
class LostMessages:
    """Lost messages of one queue, in one stretch of the log."""

    first_queue_offset: int
    last_queue_offset: int
    count: int = 1


class LogEnds:
    """Where the log has records: between its ends, except in the stretches."""

    def __init__(self, min_offset: int, end_offset: int, stretches: Sequence[LogStretch]):
        self.min_offset = min_offset
        self.end_offset = end_offset
        self._stretches = stretches
        self._starts = [stretch.log_offset for stretch in stretches]

    def stretch_at(self, log_offset: int) -> LogStretch | None:
        at = bisect_right(self._starts, log_offset) - 1
        found = self._stretches[at] if at >= 0 else None
        return found if found is not None and log_offset < found.end_offset else None

    def has(self, log_offset: int) -> bool:
        return self.min_offset <= log_offset < self.end_offset and self.stretch_at(log_offset) is None


class Difference(NamedTuple):
    """The first place where a queue is not as the log says. ``log_offset``: the message's that belongs there, or where
    the unit that is there points. ``is_empty``: no unit is there. ``is_tail``: only bytes behind the queue's end."""

    queue_offset: int
    what: str
    log_offset: int
    is_empty: bool = False
    is_tail: bool = False


class CheckedQueue:
    """One queue. ``next_offset`` is the queue offset that its next record must have; -1 before the first. ``after``:
    its files as a start of our broker would leave them; None if that refuses."""

    __slots__ = (
        "after", "covered", "difference", "end_offset", "files", "is_mended", "next_offset", "queue_id", "shift_ms",
        "topic", "unit_count", "units",
    )  # fmt: skip

    def __init__(self, topic: str, queue_id: int, files: FoundFiles, after: FoundFiles | None):
        self.topic = topic
        self.queue_id = queue_id
        self.files = files
        self.after = after
        self.next_offset = -1
        self.units = bytearray()
        """Expected units that were not compared yet; they end at ``next_offset``."""
        self.difference: Difference | None = None
        self.is_mended = after is not None
        """Whether a start of our broker changes all that differs into what the log says."""
        self.covered: list[tuple[int, int]] = []
        """Ranges of queue offsets that have records."""
        self.unit_count = 0
        self.end_offset = 0
        """Queue offset behind the last message that the log or the files know; known when everything is compared."""
        self.shift_ms = 0
        """For a delay level: how far all its due times differ from the default's."""

    def jump(self, queue_offset: int, unit: bytes, log_offset: int) -> None:
        """Takes a record whose queue offset does not follow the last one's."""
        self.compare()
        at, files = queue_offset * UNIT_SIZE_BYTES, self.files
        there = files.span(at, UNIT_SIZE_BYTES) if at >= 0 else NO_UNIT
        if self.next_offset < 0:
            is_right = there == unit or not files.bases or files.min_offset <= at <= files.end_offset
        elif queue_offset > self.next_offset:
            is_right = there == unit or (there == NO_UNIT and not self._points_to(self.next_offset, log_offset))
        else:  # the topic was deleted and made again
            is_right = queue_offset == 0 and (there == unit or not files.bases)
            if is_right:
                self.difference, self.is_mended = None, self.after is not None
                self.covered.clear()
        if is_right:
            self.next_offset = queue_offset + 1
            self.units += unit
        else:
            what = f"the message at log offset {log_offset} says that it is here, where the unit of another one is"
            self.differs(Difference(queue_offset, what, log_offset), is_mended=False)

    def _points_to(self, queue_offset: int, log_offset: int) -> bool:
        unit = self.files.span(queue_offset * UNIT_SIZE_BYTES, UNIT_SIZE_BYTES)
        return int.from_bytes(unit[:8], "big") == log_offset

    def compare(self) -> None:
        """Compares everything expected so far with the files."""
        units, count = bytes(self.units), len(self.units) // UNIT_SIZE_BYTES
        if not count:
            return
        first = self.next_offset - count
        self.unit_count += count
        start = self.covered.pop()[0] if self.covered and self.covered[-1][1] == first else first
        self.covered.append((start, self.next_offset))
        found = self.files.span(first * UNIT_SIZE_BYTES, len(units))
        if found != units and self.topic == SCHEDULE_TOPIC:
            units = self._shifted(units, found)
        if found != units:
            self._first_difference(first, units, found)
        self.units.clear()

    def _shifted(self, units: bytes, found: bytes) -> bytes:
        """The units of a delay level whose delay was not the default."""
        shift_ms = self.shift_ms or UNIT.unpack_from(found)[2] - UNIT.unpack_from(units)[2]
        if abs(shift_ms) > _SHIFT_MS_MAX or shift_ms % _MS_PER_S or (not self.shift_ms and len(units) == UNIT.size):
            return units
        shifted = b"".join(_pack(log_offset, size, due + shift_ms) for log_offset, size, due in UNIT.iter_unpack(units))
        if not self.shift_ms and shifted != found:
            return units
        self.shift_ms = shift_ms
        return shifted

    def _first_difference(self, first: int, expected: bytes, found: bytes) -> None:
        at = next(
            at for at in range(0, len(expected), UNIT_SIZE_BYTES)
            if expected[at : at + UNIT_SIZE_BYTES] != found[at : at + UNIT_SIZE_BYTES]
        )  # fmt: skip
        log_offset = UNIT.unpack_from(expected, at)[0]
        is_empty = found[at : at + UNIT_SIZE_BYTES] in (NO_UNIT, PRE_BLANK)
        what = f"no unit for the message at log offset {log_offset}"
        if not self.files.bases:
            what += ": the queue has no file"
        elif not is_empty:
            what = f"the unit is not that of the message at log offset {log_offset}"
        is_mended = self.after is not None and self.after.span(first * UNIT_SIZE_BYTES, len(expected)) == expected
        self.differs(Difference(first + at // UNIT_SIZE_BYTES, what, log_offset, is_empty), is_mended=is_mended)

    def differs(self, difference: Difference, *, is_mended: bool) -> None:
        """``is_mended``: a start makes it right, or it harms nobody."""
        self.difference = self.difference or difference
        self.is_mended = self.is_mended and is_mended

    def last_unit(self) -> bytes | None:
        """The unit before the queue's end, as it is; None if there is none."""
        if not self.end_offset:
            return None
        unit = self.files.span((self.end_offset - 1) * UNIT_SIZE_BYTES, UNIT_SIZE_BYTES)
        return unit if unit != NO_UNIT else None

    # -- units that no record calls for

    def other_units(self) -> Iterator[tuple[int, bytes]]:
        """Queue offset and bytes of what lies where the log has no record (before, between and behind its records); of
        consecutive empty units, the first. Ends with the last unit that is not empty."""
        at, end = self.files.min_offset // UNIT_SIZE_BYTES, self.files.end_offset // UNIT_SIZE_BYTES
        for begin, stop in sorted(self.covered):
            yield from self._units(at, begin)
            at = max(at, stop)
        yield from self._units(at, end, is_last=True)

    def _units(self, first: int, end: int, *, is_last: bool = False) -> Iterator[tuple[int, bytes]]:
        empty_since = first
        while (first := self._next_data(first, end)) < end:
            size = min(end - first, BLOCK_BYTES // UNIT_SIZE_BYTES) * UNIT_SIZE_BYTES
            block = self.files.span(first * UNIT_SIZE_BYTES, size)
            for at in range(0, size, UNIT_SIZE_BYTES) if block.count(0) != size else ():
                unit, queue_offset = block[at : at + UNIT_SIZE_BYTES], first + at // UNIT_SIZE_BYTES
                if unit != NO_UNIT:
                    if empty_since < queue_offset:
                        yield empty_since, NO_UNIT
                    yield queue_offset, unit
                    empty_since = queue_offset + 1
            first += size // UNIT_SIZE_BYTES
        if empty_since < end and not is_last:
            yield empty_since, NO_UNIT

    def _next_data(self, first: int, end: int) -> int:
        """The first queue offset from ``first`` on whose unit may be anything but zeros; at most ``end``."""
        at = first * UNIT_SIZE_BYTES
        for base in self.files.bases:
            if base + self.files.file_size_bytes > at:
                file = self.files.file(base)
                data = file.next_data(max(at - base, 0))
                if data < min(file.size(), self.files.file_size_bytes):
                    return min((base + data) // UNIT_SIZE_BYTES, end)
        return end


class CheckedTopic(Topic):
    """``is_there``: the topic has a directory."""

    __slots__ = ("checked", "is_there")

    def __init__(self, name: str, *, is_there: bool):
        super().__init__(name)
        self.is_there = is_there
        self.checked: dict[int, CheckedQueue] = {}


class QueueCheck:
    """``take`` all records in log order, then ``finish``. ``has_queues``: there are consume queues that can be read.
    ``after`` is the disk as a start of our broker would leave it; None if that refuses."""

    def __init__(
        self, directory: str, options: StoreOptions, disk: Disk, after: Disk | None, *, has_queues: bool = True
    ):  # fmt: skip
        self.directory = directory
        self.topics: dict[str, CheckedTopic] = {}
        self._options = options
        self._disk = disk
        self._cache = FileCache(disk, options.open_files_max, read_only=True)
        self._after = after
        self._cache_after = FileCache(after or disk, options.open_files_max, read_only=True)
        self._has_queues = has_queues
        self._names = set(disk.listdir(directory)) if has_queues else set()
        self._since_sweep = 0
        self.lost: dict[int, dict[tuple[str, int], LostMessages]] = {}
        """Messages whose units point to a place without a record: by the start of the stretch (for those behind the
        log, its end), then topic and queue."""

    def take(self, records: Sequence[FoundRecord]) -> bytes:
        """Takes the next records. Returns the index entries that they call for."""
        topics, levels, has_queues = self.topics, self._options.delay_levels_ms, self._has_queues
        items: list[IndexItem] = []
        for found in records:
            topic = topics.get(found.topic) or self._topic(found.topic)
            unique_key, keys, tags = message_keys(found.properties)
            code, tag_hash = topic.tags.get(tags) or topic.tag(tags)
            fate = topic.fates[found.sys_flag & FATE_MASK]
            log_offset = found.log_offset
            if fate & INDEXED:
                items.append(
                    (topic.index_prefix_hash, log_offset, found.store_timestamp_ms, unique_key, keys, tag_hash)
                )
            if not (fate & QUEUED and has_queues):
                continue
            unit_code = code
            if fate & DUE_TIME:
                unit_code = deliver_time_ms(found.properties, found.store_timestamp_ms, code, levels)
            queue = topic.checked.get(found.queue_id) or self._queue(topic, found.queue_id)
            unit = _pack(log_offset, found.size_bytes, unit_code)
            if found.queue_offset == queue.next_offset:
                queue.units += unit
                queue.next_offset += 1
                if len(queue.units) >= BLOCK_BYTES:
                    queue.compare()
            else:
                queue.jump(found.queue_offset, unit, log_offset)
            if OFFSETS_MARK in found.properties:
                self._take_light(found, _pack(log_offset, found.size_bytes, code))
        self._since_sweep += len(records)
        if self._since_sweep >= RECORDS_PER_SWEEP:
            self._sweep()
        return pack_entries(items)

    def _take_light(self, found: FoundRecord, unit: bytes) -> None:
        for name, queue_offset in light_units_untrusted(found.topic, found.properties):
            topic = self.topics.get(name) or self._topic(name)
            if not topic.is_there:  # the broker made none, or the light queue has expired
                continue
            queue = topic.checked.get(LIGHT_QUEUE_ID) or self._queue(topic, LIGHT_QUEUE_ID)
            if queue_offset == queue.next_offset:
                queue.units += unit
                queue.next_offset += 1
            else:
                queue.jump(queue_offset, unit, found.log_offset)

    def _topic(self, name: str) -> CheckedTopic:
        topic = self.topics[name] = CheckedTopic(name, is_there=name in self._names)
        return topic

    def _queue(self, topic: CheckedTopic, queue_id: int) -> CheckedQueue:
        name, size = topic.name if can_be_directory(topic.name) else "-", self._options.consume_queue_file_size_bytes
        path, after = f"{self.directory}/{name}/{queue_id}", self._after
        queue = topic.checked[queue_id] = CheckedQueue(
            topic.name, queue_id, FoundFiles(path, size, self._disk, self._cache),
            FoundFiles(path, size, after, self._cache_after) if after is not None else None,
        )  # fmt: skip
        return queue

    def _sweep(self) -> None:
        self._since_sweep = 0
        for queue in self.queues():
            queue.compare()

    def queues(self) -> Iterator[CheckedQueue]:
        """The queues of records that were taken."""
        for topic in self.topics.values():
            yield from topic.checked.values()

    # -- behind the log

    def finish(self, log: LogEnds) -> None:
        """Compares what is left, and examines units without a record. Opens every queue that has a directory."""
        self._sweep()
        for name in sorted(self._names):
            if not self._disk.is_directory(f"{self.directory}/{name}"):
                continue
            topic = self.topics.get(name) or self._topic(name)
            for queue_id in self._disk.listdir(f"{self.directory}/{name}"):
                if queue_id.isdecimal() and self._disk.is_directory(f"{self.directory}/{name}/{queue_id}"):
                    _ = topic.checked.get(int(queue_id)) or self._queue(topic, int(queue_id))
        for queue in self.queues():
            queue.end_offset = max((end for _, end in queue.covered), default=0)
            self._look_at_others(queue, log)

    def _look_at_others(self, queue: CheckedQueue, log: LogEnds) -> None:
        """Units at the begin may outlive their records. One that points to where the log has no record is its
        message's trace."""
        first_record = min((begin for begin, _ in queue.covered), default=None)
        last_record = max((end for _, end in queue.covered), default=0)
        for queue_offset, unit in queue.other_units():
            log_offset, size, _ = UNIT.unpack(unit)
            is_before = first_record is None or queue_offset < first_record
            is_rubbish = size <= 0 or log_offset < 0
            if queue_offset >= last_record and (unit == NO_UNIT or is_rubbish):
                what = "bytes behind the last unit that are none"
                queue.differs(Difference(queue_offset, what, log_offset, is_tail=True), is_mended=True)
                return
            if unit == NO_UNIT:
                if not is_before:
                    what = "nothing between units, and the log has no message for it"
                    queue.differs(Difference(queue_offset, what, log_offset, is_empty=True), is_mended=False)
                continue
            queue.end_offset = max(queue.end_offset, queue_offset + 1)
            if (size == PRE_BLANK_SIZE and log_offset == 0) or (is_before and 0 <= log_offset < log.min_offset):
                continue
            if is_rubbish or log.has(log_offset) or log_offset < log.min_offset:
                what = f"a unit pointing to log offset {log_offset}, where no message of this place begins"
                queue.differs(Difference(queue_offset, what, log_offset), is_mended=False)
            else:
                self._lose(queue, queue_offset, log_offset, log)

    def _lose(self, queue: CheckedQueue, queue_offset: int, log_offset: int, log: LogEnds) -> None:
        stretch = log.stretch_at(log_offset)
        start = stretch.log_offset if stretch is not None else log.end_offset
        by_queue = self.lost.setdefault(start, {})
        lost = by_queue.get((queue.topic, queue.queue_id))
        if lost is None:
            by_queue[queue.topic, queue.queue_id] = LostMessages(queue_offset, queue_offset)
        else:
            lost.last_queue_offset = queue_offset
            lost.count += 1
