"""What goes when, and when nothing more is taken (``CleanCommitLogService``, 5.5.0): files go by age, oldest first,
never the last one; a disk that fills up lowers the age, then stops writes before it is full."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqserver.store.disk import DiskUsage
from rmqserver.store.running_flags import CONSUME_QUEUE_DISK_FULL, DISK_FULL

if TYPE_CHECKING:
    from rmqserver.store.consume_queue import ConsumeQueue
    from rmqserver.store.file_maker import FileMaker
    from rmqserver.store.message_store import MessageStore

_HOUR_MS = 3_600_000


@dataclass(slots=True)
class CleanReport:
    """What one round of cleaning found and did."""

    log_disk_used_percent: int
    queue_disk_used_percent: int
    deleted_log_files: int = 0
    deleted_queue_files: int = 0
    deleted_index_files: int = 0


class Retention:
    def __init__(self, store: MessageStore, maker: FileMaker):
        self._store = store
        self._maker = maker

    def clean(self, now_ms: int, *, force: bool) -> CleanReport:
        report = self._measure()
        self._delete_log_files(report, now_ms, force)
        if report.deleted_log_files:
            self._follow_log(report)
        return report

    def _measure(self) -> CleanReport:
        store = self._store
        log_path, queue_path = store.directory.commit_log, store.directory.consume_queues
        log_usage, queue_usage = store.disk.usage(log_path), store.disk.usage(queue_path)
        self._judge(DISK_FULL, log_path, log_usage)
        self._judge(CONSUME_QUEUE_DISK_FULL, queue_path, queue_usage)
        return CleanReport(log_usage.used_percent, queue_usage.used_percent)

    def _judge(self, bit: int, path: str, usage: DiskUsage) -> None:
        options = self._store.options
        full, free_min = options.disk_used_percent_full, options.disk_free_min_bytes
        if usage.used_percent > full:
            self._store.flags.set(bit, f"disk of {path} is {usage.used_percent}% full, the limit is {full}%")
        elif usage.usable_bytes < free_min:
            free_mib = usage.usable_bytes >> 20
            self._store.flags.set(bit, f"disk of {path} has {free_mib} MiB left, the limit is {free_min >> 20} MiB")
        elif usage.used_percent <= options.disk_used_percent_forcible:
            self._store.flags.clear(bit)

    def _delete_log_files(self, report: CleanReport, now_ms: int, force: bool) -> None:
        store, options = self._store, self._store.options
        used = max(report.log_disk_used_percent, report.queue_disk_used_percent)
        is_time = time.localtime(now_ms / 1000).tm_hour in options.delete_hours
        if not (force or is_time or used > options.disk_used_percent_max):
            return
        ignores_age = options.clean_forcibly_enabled and used > options.disk_used_percent_forcible
        segments = store.log.segments
        while len(segments.bases) > 1 and report.deleted_log_files < options.delete_file_batch_max:
            age_ms = now_ms - store.disk.modified_ms(segments.path(segments.bases[0]))
            if not ignores_age and age_ms <= options.file_reserved_hours * _HOUR_MS:
                return
            if segments.bases[1] > store.flushed_offset:
                return
            self._maker.remove(segments.forget_first())
            report.deleted_log_files += 1

    def _follow_log(self, report: CleanReport) -> None:
        """Queues and index let go of what the log no longer has."""
        store = self._store
        log_min = store.log.min_offset
        for queue in store.queues.all():
            queue.forget_before(log_min)
            report.deleted_queue_files += _delete_queue_files(queue)
        if store.index is not None:
            report.deleted_index_files = store.index.delete_below(log_min)


def _delete_queue_files(queue: ConsumeQueue) -> int:
    """Removes files that lie wholly below the first readable unit, never the last."""
    count = 0
    while len(queue.segments.bases) > 1 and queue.is_below_min(queue.segments.bases[1]):
        queue.segments.delete_first()
        count += 1
    return count
