"""A log is cut off, of a store that is closed: what is behind was another master's, and nobody else has it."""

from __future__ import annotations

from rmqserver.store.disk.directory import StoreDirectory
from rmqserver.store.disk.disk import Disk, storage_error
from rmqserver.store.disk.segments import FileCache, SegmentedFile, clear
from rmqserver.store.log.scan import first_record
from rmqserver.store.recovery.checkpoint import Checkpoint

OPEN_FILES_MAX = 4


def cut_back(root: str, file_size_bytes: int, log_offset: int, disk: Disk) -> None:
    """The log below ``root`` ends there, and what is behind is zeros; the next start has queues and index follow.
    StorageError if the store is open, or cannot be changed.

    The checkpoint goes first, and the files from the last one back: killed in between, the store is one of a broker
    that was killed, with a longer log.
    """
    paths = StoreDirectory(root, disk)
    lock = paths.lock()
    try:
        checkpoint = Checkpoint.read(disk, paths.checkpoint)
        checkpoint.without_queues().write(disk, paths.checkpoint)
        segments = SegmentedFile(paths.commit_log, file_size_bytes, disk, FileCache(disk, OPEN_FILES_MAX))
        segments.load()
        segments.delete_after(log_offset)
        clear(segments, log_offset)
        disk.sync_directory(paths.commit_log)
        if not any(first_record(segments, base) for base in segments.bases):
            _empty(paths, segments, disk)
    except OSError as error:
        raise storage_error(error, "cannot cut", error.filename or paths.commit_log) from error
    finally:
        lock.close()


def _empty(paths: StoreDirectory, segments: SegmentedFile, disk: Disk) -> None:
    """Of a log without a record nothing may tell of one. The log goes last: without it, the rest would be refused."""
    for directory in (paths.consume_queues, paths.index):
        _remove_below(directory, disk)
    if disk.is_file(paths.checkpoint):
        disk.unlink(paths.checkpoint)
    disk.sync_directory(paths.root)
    segments.delete_all()


def _remove_below(directory: str, disk: Disk) -> None:
    for name in disk.listdir(directory):
        path = f"{directory}/{name}"
        if disk.is_directory(path):
            _remove_below(path, disk)
            disk.rmdir(path)
        else:
            disk.unlink(path)
    disk.sync_directory(directory)
