"""The layout below a store's root, the kind of store, and the marks that tell which process uses it: ``lock`` and
``abort`` (``StorePathConfigHelper``, ``DefaultMessageStore``, 5.5.0)."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace

from rmqproto.errors import StorageError
from rmqserver.store.disk.disk import Disk, File, make_directory
from rmqserver.store.disk.segments import file_size_in, queue_file_size
from rmqserver.store.index.index_file import found_counts, is_index_name
from rmqserver.store.options import StoreOptions

ROOM_FILES, ROOM_FILE_BYTES = 32, 64 << 10
"""What must have room before a store that lacked room is opened again, which makes a few files."""


class StoreDirectory:
    def __init__(self, root: str, disk: Disk):
        self.root = root
        self.commit_log = f"{root}/commitlog"
        self.consume_queues = f"{root}/consumequeue"
        self.index = f"{root}/index"
        self.checkpoint = f"{root}/checkpoint"
        self.config = f"{root}/config"
        self.failed_flush = f"{root}/failed_flush"
        self.queue_ends = f"{root}/queueEnds"
        self.queue_files = f"{root}/queueFiles"
        self.producer_sequences = f"{root}/producerSequences"
        self._abort = f"{root}/abort"
        self._lock = f"{root}/lock"
        self._disk = disk
        self._running: tuple[File, int] | None = None
        """The ``abort`` file, and the place in it where ``note_dispatched`` writes."""

    def lock(self) -> File:
        """Makes the directory if it is missing, and locks it until the returned file is closed. StorageError if another
        process has it."""
        make_directory(self._disk, self.root)
        try:
            file = self._disk.lock(self._lock)
        except BlockingIOError:
            owner = self.owner_id()
            who = f"process {owner}" if owner.isdecimal() else "another process"
            raise StorageError(
                f"{self.root} is in use by {who}", hint="stop that broker, or give this one another --data directory"
            ) from None
        file.pwrite(b"lock", 0)
        self._disk.mkdir(self.commit_log)
        self._disk.mkdir(self.consume_queues)
        self._disk.mkdir(self.index)
        self._disk.sync_directory(self.root)
        return file

    def has_room_for_files(self) -> bool:
        """Whether a few more files can be made, written and kept open now. Free bytes show neither a quota nor a lack
        of inodes. They have no name while they are open, so that a kill leaves none of them."""
        path, files = f"{self.root}/room.tmp", []
        try:
            for _ in range(ROOM_FILES):
                files.append(self._disk.open(path, create_size_bytes=0))
                self._disk.unlink(path)
                files[-1].pwrite(bytes(ROOM_FILE_BYTES), 0)
        except OSError:
            return False
        return True

    def is_marked_running(self) -> bool:
        """True while a broker runs on the store, and after one that did not stop cleanly."""
        return self._disk.is_file(self._abort)

    # ``abort``, as text: the process id (Apache's has nothing else), then two lines of ours: the file's
    # ``Disk.kept_id``, and 20 digits, a record's log offset. Apache's broker rewrites the file.

    def mark_running(self, dispatched_offset: int) -> None:
        file = self._disk.open(self._abort, create_size_bytes=0)
        head = f"{os.getpid()}\n{self._disk.kept_id(self._abort)}\n".encode()
        file.pwrite(lines := head + b"%020d\n" % dispatched_offset, 0)
        file.truncate(len(lines))  # not before: an empty file says that the store is not one of ours
        file.fdatasync()
        self._disk.sync_directory(self.root)
        self._running = file, len(head)

    def note_dispatched(self, record_offset: int) -> None:
        """Notes that the units of all records up to this one are in their queues' files, though perhaps not synced. If
        the note cannot be written, the older one stays; it is still true."""
        if self._running is not None:
            file, at = self._running
            with contextlib.suppress(OSError):
                file.pwrite(b"%020d" % record_offset, at)

    def dispatched_offset(self) -> int:
        """What a killed process noted last, if everything it wrote is still there; 0 if not, or if that is unknown."""
        _, kept_id, record_offset = self._running_lines()
        is_kept = kept_id != "" and kept_id == self._disk.kept_id(self._abort)
        return int(record_offset) if is_kept and record_offset.isdecimal() else 0

    def owner_id(self) -> str:
        """The process that runs on the store, or was killed there; empty if there is none, or it is not known."""
        return self._running_lines()[0]

    def is_marked_by_ours(self) -> bool:
        """Whether the process that runs on the store, or was killed there, is one of ours."""
        return bool(self._running_lines()[1])

    def _running_lines(self) -> tuple[str, str, str]:
        """The three lines of ``abort``; a missing line is empty."""
        text = self._disk.read_bytes(self._abort).decode("ascii", "replace") if self.is_marked_running() else ""
        first, second, third, *_ = [*text.split("\n"), "", "", ""]
        return first.strip(), second, third

    def mark_stopped(self) -> None:
        self._running = None
        self._disk.unlink(self._abort)
        self._disk.sync_directory(self.root)

    def refuse_other_kinds(self) -> None:
        """StorageError for a store whose queues are not files of this layout."""
        for directory in (self.consume_queues, f"{self.root}/consumequeue_r"):
            if self._disk.is_file(f"{directory}/CURRENT"):
                raise StorageError(
                    f"{directory} is a RocksDB database (storeType=defaultRocksDB), which cannot be read here",
                    hint="consume queues can be rebuilt from commitlog/: copy the store without this directory",
                )
        extension = f"{self.root}/consumequeue_ext"
        if self._disk.listdir(extension):
            raise StorageError(
                f"{extension}: consume queues were written with enableConsumeQueueExt=true, and their units name "
                "entries there in place of tags, which cannot be read here",
                hint="consume queues can be rebuilt from commitlog/: copy the store without consumequeue/ and this",
            )
        for name in self._disk.listdir(self.root):
            if name.startswith("dledger-"):
                raise StorageError(f"{self.root}/{name} is a DLedger log, which cannot be read here")

    def adopt_sizes(self, options: StoreOptions) -> StoreOptions:
        """``options`` with the file sizes found here. Turns the index off if its files do not tell their sizes."""
        disk = self._disk
        counts = found_counts(disk, self.index_paths(), (options.index_slot_count, options.index_unit_count))
        slot_count, unit_count = counts or (options.index_slot_count, options.index_unit_count)
        return replace(
            options,
            commit_log_file_size_bytes=file_size_in(disk, self.commit_log) or options.commit_log_file_size_bytes,
            consume_queue_file_size_bytes=queue_file_size(disk, self.consume_queues)
            or options.consume_queue_file_size_bytes,
            index_enabled=options.index_enabled and counts is not None,
            index_slot_count=slot_count,
            index_unit_count=unit_count,
        )

    def index_paths(self) -> list[str]:
        """The index files, oldest first."""
        names = self._disk.listdir(self.index) if self._disk.is_directory(self.index) else []
        return [f"{self.index}/{name}" for name in names if is_index_name(name)]
