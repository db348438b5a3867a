"""Compares all consume queues with the log: the store's own code makes them anew from its records, on a disk of their
own, and each queue is compared with that. Of each, the first difference counts; behind it, only whether a start makes
the queue anew is still found out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from rmqproto.names import LIGHT_QUEUE_PREFIX, SCHEDULE_TOPIC
from rmqserver.store.checks.found_files import FoundFiles, data_end
from rmqserver.store.checks.log_walk import LogStretch
from rmqserver.store.checks.survey import Survey
from rmqserver.store.disk.disk import Disk
from rmqserver.store.disk.overlay import OverlayDisk
from rmqserver.store.disk.segments import FileCache
from rmqserver.store.log.scan import FoundRecord
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import UNIT_SIZE_BYTES
from rmqserver.store.queues.consume_queue import PRE_BLANK, UNIT

NO_UNIT = bytes(UNIT_SIZE_BYTES)
_NONE = (NO_UNIT, PRE_BLANK)
_CODE_AT = 12
_BLOCK_BYTES = 2000 * UNIT_SIZE_BYTES
_SHIFT_MS_MAX = 30 * 24 * 3_600_000
_MS_PER_S = 1000


@dataclass(slots=True)
class LostMessages:
    """Lost messages of one queue, in one stretch of the log."""

    first_queue_offset: int
    last_queue_offset: int
    count: int = 0


def note_lost(lost: dict[tuple[str, int], LostMessages], topic: str, queue_id: int, queue_offset: int) -> None:
    """Counts one more, by topic and queue id; each queue's come in order."""
    found = lost.setdefault((topic, queue_id), LostMessages(queue_offset, queue_offset))
    found.last_queue_offset = queue_offset
    found.count += 1


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


