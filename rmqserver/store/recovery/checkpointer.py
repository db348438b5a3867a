"""Brings everything derived from the log to the device, and then says so in the checkpoint. The next start after a
crash then need not replay the whole log."""

from __future__ import annotations

from collections.abc import Callable

from rmqserver.store.disk.checkpoint import Checkpoint
from rmqserver.store.disk.disk import Disk
from rmqserver.store.followers import Followers


class Checkpointer:
    """The loop calls ``prepare``, which finds what changed; the flush thread runs the work that it returns."""

    def __init__(self, path: str, checkpoint: Checkpoint, followers: Followers, disk: Disk):
        self._path = path
        self._checkpoint = checkpoint
        self._followers = followers
        self._disk = disk

    @property
    def vouched_offset(self) -> int:
        """See ``Checkpoint``."""
        return self._checkpoint.vouched_offset

    def prepare(self, last_record_offset: int, store_timestamp_ms: int) -> Callable[[], None]:
        """The work for everything confirmed now; the arguments are the newest confirmed record and its store time. The
        caller has done all deferred work. It has the log flushed before the work runs, and runs works in order."""
        syncs = [follower.prepare() for follower in self._followers.all]

        def work() -> None:
            checkpoint = self._checkpoint
            for sync in syncs:
                sync(checkpoint, self._write)
            if last_record_offset:  # a message at offset 0 looks like none, and the checkpoint like another broker's
                checkpoint.queues_log_offset = checkpoint.own_log_offset = last_record_offset
                if store_timestamp_ms:
                    checkpoint.queues_timestamp_ms = checkpoint.log_timestamp_ms = store_timestamp_ms
            self._write()

        return work

    def _write(self) -> None:
        self._checkpoint.write(self._disk, self._path)
