"""What a start of our broker would change in a store: worked out from a trial start (``DryRun``)."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from rmqproto.wording import counted
from rmqserver.core import INDEX_UNIT
from rmqserver.store.checks.checked_store import LostMessages, named_queues, note_lost
from rmqserver.store.checks.dry_run import DryRun
from rmqserver.store.checks.log_walk import LogStretch, walk
from rmqserver.store.disk.overlay import Range
from rmqserver.store.found.found_files import commit_log_of
from rmqserver.store.found.found_tables import FoundTables
from rmqserver.store.found.survey import Survey
from rmqserver.store.index.index_file import HEADER, IndexHeader
from rmqserver.store.log.scan import FoundRecord
from rmqserver.store.options import UNIT_SIZE_BYTES

ADD_UNITS = "add units"
"""The action by which a queue gets units that it lacks."""

_UNMENTIONED = ("abort", "lock")
"""Every start writes them."""


class ChangedPart(enum.StrEnum):
    LOG = "commit log"
    QUEUE = "consume queue"
    INDEX = "index"
    TIMERS = "timers"
    CHECKPOINT = "checkpoint"
    TABLES = "tables"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """``begin`` and ``end`` are log offsets in the log, queue offsets in queues, entry numbers in the index. ``count``
    is the number of records, units or entries, ``lost_messages`` that of messages which can no longer be read."""

    part: ChangedPart
    action: str
    path: str
    begin: int | None = None
    end: int | None = None
    count: int = 0
    lost_messages: int = 0
    size_bytes: int = 0
    what: str = ""
    begin_ms: int | None = None
    end_ms: int | None = None


def planned_changes(found: Survey, dry: DryRun) -> Iterator[PlannedChange]:
    """The changes in the order of the parts, up to where the start refuses."""
    changes = _Changes(found, dry)
    yield from changes.of_log()
    yield from changes.of_files()
    yield from changes.of_offsets()


class _Changes:
    def __init__(self, found: Survey, dry: DryRun):
        self._found = found
        self._dry = dry
        self._removed = dry.disk.removed_paths()
        self._changed = dry.disk.changed_paths()

    def of_log(self) -> Iterator[PlannedChange]:
        """What is cut off: every record in it that could still be read, and its queue."""
        found, recovered = self._found, self._dry.recovered
        if recovered is None:
            return
        log, end = commit_log_of(found), recovered.end_offset
        cut = _CutOff(end)
        for each in walk(log, end) if end < log.end_offset else ():
            cut.take(each)
        if cut.end_offset > end:
            count = cut.record_count + cut.torn_count
            yield PlannedChange(
                ChangedPart.LOG, "cut off", found.below(log.path(log.base_of(end))), end, cut.end_offset, count, count,
                cut.end_offset - end, str(cut), cut.oldest_ms, cut.newest_ms,
            )  # fmt: skip

    def of_files(self) -> Iterator[PlannedChange]:
        found, disk = self._found, self._dry.disk
        for path in sorted({*self._removed, *self._changed}):
            name = found.below(path)
            if name in _UNMENTIONED:
                continue
            part = _part_of(name)
            if path in self._removed:
                yield PlannedChange(part, "remove", name, size_bytes=found.disk.file_size(path))
            if path not in self._changed:
                continue
            is_new = path in self._removed or not found.disk.is_file(path)
            written = disk.written(path)
            if part is ChangedPart.QUEUE:
                yield from self._of_queue(path, name, written)
            elif part is ChangedPart.INDEX:
                yield self._of_index(path, name, is_new=is_new)
            elif is_new or (part is not ChangedPart.LOG and written):
                yield PlannedChange(part, "make" if is_new else "write", name, size_bytes=_size(written))

    def _of_queue(self, path: str, name: str, written: list[Range]) -> Iterator[PlannedChange]:
        """Runs of units that are added, removed, or replaced."""
        base = int(name.rpartition("/")[2]) // UNIT_SIZE_BYTES
        below = self._found.disk.open(path, read_only=True) if self._found.disk.is_file(path) else None
        above = self._dry.disk.open(path, read_only=True)
        run: tuple[str, int, int] | None = None
        if below is None:
            for start, end in written:
                first, behind = start // UNIT_SIZE_BYTES, -(-end // UNIT_SIZE_BYTES)
                yield _queue_change(name, ADD_UNITS, base + first, base + behind)
            return
        for start, end in written:
            for at in range(start // UNIT_SIZE_BYTES, -(-end // UNIT_SIZE_BYTES)):
                before = below.pread(UNIT_SIZE_BYTES, at * UNIT_SIZE_BYTES)
                action = _unit_action(before, above.pread(UNIT_SIZE_BYTES, at * UNIT_SIZE_BYTES))
                if run is not None and run[0] == action and run[2] == base + at:
                    run = (action, run[1], base + at + 1)
                    continue
                if run is not None and run[0]:
                    yield _queue_change(name, *run)
                run = (action, base + at, base + at + 1)
        if run is not None and run[0]:
            yield _queue_change(name, *run)

    def _of_index(self, path: str, name: str, *, is_new: bool) -> PlannedChange:
        header = IndexHeader(*HEADER.unpack(self._dry.disk.open(path, read_only=True).pread(HEADER.size, 0)))
        before = 1
        if not is_new:
            old = self._found.disk.open(path, read_only=True).pread(HEADER.size, 0)
            before = max(1, IndexHeader(*HEADER.unpack(old)).next_unit)
        count = header.next_unit - before
        action = "make" if is_new else "add entries"
        return PlannedChange(
            ChangedPart.INDEX, action, name, before, header.next_unit, count, 0, count * INDEX_UNIT.size
        )

    def of_offsets(self) -> Iterator[PlannedChange]:
        """Groups that are ahead of their queues, which our broker sets back."""
        if self._dry.recovered is None:
            return
        tables = FoundTables(self._found.paths.config, self._found.disk)
        for key, by_queue in tables.offsets().items():
            topic, _, group = key.partition("@")
            for queue_id, offset in by_queue.items():
                end = self._dry.store.max_offset(topic, queue_id)
                if offset > end:
                    what = f"what {group} has committed in {topic}-{queue_id}"
                    yield PlannedChange(ChangedPart.TABLES, "set back", "config", offset, end, 1, what=what)


class _CutOff:
    """The part of the log behind its new end."""

    def __init__(self, log_offset: int):
        self.end_offset = log_offset
        self.record_count = self.torn_count = 0
        self.oldest_ms: int | None = None
        self.newest_ms: int | None = None
        self._queues: dict[tuple[str, int], LostMessages] = {}

    def take(self, each: list[FoundRecord] | LogStretch) -> None:
        if isinstance(each, LogStretch):
            self.torn_count += each.record is not None or each.head is not None
            self.end_offset = each.end_offset
            if each.record is not None:
                self._lose(each.record)
            return
        for record in each:
            self._lose(record)
        self.record_count += len(each)
        self.oldest_ms = self.oldest_ms or each[0].store_timestamp_ms
        self.newest_ms = each[-1].store_timestamp_ms
        self.end_offset = each[-1].log_offset + each[-1].size_bytes

    def _lose(self, record: FoundRecord) -> None:
        note_lost(self._queues, record.topic, record.queue_id, record.queue_offset)

    def __str__(self) -> str:
        parts = [
            (self.record_count, "record that can be read", "records that can be read"),
            (self.torn_count, "torn record", "torn records"),
        ]
        text = " and ".join(counted(*part) for part in parts if part[0]) or "bytes that are no record"
        return f"{text}: {named_queues(self._queues)}" if self._queues else text


def _part_of(name: str) -> ChangedPart:
    first = name.partition("/")[0]
    parts = {
        "commitlog": ChangedPart.LOG, "consumequeue": ChangedPart.QUEUE, "index": ChangedPart.INDEX,
        "timerwheel": ChangedPart.TIMERS, "timerlog": ChangedPart.TIMERS, "checkpoint": ChangedPart.CHECKPOINT,
    }  # fmt: skip
    return ChangedPart.TIMERS if name == "config/timercheck" else parts.get(first, ChangedPart.OTHER)


def _size(written: list[Range]) -> int:
    return sum(end - start for start, end in written)


def _unit_action(before: bytes, after: bytes) -> str:
    if before.ljust(len(after), b"\0") == after:
        return ""
    if not any(before):
        return ADD_UNITS
    return "clear units" if not any(after) else "replace units"


def _queue_change(name: str, action: str, begin: int, end: int) -> PlannedChange:
    return PlannedChange(ChangedPart.QUEUE, action, name, begin, end, end - begin, 0, (end - begin) * UNIT_SIZE_BYTES)
