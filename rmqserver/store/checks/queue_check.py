"""Compares all consume queues with the log: the store's own code makes them anew from its records, on a disk of their
own, and each queue is compared with that. Of each, the first difference is told, and whether a start mends all."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rmqproto.names import LIGHT_QUEUE_PREFIX, SCHEDULE_TOPIC, is_system_topic
from rmqproto.wording import counted
from rmqserver.store.checks.checked_store import CheckedStore, LostMessages, note_lost
from rmqserver.store.checks.finding import FindingKind, Severity
from rmqserver.store.checks.log_walk import LogStretch
from rmqserver.store.disk.disk import Disk
from rmqserver.store.disk.overlay import OverlayDisk
from rmqserver.store.disk.segments import FileCache
from rmqserver.store.found.found_files import FoundFiles, data_end
from rmqserver.store.found.found_tables import TOPICS
from rmqserver.store.found.survey import Survey
from rmqserver.store.log.scan import FoundRecord
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import UNIT_SIZE_BYTES
from rmqserver.store.queues.consume_queue import PRE_BLANK, UNIT

NO_UNIT = bytes(UNIT_SIZE_BYTES)
MADE_ANEW = "makes it anew from the log"
LEFT = "leaves it: consumers miss messages there, or get others"

_NONE = (NO_UNIT, PRE_BLANK)
_CODE_AT = 12
_BLOCK_BYTES = 2000 * UNIT_SIZE_BYTES
_SHIFT_MS_MAX = 30 * 24 * 3_600_000
_MS_PER_S = 1000
_NAMES_SHOWN = 10


class LogEnds:
    """Where the log has records: between its ends, except in the stretches."""

    def __init__(self, min_offset: int, end_offset: int, stretches: Sequence[LogStretch]):
        self.min_offset = min_offset
        self.end_offset = end_offset
        self._stretches = stretches
        self._starts = [stretch.log_offset for stretch in stretches]

    def gap_at(self, log_offset: int) -> int | None:
        """Where the stretch begins that this place lies in, or the end of the log if it lies behind; None if a record
        lies there, or none does any more."""
        if log_offset >= self.end_offset:
            return self.end_offset
        at = bisect_right(self._starts, log_offset) - 1
        is_inside = at >= 0 and log_offset < self._stretches[at].end_offset
        return self._starts[at] if is_inside and log_offset >= self.min_offset else None


Difference = tuple[int, int, str]
"""Where a queue is not as the log says: queue offset, log offset, and what is wrong."""

LostByGap = dict[int, dict[tuple[str, int], LostMessages]]
"""Messages whose units point to a place without a record: by the start of the stretch (for those behind the log, its
end), then topic and queue."""


@dataclass(slots=True)
class CheckedQueue:
    """One queue. ``is_there``: its topic has a directory. ``unit_count``: how many units the log calls for; the last
    one is before ``next_offset``. ``end_offset``: the queue offset behind the last message that the log or the files
    know. ``is_mended``: nothing differs from the log after a start of our broker."""

    topic: str
    queue_id: int
    is_there: bool
    files: FoundFiles
    next_offset: int
    end_offset: int
    unit_count: int = 0
    difference: Difference | None = None
    is_mended: bool = False

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
        self.lost: LostByGap = {}
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
                files = self._files(self._directory, topic, queue_id, self._disk)
                queue = self.queues[topic, queue_id] = CheckedQueue(topic, queue_id, topic in there, files, end, end)
                self._compare(queue, log)
        self._made.abandon()

    def _is_directory(self, name: str) -> bool:
        return self._disk.is_directory(f"{self._directory}/{name}")

    def _files(self, directory: str, topic: str, queue_id: int, disk: Disk) -> FoundFiles:
        return FoundFiles(f"{directory}/{topic}/{queue_id}", self._size_bytes, disk, self._caches[disk])

    def _compare(self, queue: CheckedQueue, log: LogEnds) -> None:
        where = queue.topic, queue.queue_id
        made = self._files(self._made.queues.directory, *where, self._made_disk)
        queue.difference = self._difference(queue, made, queue.files, log, self.lost)
        if queue.difference is not None and self._after is not None:
            after = self._files(self._directory, *where, self._after)
            queue.is_mended = self._difference(replace(queue), made, after, log, {}) is None

    def _difference(
        self, queue: CheckedQueue, made: FoundFiles, files: FoundFiles, log: LogEnds, lost: LostByGap
    ) -> Difference | None:
        """The first one. Counts the queue's units and lost messages, and finds its end."""
        first: Difference | None = None
        queue.unit_count = 0
        for begin, wanted, there in _blocks(made, files):
            if wanted == there and NO_UNIT not in wanted and PRE_BLANK not in wanted:
                queue.unit_count += len(wanted) // UNIT_SIZE_BYTES
                continue
            for at in range(0, len(wanted), UNIT_SIZE_BYTES):
                queue_offset = begin + at // UNIT_SIZE_BYTES
                unit, found = wanted[at : at + UNIT_SIZE_BYTES], there[at : at + UNIT_SIZE_BYTES]
                log_offset, size, _ = UNIT.unpack(found)
                if queue_offset >= queue.next_offset and (log_offset < 0 or size <= 0):
                    return first  # nobody reads what is behind
                if unit in _NONE:
                    what = _odd(queue, queue_offset, found, log, lost)
                else:
                    what, log_offset = _wrong(queue, unit, found), UNIT.unpack(unit)[0]
                    queue.unit_count += 1
                if what and first is None:
                    first = queue_offset, log_offset, f"{what} {log_offset}"
        return first


