"""The state of this broker's set that the broker shares with its task for the controllers. It outlives the ``Broker``,
which is opened anew in each role."""

from __future__ import annotations

import time
from collections.abc import Callable

import trio

from rmqserver.boot_clock import boot_ms
from rmqserver.broker.controlled.lease import MasterLease
from rmqserver.broker.controlled.sync_set import SyncSet
from rmqserver.store.epochs import EpochFile
from rmqserver.store.recovery.recovery import Recovered


class SetState:
    """``has_news``: the task must ask the controller who the master is, or cut the log at ``cut_offset``.
    ``has_set_news``: the in-sync brokers may have changed. ``beat_is_due``: a heartbeat must follow soon. Each event is
    replaced when it is taken."""

    def __init__(self, epochs: EpochFile, clock_ms: Callable[[], int] = boot_ms):
        self.epochs = epochs
        self.lease = MasterLease()
        self.clock_ms = clock_ms
        """The lease's clock."""
        self.own_id = 0
        self.master_epoch = 0
        self.sync_set: SyncSet | None = None
        """Only a master has one."""
        self.master_addr: str | None = None
        """Only a slave has one."""
        self.is_fenced = True
        """The broker has no role: it stores no messages, and acknowledges none that it has stored."""
        self.cut_offset: int | None = None
        self.has_news = trio.Event()
        self.has_set_news = trio.Event()
        self.beat_is_due = trio.Event()
        self._is_whole = True
        """No process was killed, and no power was cut, since this broker was a master."""

    def opened(self, recovered: Recovered, log_start: int) -> None:
        """The store is open. At a master, new messages belong to its epoch. Raises StorageError."""
        epochs, end = self.epochs.epochs, recovered.end_offset
        self._is_whole &= not recovered.may_lack_messages
        if self.sync_set is None:
            return
        if epochs.last_epoch == self.master_epoch:
            epochs.begin_again(end, is_whole=self._is_whole)
        else:
            epochs.cut_behind(end + 1)
            epochs.begin(self.master_epoch, end if epochs.entries else log_start)
        self.epochs.save()
        self._is_whole = True

    def log_begins(self, log_offset: int) -> None:
        """Retention has deleted the log before ``log_offset``."""
        if self.epochs.epochs.cut_before(log_offset):
            self.epochs.save()

    def slave_reported(self, broker_id: int, log_offset: int, log_end: int) -> None:
        """A slave has the log up to ``log_offset``; this broker's goes to ``log_end``."""
        if self.sync_set is not None:
            self.sync_set.reported(broker_id, log_offset, log_end, monotonic_ms())
            if broker_id not in self.sync_set.members and self.sync_set.proposed is None:
                self.has_set_news.set()

    def slave_gone(self, broker_id: int) -> None:
        if self.sync_set is not None:
            self.sync_set.gone(broker_id)
            self.has_set_news.set()

    @property
    def holds_lease(self) -> bool:
        return self.lease.is_held(self.clock_ms())

    def look_again(self) -> None:
        """Someone says that the set has another master (1008). This broker believes only a controller that it asks. A
        controller also says so to hear whether a broker lives that will be the master."""
        self.has_news.set()
        self.beat_is_due.set()

    def cut(self, log_offset: int) -> None:
        """Has the log of this slave cut off at ``log_offset``."""
        self.cut_offset = log_offset
        self.has_news.set()


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
