"""Brings what is derived from the log - consume queues, index - to the device, and then says so in the checkpoint: the
next start after a crash need not replay the log from its beginning."""

from __future__ import annotations

import os
from collections.abc import Callable

from rmqserver.store.checkpoint import Checkpoint
from rmqserver.store.consume_queues import ConsumeQueues
from rmqserver.store.disk import Disk
from rmqserver.store.index import Index
from rmqserver.store.index_file import Snapshot


class Checkpointer:
    """The loop calls ``prepare``, which looks at what changed; the flush thread runs what it returns."""

    def __init__(self, path: str, checkpoint: Checkpoint, queues: ConsumeQueues, index: Index | None, disk: Disk):
        self._path = path
        self._checkpoint = checkpoint
        self._queues = queues
        self._index = index
        self._disk = disk

    def prepare(self, last_record_offset: int, store_timestamp_ms: int) -> Callable[[], None]:
        """The work for everything visible now, of which that is the newest record and its store time. The caller has
        written all units behind, and sees to it that the log is flushed before the work runs and that works run in
        order."""
        paths = self._queues.take_changed_paths()
        snapshots = self._index.snapshots() if self._index is not None else []

        def work() -> None:
            self._sync_queues(paths)
            self._write_index(snapshots)
            checkpoint = self._checkpoint
            if last_record_offset:  # a first message at 0 cannot be told from none, nor then our checkpoint from others
                checkpoint.queues_log_offset = checkpoint.own_log_offset = last_record_offset
                if store_timestamp_ms:
                    checkpoint.queues_timestamp_ms = checkpoint.log_timestamp_ms = store_timestamp_ms
            checkpoint.write(self._disk, self._path)

        return work

    def _sync_queues(self, paths: list[str]) -> None:
        directories: dict[str, None] = {}
        for path in paths:
            try:
                self._disk.open(path).fdatasync()
            except FileNotFoundError:
                continue  # its topic was deleted meanwhile
            queue_directory = os.path.dirname(path)
            topic_directory = os.path.dirname(queue_directory)
            directories.update(dict.fromkeys((queue_directory, topic_directory, self._queues.directory)))
        for directory in directories:
            if self._disk.is_directory(directory):
                self._disk.sync_directory(directory)

    def _write_index(self, snapshots: list[Snapshot]) -> None:
        checkpoint = self._checkpoint
        for snapshot in snapshots:
            if snapshot.end_timestamp_ms <= checkpoint.index_timestamp_ms:
                # A file must be younger than the checkpoint says while it is being written, or a crash in between
                # would leave half of it trusted.
                checkpoint.index_timestamp_ms = snapshot.end_timestamp_ms - 1
                checkpoint.write(self._disk, self._path)
            snapshot.write()
        if snapshots:
            assert self._index is not None
            self._disk.sync_directory(self._index.directory)
            checkpoint.index_timestamp_ms = snapshots[-1].end_timestamp_ms