def _blocks(made: FoundFiles, files: FoundFiles) -> Iterator[tuple[int, bytes, bytes]]:
    """Queue offset, the units that belong there, and those that are there, wherever a file may have some."""
    end = max(data_end(made, 0), data_end(files, 0))
    for base in sorted({*made.bases, *files.bases}):
        stop = min(base + files.file_size_bytes, end + -end % UNIT_SIZE_BYTES)
        for at in range(base, stop, _BLOCK_BYTES):
            size = min(_BLOCK_BYTES, stop - at)
            yield at // UNIT_SIZE_BYTES, made.span(at, size), files.span(at, size)


def _odd(queue: CheckedQueue, queue_offset: int, there: bytes, log: LogEnds, lost: LostByGap) -> str:
    """What is wrong where no record calls for a unit; empty if nothing is. Units at the begin may outlive their
    records. A unit that points to where the log has lost its record is its message's last trace."""
    log_offset, size, _ = UNIT.unpack(there)
    is_before = not queue.unit_count
    if there == NO_UNIT:
        return "" if is_before else "nothing between units, and the log has no message for it: log offset"
    queue.end_offset = max(queue.end_offset, queue_offset + 1)
    if there == PRE_BLANK or (is_before and 0 <= log_offset < log.min_offset):
        return ""
    gap = log.gap_at(log_offset) if size > 0 <= log_offset else None
    if gap is None:
        return "a unit pointing to where no message of this place begins: log offset"
    note_lost(lost.setdefault(gap, {}), queue.topic, queue.queue_id, queue_offset)
    return ""


def _wrong(queue: CheckedQueue, wanted: bytes, there: bytes) -> str:
    """How the unit that is there is not that of a message; empty if it is. A due time that is another by whole seconds
    is no fault: ``messageDelayLevel`` was not the default."""
    if there == wanted:
        return ""
    if there in _NONE:
        return f"no unit{'' if queue.files.bases else ', and no file,'} for the message at log offset"
    if queue.topic == SCHEDULE_TOPIC and wanted[:_CODE_AT] == there[:_CODE_AT]:
        shift_ms = UNIT.unpack(there)[2] - UNIT.unpack(wanted)[2]
        if abs(shift_ms) <= _SHIFT_MS_MAX and not shift_ms % _MS_PER_S:
            return ""
    return "the unit is not that of the message at log offset"


def add_all(checked: CheckedStore, queues: QueueCheck) -> None:
    known = checked.known_topics
    nameless: Counter[str] = Counter()
    for queue in queues.queues.values():
        topic, path = queue.topic, checked.found.below(queue.files.directory)
        where: dict[str, Any] = {"topic": topic, "queue_id": queue.queue_id, "count": queue.unit_count}
        if not queue.is_there and known is not None and topic not in known and not topic.startswith(LIGHT_QUEUE_PREFIX):
            what = f"{counted(queue.unit_count, 'message')} of a topic that is deleted"
            becomes = "leaves them until they expire"
            checked.add(Severity.NOTE, FindingKind.TOPIC_DELETED, what, path, ours=becomes, apache=becomes, **where)
            continue
        if queue.difference is not None:
            _add_difference(checked, queue, *queue.difference)
        if topic.startswith(LIGHT_QUEUE_PREFIX) or is_system_topic(topic):
            continue  # brokers serve it without a name in config/topics.json
        if known is None:
            nameless[topic] += queue.unit_count
        elif topic not in known:
            what = f"{counted(queue.unit_count, 'message')} of a topic that config/topics.json does not name"
            becomes = "serves them when the topic is made again"
            checked.add(Severity.WARNING, FindingKind.TABLE_TOPIC, what, path, ours=becomes, apache=becomes, **where)
    if names := sorted(topic for topic, count in nameless.items() if count):
        # Brokers begin with an empty table. Without messages, that is a store which no topic was made in.
        shown = ", ".join(names[:_NAMES_SHOWN]) + (", …" if len(names) > _NAMES_SHOWN else "")
        checked.add(
            Severity.WARNING, FindingKind.TABLE_TOPIC,
            f"no table of topics, and {counted(nameless.total(), 'message')} of {counted(len(names), 'topic')}: "
            f"{shown}", checked.found.below(f"{checked.found.paths.config}/{TOPICS}"), count=len(names),
            becomes="serves them when the topics are made again",
        )  # fmt: skip


def _add_difference(checked: CheckedStore, queue: CheckedQueue, queue_offset: int, log_offset: int, what: str) -> None:
    at = queue_offset * UNIT_SIZE_BYTES
    base = queue.files.base_of(at)
    is_there = base in queue.files.bases
    severity = Severity.ERROR
    if queue.is_mended:
        severity = Severity.WARNING if checked.found.is_clean else Severity.NOTE
    elif not queue.files.bases and checked.known_topics is None:  # it looks like one of a deleted topic
        severity = Severity.WARNING
    checked.add(
        severity, FindingKind.QUEUE_DIFFERS, f"differs from the log, first here: {what}",
        checked.found.below(queue.files.path(base) if is_there else queue.files.directory),
        at - base if is_there else None, log_offset=log_offset, topic=queue.topic, queue_id=queue.queue_id,
        queue_offset=queue_offset, ours=checked.ours.refused(MADE_ANEW if queue.is_mended else LEFT),
    )  # fmt: skip
