"""What a store directory shows before any of its data is read: its kind, which broker wrote it, which process uses it,
and the sizes of its files."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from rmqproto.errors import UsageError
from rmqproto.names import LIGHT_QUEUE_PREFIX
from rmqserver.store.disk.checkpoint import Checkpoint
from rmqserver.store.disk.disk import Disk, storage_error
from rmqserver.store.disk.segments import file_size_in
from rmqserver.store.options import StoreOptions, TimerOptions, TimerPaths
from rmqserver.store.recovery.directory import StoreDirectory

_DLEDGER_PREFIX = "dledger-"


class Queues(enum.StrEnum):
    """Where the consume queues are."""

    FILES = "files"
    ROCKSDB = "RocksDB"
    """``storeType=defaultRocksDB``."""


class Writer(enum.StrEnum):
    """The broker that last stopped, or was killed, on the store, as far as it can be told."""

    OURS = "rmqserver"
    APACHE = "Apache RocketMQ 5.4 or newer"
    OLD_APACHE = "Apache RocketMQ 5.3.3 or older"
    NOBODY = "nobody yet"


@dataclass(frozen=True, slots=True)
class Survey:
    """``owner_id`` is the process that ``abort`` names. ``lock_owner_id``: as ``Disk.lock_owner``."""

    root: str
    disk: Disk
    paths: StoreDirectory
    options: StoreOptions
    timer_paths: TimerPaths
    timer_options: TimerOptions
    queues: Queues
    writer: Writer
    checkpoint: Checkpoint
    checkpoint_size_bytes: int | None
    is_clean: bool
    owner_id: str
    lock_owner_id: int | None
    has_failed_flush: bool
    has_index_counts: bool
    """Whether the index files tell how many slots they have."""
    has_extensions: bool
    """Whether there is a ``consumequeue_ext``: units then name entries there instead of tags."""

    @property
    def is_in_use(self) -> bool:
        return self.lock_owner_id is not None

    def below(self, path: str) -> str:
        """A path relative to the store's root, as findings show it."""
        return path.removeprefix(f"{self.root}/")


def survey(root: str, disk: Disk, options: StoreOptions | None = None) -> Survey:
    """UsageError if the directory is no store; StorageError if its files cannot be read."""
    try:
        return _survey(root, disk, options or StoreOptions())
    except OSError as error:
        raise storage_error(error, "cannot read", error.filename or root) from error


def _survey(root: str, disk: Disk, options: StoreOptions) -> Survey:
    paths = StoreDirectory(root, disk)
    if not disk.is_directory(root):
        raise UsageError(f"{root}: no such directory", hint="name the directory that holds commitlog/")
    if not disk.is_directory(paths.commit_log):
        raise UsageError(f"{root} holds no commitlog/", hint=_no_log_hint(root, disk))
    found = paths.adopt_sizes(options)
    topics = disk.listdir(paths.consume_queues) if disk.is_directory(paths.consume_queues) else []
    timer_paths = TimerPaths.below(root)
    timer_options = TimerOptions()
    timer_size = file_size_in(disk, timer_paths.log)
    checkpoint_size = disk.file_size(paths.checkpoint) if disk.is_file(paths.checkpoint) else None
    is_rocksdb = disk.is_file(f"{paths.consume_queues}/CURRENT") or disk.is_file(f"{root}/consumequeue_r/CURRENT")
    return Survey(
        root=root,
        disk=disk,
        paths=paths,
        options=replace(found, light_queues_enabled=any(name.startswith(LIGHT_QUEUE_PREFIX) for name in topics)),
        timer_paths=timer_paths,
        timer_options=replace(timer_options, log_file_size_bytes=timer_size or timer_options.log_file_size_bytes),
        queues=Queues.ROCKSDB if is_rocksdb else Queues.FILES,
        writer=_writer(root, disk, paths),
        checkpoint=Checkpoint.read(disk, paths.checkpoint),
        checkpoint_size_bytes=checkpoint_size,
        is_clean=not paths.is_marked_running(),
        owner_id=paths.owner_id(),
        lock_owner_id=disk.lock_owner(f"{root}/lock"),
        has_failed_flush=disk.is_file(paths.failed_flush),
        has_index_counts=found.index_enabled,
        has_extensions=bool(disk.listdir(f"{root}/consumequeue_ext")),
    )


def _no_log_hint(root: str, disk: Disk) -> str:
    if any(name.startswith(_DLEDGER_PREFIX) for name in disk.listdir(root)):
        return "this is a DLedger log, which is not read here"
    if disk.is_directory(f"{root}/../commitlog"):
        return f"name the directory above: {root.rpartition('/')[0] or '..'}"
    return "name the directory that holds commitlog/ (storePathRootDir)"


def _writer(root: str, disk: Disk, paths: StoreDirectory) -> Writer:
    checkpoint = Checkpoint.read(disk, paths.checkpoint)
    if paths.is_marked_by_ours() or checkpoint.is_ours or checkpoint.is_without_queues:
        return Writer.OURS
    if checkpoint.is_blank and not disk.listdir(paths.commit_log):
        return Writer.NOBODY
    # Releases from 5.4 on always make this directory, even if they do not use it, and write the offset.
    is_new = checkpoint.queues_log_offset or disk.is_directory(f"{root}/rocksdbstore")
    return Writer.APACHE if is_new else Writer.OLD_APACHE


def holds_rocksdb(disk: Disk, directory: str) -> bool:
    """Whether it is a RocksDB database with data in it: Apache's broker also makes empty ones."""
    names = disk.listdir(directory) if disk.is_directory(directory) else []
    return any(
        name.endswith(".sst") or (name.endswith(".log") and disk.file_size(f"{directory}/{name}")) for name in names
    )