@dataclass(slots=True)
class CheckedQueue:
    """One queue: its files, those that were made from the log, and those that a start of our broker would leave (None
    if that refuses). ``is_there``: its topic has a directory. ``is_mended``: a start changes all that differs into what
    the log says. ``unit_count``: how many units the log calls for; the last one is before ``next_offset``.
    ``end_offset``: the queue offset behind the last message that the log or the files know."""

    topic: str
    queue_id: int
    is_there: bool
    files: FoundFiles
    made: FoundFiles
    after: FoundFiles | None
    next_offset: int
    end_offset: int
    is_mended: bool
    difference: Difference | None = None
    unit_count: int = 0

    def blocks(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Queue offset, the units that belong there, and those that are there, wherever a file may have some."""
        end = max(data_end(self.made, 0), data_end(self.files, 0))
        for base in sorted({*self.made.bases, *self.files.bases}):
            stop = min(base + self.files.file_size_bytes, end + -end % UNIT_SIZE_BYTES)
            for at in range(base, stop, _BLOCK_BYTES):
                size = min(_BLOCK_BYTES, stop - at)
                yield at // UNIT_SIZE_BYTES, self.made.span(at, size), self.files.span(at, size)

    def differs(self, wanted: bytes, difference: Difference) -> None:
        """The unit ``wanted`` is not there, or the difference is of the tail, which harms nobody."""
        self.difference = self.difference or difference
        at = difference.queue_offset * UNIT_SIZE_BYTES
        self.is_mended = self.is_mended and (
            difference.is_tail or (self.after is not None and self.after.span(at, UNIT_SIZE_BYTES) == wanted)
        )

    def last_unit(self) -> bytes | None:
        """The unit before the queue's end, as it is; None if there is none."""
        if not self.end_offset:
            return None
        unit = self.files.span((self.end_offset - 1) * UNIT_SIZE_BYTES, UNIT_SIZE_BYTES)
        return unit if unit != NO_UNIT else None


class QueueCheck:
    """``take`` all records in log order, then ``finish``. ``after`` is the disk as a start of our broker would leave
    it; None if that refuses."""

    def __init__(self, found: Survey, after: Disk | None):
        self.queues: dict[tuple[str, int], CheckedQueue] = {}
        """By topic and queue id; known when everything is compared."""
        self.lost: dict[int, dict[tuple[str, int], LostMessages]] = {}
        """Messages whose units point to a place without a record: by the start of the stretch (for those behind the
        log, its end), then topic and queue."""
        self._directory = found.paths.consume_queues
        self._size_bytes = found.options.consume_queue_file_size_bytes
        self._disk, self._after, self._made_disk = found.disk, after, OverlayDisk(found.disk)
        options = replace(found.options, index_enabled=False)
        self._made = MessageStore(f"{found.root}/made", options, self._made_disk, background=False)
        self._made_disk.mkdir(self._made.queues.directory)
        (self._feed,) = self._made.followers.all
        self._feed.lacks_from()  # they begin empty: nothing is missing before the first record
        disks = [disk for disk in (self._disk, self._after, self._made_disk) if disk is not None]
        self._caches = {disk: FileCache(disk, options.open_files_max, read_only=True) for disk in disks}

    def take(self, records: list[FoundRecord]) -> None:
        self._feed.replay(records)

    def finish(self, log: LogEnds) -> None:
        """Compares the queues of all records, and all that have a directory."""
        made = self._made.queues
        for each in list(made.behind):
            made.write_queue(each)
        ends = {(each.topic, each.queue_id): each.next_offset for each in made.opened()}
        there = {name for name in self._disk.listdir(self._directory) if self._is_directory(name)}
        for name in sorted(there):
            for number in self._disk.listdir(f"{self._directory}/{name}"):
                if number.isdecimal() and self._is_directory(f"{name}/{number}"):
                    ends.setdefault((name, int(number)), 0)
        for (topic, queue_id), end in ends.items():
            if topic in there or not topic.startswith(LIGHT_QUEUE_PREFIX):  # other light queues have expired
                queue = self.queues[topic, queue_id] = CheckedQueue(
                    topic, queue_id, topic in there, self._files(self._directory, topic, queue_id, self._disk),
                    self._files(made.directory, topic, queue_id, self._made_disk),
                    self._files(self._directory, topic, queue_id, self._after) if self._after is not None else None,
                    end, end, self._after is not None,
                )  # fmt: skip
                self._compare(queue, log)
        self._made.abandon()

    def _is_directory(self, name: str) -> bool:
        return self._disk.is_directory(f"{self._directory}/{name}")

    def _files(self, directory: str, topic: str, queue_id: int, disk: Disk) -> FoundFiles:
        return FoundFiles(f"{directory}/{topic}/{queue_id}", self._size_bytes, disk, self._caches[disk])

    def _compare(self, queue: CheckedQueue, log: LogEnds) -> None:
        for first, wanted, there in queue.blocks():
            if wanted == there and NO_UNIT not in wanted and PRE_BLANK not in wanted:
                queue.unit_count += len(wanted) // UNIT_SIZE_BYTES
                continue
            for queue_offset, unit, found in _units(first, wanted, there):
                if unit in _NONE:
                    if not self._take_other(queue, queue_offset, unit, found, log):
                        return
                    continue
                queue.unit_count += 1
                if unit != found and not (queue.topic == SCHEDULE_TOPIC and _is_other_delay(unit, found)):
                    log_offset, _, _ = UNIT.unpack(unit)
                    queue.differs(unit, _difference(queue, queue_offset, log_offset, found))

    def _take_other(self, queue: CheckedQueue, queue_offset: int, wanted: bytes, there: bytes, log: LogEnds) -> bool:
        """Looks at what lies where no record calls for a unit. False if what follows does not matter. Units at the
        begin may outlive their records. One that points to where the log has no record is its message's last trace."""
        log_offset, size, _ = UNIT.unpack(there)
        is_before, is_rubbish = not queue.unit_count, size <= 0 or log_offset < 0
        if is_rubbish and queue_offset >= queue.next_offset:
            what = "bytes behind the last unit that are none"
            queue.differs(wanted, Difference(queue_offset, what, log_offset, is_tail=True))
            return False
        if there == NO_UNIT:
            if not is_before:
                what = "nothing between units, and the log has no message for it"
                queue.differs(wanted, Difference(queue_offset, what, log_offset, is_empty=True))
            return True
        queue.end_offset = max(queue.end_offset, queue_offset + 1)
        if there == PRE_BLANK or (is_before and 0 <= log_offset < log.min_offset):
            return True
        if is_rubbish or log.has(log_offset) or log_offset < log.min_offset:
            what = f"a unit pointing to log offset {log_offset}, where no message of this place begins"
            queue.differs(wanted, Difference(queue_offset, what, log_offset))
        else:
            stretch = log.stretch_at(log_offset)
            start = stretch.log_offset if stretch is not None else log.end_offset
            note_lost(self.lost.setdefault(start, {}), queue.topic, queue.queue_id, queue_offset)
        return True


def _units(first: int, wanted: bytes, there: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """A block unit by unit."""
    for at in range(0, len(wanted), UNIT_SIZE_BYTES):
        yield first + at // UNIT_SIZE_BYTES, wanted[at : at + UNIT_SIZE_BYTES], there[at : at + UNIT_SIZE_BYTES]


def _difference(queue: CheckedQueue, queue_offset: int, log_offset: int, there: bytes) -> Difference:
    """``there`` is not the unit of the message at that log offset."""
    what = f"no unit for the message at log offset {log_offset}"
    if not queue.files.bases:
        what += ": the queue has no file"
    elif there not in _NONE:
        what = f"the unit is not that of the message at log offset {log_offset}"
    return Difference(queue_offset, what, log_offset, is_empty=there in _NONE)


def _is_other_delay(wanted: bytes, there: bytes) -> bool:
    """Whether only the due time is another, by whole seconds: ``messageDelayLevel`` was not the default."""
    shift_ms = UNIT.unpack(there)[2] - UNIT.unpack(wanted)[2]
    return wanted[:_CODE_AT] == there[:_CODE_AT] and abs(shift_ms) <= _SHIFT_MS_MAX and not shift_ms % _MS_PER_S
