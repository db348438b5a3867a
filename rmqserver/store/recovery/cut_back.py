"""Cuts the log of a closed store: a former master wrote what lies behind, and no other broker has it."""

from __future__ import annotations

from rmqserver.store.disk.checkpoint import Checkpoint
from rmqserver.store.disk.disk import Disk, storage_error
from rmqserver.store.disk.segments import FileCache, SegmentedFile, clear
from rmqserver.store.log.scan import first_record
from rmqserver.store.recovery.directory import StoreDirectory

OPEN_FILES_MAX = 4


def cut_back(root: str, file_size_bytes: int, log_offset: int, disk: Disk) -> None:
    """Ends the log below ``root`` at ``log_offset`` and fills the rest with zeros; the next start cuts queues and index
    to match. StorageError if the store is open, or cannot be changed.

    The checkpoint goes first, then the files from the last one back. A kill in between leaves the store of a killed
    broker with a longer log.
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
        disk.unlink(paths.queue_files)
        if not any(first_record(segments, base) for base in segments.bases):
            # Nothing may refer to a record. The log is removed last: without it, a start would refuse the rest.
            for directory in (paths.consume_queues, paths.index):
                _remove_below(directory, disk)
            if disk.is_file(paths.checkpoint):
                disk.unlink(paths.checkpoint)
            disk.sync_directory(paths.root)
            segments.delete_all()
    except OSError as error:
        raise storage_error(error, "cannot cut", error.filename or paths.commit_log) from error
    finally:
        lock.close()


def _remove_below(directory: str, disk: Disk) -> None:
    for name in disk.listdir(directory):
        path = f"{directory}/{name}"
        if disk.is_directory(path):
            _remove_below(path, disk)
            disk.rmdir(path)
        else:
            disk.unlink(path)
    disk.sync_directory(directory)
