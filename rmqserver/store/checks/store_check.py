"""All checks of a store, with one reading of its log. Only reads files, and locks nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rmqserver.store.checks import (
    index_check,
    log_check,
    mark_check,
    queue_check,
    set_check,
    table_check,
)
from rmqserver.store.checks.checked_store import CheckedStore, apaches, ours
from rmqserver.store.checks.dry_run import DryRun
from rmqserver.store.checks.finding import FindingKind, Severity, StoreFinding
from rmqserver.store.checks.index_check import IndexCheck
from rmqserver.store.checks.log_check import LogCheck
from rmqserver.store.checks.log_walk import LogStretch, walk, walk_in_use
from rmqserver.store.checks.queue_check import LogEnds, QueueCheck
from rmqserver.store.checks.wheel_check import WheelCheck
from rmqserver.store.disk.disk import storage_error
from rmqserver.store.disk.segments import FileCache
from rmqserver.store.found.found_files import FoundFiles
from rmqserver.store.found.found_tables import TOPICS, FoundTables
from rmqserver.store.found.inventory import listening
from rmqserver.store.found.survey import Queues, Survey
from rmqserver.store.index.index_file import entries_of
from rmqserver.store.log.scan import FoundRecord
from rmqserver.store.message_store import now_ms
from rmqserver.store.queues.consume_queue import PRE_BLANK_SIZE, UNIT

LOG_FILES_OPEN = 8

Progress = Callable[[str, int, int], None]
"""Called with the current step, how much of it is done, and how much there is."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """``findings`` are in the order of the checks; ``left_out`` counts further ones by kind. ``log_bytes`` is how much
    of the commit log was read. ``duration_s`` is wall clock time."""

    findings: list[StoreFinding]
    left_out: dict[FindingKind, int]
    log_bytes: int
    record_count: int
    unit_count: int
    entry_count: int
    table_count: int
    duration_s: float

    def count(self, severity: Severity) -> int:
        return sum(finding.severity is severity for finding in self.findings)

    @property
    def lost_message_count(self) -> int:
        return sum(finding.lost_messages for finding in self.findings)

    @property
    def is_damaged(self) -> bool:
        return any(finding.is_damage for finding in self.findings)


def check_store(
    found: Survey, on_progress: Progress = lambda *_: None, clock_ms: Callable[[], int] = now_ms
) -> CheckReport:  # fmt: skip
    """Checks the store. StorageError if the disk fails."""
    try:
        return _check(found, on_progress, clock_ms)
    except OSError as error:
        raise storage_error(error, "cannot read", error.filename or found.root) from error


def _check(found: Survey, on_progress: Progress, clock_ms: Callable[[], int]) -> CheckReport:
    started = time.monotonic()
    disk, options = found.disk, found.options
    on_progress("trying a start", 0, 0)
    with DryRun(found.root, options, found.timer_options, disk, clock_ms) as dry:
        cache = FileCache(disk, LOG_FILES_OPEN, read_only=True)
        log = FoundFiles(found.paths.commit_log, options.commit_log_file_size_bytes, disk, cache)
        records, wheel = LogCheck(log.min_offset, log.span), WheelCheck(found, dry)
        has_queues = found.queues is Queues.FILES and not found.has_extensions
        queues = QueueCheck(found, dry.disk if dry.refusal is None else None)
        counts = options.index_slot_count, options.index_unit_count
        index = IndexCheck(found.paths.index_paths(), counts, disk, log.min_offset) if found.has_index_counts else None
        with listening([]):
            parts = walk(log, log.min_offset)
            if found.is_in_use:
                settled_end = dry.recovered.end_offset if dry.recovered is not None else log.end_offset
                parts = walk_in_use(log, log.min_offset, settled_end)
            log_bytes = _read_log(log, parts, records, queues if has_queues else None, index, wheel, on_progress)
            stretches = [each.stretch for each in records.stretches]
            if has_queues:
                queues.finish(LogEnds(log.min_offset, records.end_offset, stretches))
        tables = FoundTables(found.paths.config, disk)
        checked = CheckedStore(
            found, dry, log, ours(dry),
            apaches(found, log, stretches, records.end_offset, _newest_known(queues), _apache_refusal(log, queues)),
            tables.keys(TOPICS),
        )  # fmt: skip
        mark_check.add_all(checked, records)
        mark_check.add_files(checked, queues)
        log_check.add_all(checked, records, queues)
        queue_check.add_all(checked, queues)
        index_check.add_all(checked, index)
        table_check.add_all(checked, tables, queues)
        wheel.add_all(checked)
        set_check.add_all(checked, records.end_offset)
    return CheckReport(
        checked.findings.all, checked.findings.left_out, log_bytes, records.record_count,
        sum(queue.unit_count for queue in queues.queues.values()),
        sum(file.entry_count for file in index.files) if index is not None else 0,
        len(tables.all), time.monotonic() - started,
    )  # fmt: skip


def _read_log(
    log: FoundFiles, parts: Iterable[list[FoundRecord] | LogStretch], records: LogCheck, queues: QueueCheck | None,
    index: IndexCheck | None, wheel: WheelCheck, on_progress: Progress,
) -> int:  # fmt: skip
    """Returns how many bytes were read. ``parts`` of the log, as ``walk`` yields them."""
    start, end = log.min_offset, log.end_offset
    for each in parts:
        if isinstance(each, LogStretch):
            records.take_stretch(each)
            if each.record is None:
                continue
            portion = [each.record]
        else:
            portion = each
            records.take(portion)
        wheel.take(portion)
        if queues is not None:
            queues.take(portion)
        if index is not None:
            index.take(entries_of(portion, {}))
        on_progress("reading the log", portion[-1].log_offset - start, end - start)
    if index is not None:
        index.finish()
    return records.end_offset - start


def _apache_refusal(log: FoundFiles, queues: QueueCheck) -> str:
    for files in (log, *(queue.files for queue in queues.queues.values())):
        if refusal := mark_check.apache_refusal(files):
            return refusal
    return ""


def _newest_known(queues: QueueCheck) -> int:
    """End of the newest record that a consume queue knows (Apache's maxPhysicOffset)."""
    newest = 0
    for queue in queues.queues.values():
        unit = queue.last_unit()
        if unit is not None and (last := UNIT.unpack(unit))[1] != PRE_BLANK_SIZE:
            newest = max(newest, last[0] + last[1])
    return newest
