"""Followers of the log: everything that is derived from its records and can be derived again. Consume queues and the
index are followers; a timer wheel or a replica joins by one more entry in the store's list. Recovery, checkpoint and
retention ask the list, and know no member by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rmqserver.store.disk.checkpoint import Checkpoint
    from rmqserver.store.log.scan import FoundRecord
    from rmqserver.store.queues.round import Round, Sync


class Follower(Protocol):
    """The loop's thread calls everything here except what ``prepare`` returns. A follower handles its own disk errors:
    it sets a running flag and is no longer behind."""

    # At a start, in this order.

    @property
    def newest_record_offset(self) -> int | None:
        """Start of the newest record that it has taken in and still knows; -1 if there is none. Recovery starts reading
        there or earlier. None: after ``recovered`` the follower itself reads from the log what it lacks."""

    def knows_behind(self, log_offset: int) -> bool:
        """Whether it knows a record that ends behind that offset."""

    def replay(self, records: list[FoundRecord]) -> None:
        """Takes the next records that recovery has read, in log order. It may know them already. OSError."""

    def lacks_from(self) -> int | None:
        """Asked once, when everything is replayed. If an offset before the first replayed record: it lacks records from
        there on, and is replayed all records from there to the end of the log. What it still lacks then is not in the
        log. None: it lacks nothing."""

    def cut(self, end_offset: int) -> None:
        """Forgets all records behind ``end_offset``, where the log now ends. OSError."""

    def recovered(self, start_offset: int, end_offset: int, synced_offset: int, *, was_clean: bool) -> None:
        """Recovery has replayed the records from ``start_offset`` to ``end_offset``. The follower's writes for records
        up to ``synced_offset`` are on the device; its next ``prepare`` has to sync the rest. OSError."""

    # While the store is open.

    @property
    def show(self) -> Callable[[Round], None] | None:
        """Takes in a round: readers may see its records from now on. No follower may be slow here. None: the follower
        learns of appended records elsewhere. From a copied log it gets (by ``replay``) all records with its ``mark`` in
        their properties, and maybe others."""

    @property
    def mark(self) -> bytes | None:
        """The property that it needs to read in copied records, besides keys and tags; None if it needs none."""

    @property
    def is_behind(self) -> bool:
        """Whether it has deferred work that it can do now."""

    def work(self) -> None:
        """Does a portion of that work: a fraction of a millisecond."""

    @property
    def is_catching_up(self) -> bool:
        """Whether that work is long: it reads the log, for seconds maybe. No checkpoint is made meanwhile."""

    @property
    def wants_sync(self) -> bool:
        """Whether it asks for a sync before the next checkpoint is due."""

    def prepare(self) -> Sync:
        """The sync of everything shown. Called when it is not behind. Syncs run in the order in which they were
        prepared."""

    def delete_below(self, log_offset: int) -> Iterator[None]:
        """Removes the files that hold only what lies before ``log_offset``, where the log now starts. In portions: a
        turn may end at each of its steps. OSError."""


class Followers:
    """All followers, in the order in which they are shown a round."""

    def __init__(self, followers: Iterable[Follower]):
        self.all = tuple(followers)

    @property
    def newest_record_offset(self) -> int:
        """Start of the newest record that is known to all followers, except those that read the log themselves; -1 if
        there is none."""
        known = [each.newest_record_offset for each in self.all]
        return min((offset for offset in known if offset is not None), default=-1)

    @property
    def lack_files(self) -> bool:
        """Whether some of what recovery has replayed is not in files yet."""
        return any(each.is_behind for each in self.all if each.newest_record_offset is not None)

    def know_behind(self, log_offset: int) -> bool:
        return any(each.knows_behind(log_offset) for each in self.all)

    @property
    def is_behind(self) -> bool:
        return any(each.is_behind for each in self.all)

    def work(self) -> bool:
        """Does a portion of each follower's deferred work; True if some is left."""
        for each in self.all:
            if each.is_behind:
                each.work()
        return self.is_behind

    @property
    def are_catching_up(self) -> bool:
        return any(each.is_catching_up for each in self.all)

    def work_everything(self) -> None:
        while self.work():
            pass

    @property
    def want_sync(self) -> bool:
        return any(each.wants_sync for each in self.all)

    def prepare(
        self, checkpoint: Checkpoint, write: Callable[[], None], last_record_offset: int, store_timestamp_ms: int
    ) -> Callable[[], None]:
        """Finds what changed, and returns the work for the flush thread: it brings everything that is derived from the
        log to the device, and then says so in the checkpoint, which ``write`` writes. So the next start after a crash
        need not replay the whole log. The last two arguments are the newest confirmed record and its store time. The
        caller has done all deferred work. It has the log flushed before the work runs, and runs works in order."""
        syncs = [each.prepare() for each in self.all]

        def work() -> None:
            for sync in syncs:
                sync(checkpoint, write)
            if last_record_offset:  # a message at offset 0 looks like none, and the checkpoint like another broker's
                checkpoint.queues_log_offset = checkpoint.own_log_offset = last_record_offset
                if store_timestamp_ms:
                    checkpoint.queues_timestamp_ms = checkpoint.log_timestamp_ms = store_timestamp_ms
            write()

        return work
