"""Which files are removed when, and when writes stop (``CleanCommitLogService``, 5.5.0). Files go by age, oldest first,
never the last one. A disk that fills up lowers the age, then stops writes before it is full."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

from rmqserver.store.disk.disk import Disk, DiskUsage
from rmqserver.store.followers import Followers
from rmqserver.store.log.commit_log import CommitLog
from rmqserver.store.options import StoreOptions
from rmqserver.store.recovery.directory import StoreDirectory
from rmqserver.store.running_flags import CONSUME_QUEUE_DISK_FULL, DISK_FULL, NOT_WRITEABLE, RunningFlags

_HOUR_MS = 3_600_000


@dataclass(slots=True)
class CleanReport:
    """What one round of cleaning found and did."""

    log_disk_used_percent: int
    queue_disk_used_percent: int
    deleted_log_files: int = 0


class Retention:
    """``remove`` takes the path of a log file that nothing refers to anymore."""

    def __init__(
        self,
        directory: StoreDirectory,
        disk: Disk,
        log: CommitLog,
        followers: Followers,
        flags: RunningFlags,
        remove: Callable[[str], None],
        options: StoreOptions,
    ):
        self._directory = directory
        self._disk = disk
        self._log = log
        self._followers = followers
        self._flags = flags
        self._remove = remove
        self._followers_left: Iterator[None] = iter(())
        self.use_options(options)

    def use_options(self, options: StoreOptions) -> None:
        self._options = options

    def clean(self, now_ms: int, flushed_offset: int, *, force: bool) -> CleanReport:
        """Files that are not flushed yet stay. What followers hold of removed files goes by ``clean_some``. If the
        store was removed under its broker, messages are refused from now on: a file that has no name takes them well,
        and loses them."""
        if bases := self._log.segments.bases:
            newest = self._log.segments.path(bases[-1])
            try:
                self._disk.file_size(newest)
            except FileNotFoundError:
                self._flags.set(NOT_WRITEABLE, f"commit log file {newest} was removed while it was written")
        log_path, queue_path = self._directory.commit_log, self._directory.consume_queues
        log_usage, queue_usage = self._disk.usage(log_path), self._disk.usage(queue_path)
        self._judge(DISK_FULL, log_path, log_usage)
        self._judge(CONSUME_QUEUE_DISK_FULL, queue_path, queue_usage)
        report = CleanReport(log_usage.used_percent, queue_usage.used_percent)
        self._delete_log_files(report, now_ms, flushed_offset, force)
        if report.deleted_log_files:
            log_min = self._log.min_offset
            self._followers_left = chain(
                self._followers_left, *(each.delete_below(log_min) for each in self._followers.all)
            )
        return report

    def clean_some(self) -> bool:
        """Removes a portion of the files of consume queues, of the index, and of any other follower that hold nothing
        of the log anymore. False if none is left. OSError; the next calls go on with the next follower."""
        return next(self._followers_left, self) is None

    def lack_of_room(self) -> str:
        """Why a copied log must not grow; empty if it may. The percentages count only for messages that producers
        send: a slave that stops leaves its master without a copy."""
        path = self._directory.commit_log
        return self._too_little(path, self._disk.usage(path))

    def why_full(self) -> str:
        """Why a producer's messages would be refused after the next ``clean``; empty if they would not be."""
        paths = self._directory.commit_log, self._directory.consume_queues
        return next(filter(None, (self._problem(path, self._disk.usage(path)) for path in paths)), "")

    def _problem(self, path: str, usage: DiskUsage) -> str:
        full = self._options.disk_used_percent_full
        if usage.used_percent > full:
            return f"disk of {path} is {usage.used_percent}% full, the limit is {full}%"
        return self._too_little(path, usage)

    def _too_little(self, path: str, usage: DiskUsage) -> str:
        free_min = self._options.disk_free_min_bytes
        if usage.usable_bytes >= free_min:
            return ""
        return f"disk of {path} has {usage.usable_bytes >> 20} MiB left, the limit is {free_min >> 20} MiB"

    def _judge(self, bit: int, path: str, usage: DiskUsage) -> None:
        if reason := self._problem(path, usage):
            self._flags.set(bit, reason)
        elif usage.used_percent <= self._options.disk_used_percent_forcible:
            self._flags.clear(bit)

    def _delete_log_files(self, report: CleanReport, now_ms: int, flushed_offset: int, force: bool) -> None:
        options, segments = self._options, self._log.segments
        used = max(report.log_disk_used_percent, report.queue_disk_used_percent)
        is_time = time.localtime(now_ms / 1000).tm_hour in options.delete_hours
        if not (force or is_time or used > options.disk_used_percent_max):
            return
        ignores_age = options.clean_forcibly_enabled and used > options.disk_used_percent_forcible
        while len(segments.bases) > 1 and report.deleted_log_files < options.delete_file_batch_max:
            age_ms = now_ms - self._disk.modified_ms(segments.path(segments.bases[0]))
            if not ignores_age and age_ms <= options.file_reserved_hours * _HOUR_MS:
                return
            if segments.bases[1] > flushed_offset:
                return
            self._remove(segments.forget_first())
            report.deleted_log_files += 1
