"""The state of this broker's set that the broker shares with its task for the controllers: its lease, which brokers
are in sync, and what the controllers have decided. It outlives the ``Broker``, which is opened anew in each role.
Nothing here uses a socket."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import trio

from rmqserver.store.epochs import EpochFile
from rmqserver.store.recovery.recovery import Recovered
from rmqserver.system import boot_ms

LEASE_PERCENT = 90
"""Share of the heartbeat time-out. The speeds of real clocks differ by less than one in a thousand."""

LEASE_MAX_MS = 10_000
"""A restarted controller knows no broker's time-out, and waits this long before it elects."""

NEVER = -(1 << 62)


def lease_ms(heartbeat_timeout_ms: int) -> int:
    return min(heartbeat_timeout_ms, LEASE_MAX_MS) * LEASE_PERCENT // 100


class MasterLease:
    """How long a master may acknowledge messages that not all other in-sync brokers have. Times are in ms of one
    monotonic clock.

    A controller elects another master when it has had no heartbeat from this one for its heartbeat time-out, counted
    from the arrival of the last. The lease counts from when that heartbeat was sent, and is shorter, to allow for
    clocks of different speed. So it ends before any other broker can be the master, and tells a master that was frozen
    or cut off that it may no longer be one. Apache's masters have no lease.

    Apache's controllers do not name the master when they answer a heartbeat. Such an answer prolongs a lease that still
    runs, since nobody else was elected before it ended. A lease that has ended begins again when a controller, asked
    after that answer, says that this broker is the master."""

    def __init__(self) -> None:
        self._ends_ms = NEVER
        self.is_doubted = False
        """Only a controller that names the master can prolong the lease now."""
        self._doubted_basis_ms = self._void_basis_ms = NEVER
        self._given_back_ms = NEVER
        self.basis_ms = NEVER
        """When the lease will end if the answer to a question asked now confirms it."""

    def is_held(self, now_ms: int) -> bool:
        return now_ms < self._ends_ms

    def left_ms(self, now_ms: int) -> int:
        """How long the lease still lasts unless it is prolonged; 0 if it has ended."""
        return max(self._ends_ms - now_ms, 0)

    def answered(self, sent_ms: int, length_ms: int, now_ms: int, *, says_master: bool | None) -> None:
        """The controllers have answered a heartbeat that was sent at ``sent_ms``. ``says_master`` is what they say
        about whether this broker is the master; None if they do not say."""
        if says_master is False:
            self.end()
            return
        if sent_ms <= self._given_back_ms:
            return
        self.basis_ms = max(self.basis_ms, sent_ms + length_ms)
        if says_master:
            self.confirmed(sent_ms + length_ms)
        elif self.is_held(now_ms) and not self.is_doubted:
            self._ends_ms = self.basis_ms

    def confirmed(self, basis_ms: int) -> None:
        """A controller says that this broker is the master. ``basis_ms`` is the value from before it was asked; one
        from before the lease's last end is void."""
        if basis_ms <= self._void_basis_ms:
            return
        self._ends_ms = max(self._ends_ms, basis_ms)
        if basis_ms > self._doubted_basis_ms:  # else the controller was asked before the doubt
            self.is_doubted = False

    def doubt(self) -> None:
        """A connection to a controller has ended. If that controller still runs, it takes this broker for dead without
        waiting for the time-out. If it does not run, the lease goes on."""
        self.is_doubted, self._doubted_basis_ms = True, self.basis_ms

    def give_back(self, now_ms: int) -> None:
        """Another broker may be elected from now on. Nothing that was said, or asked, before this begins the lease
        again."""
        self._given_back_ms = now_ms
        self.end()

    def end(self) -> None:
        """This broker is not the master, or may not be."""
        self._void_basis_ms = max(self._void_basis_ms, self.basis_ms)
        self._ends_ms = self.basis_ms = NEVER


class SyncSet:
    """Which brokers of a set are in sync, as their master knows it and as it proposes to the controller.

    A broker that the controller may elect must have every message that was acknowledged to a producer. So the master
    waits for a joining broker from the moment it is proposed, and for a leaving one until the controller has agreed. An
    Apache master stops waiting once a connection has ended: one that was frozen, and wakes when another is already the
    master, acknowledges messages alone, and they are cut off afterwards.

    ``members`` and ``set_epoch`` are the controller's; ``members`` are broker ids, including the master's. Times are
    in ms of any monotonic clock."""

    def __init__(self, own_id: int, members: frozenset[int], set_epoch: int, now_ms: int):
        self.own_id = own_id
        self.members = members
        self.set_epoch = set_epoch
        self.proposed: frozenset[int] | None = None
        """The set that is on its way to the controller."""
        self._level_ms = dict.fromkeys(members - {own_id}, now_ms)
        """For each slave, a time: it is known to have the whole log as of then."""
        self._marks: dict[int, tuple[int, int]] = {}
        """For each slave that is behind: an end of the log, and the time when that was the end."""

    @property
    def required(self) -> frozenset[int]:
        """The other brokers that must have a message before it counts as stored: the members, and those that may have
        become members."""
        return (self.members | (self.proposed or frozenset())) - {self.own_id}

    @property
    def size(self) -> int:
        return len(self.required) + 1

    def reported(self, broker_id: int, log_offset: int, log_end: int, now_ms: int) -> None:
        """A slave has the log up to ``log_offset``; the master's goes to ``log_end``."""
        if log_offset >= log_end:
            self._level_ms[broker_id] = now_ms
            self._marks.pop(broker_id, None)
            return
        mark_end, mark_ms = self._marks.setdefault(broker_id, (log_end, now_ms))
        if log_offset >= mark_end:
            self._level_ms[broker_id] = mark_ms
            self._marks[broker_id] = log_end, now_ms

    def gone(self, broker_id: int) -> None:
        """A slave's connection has ended."""
        self._level_ms[broker_id] = NEVER
        self._marks.pop(broker_id, None)

    def wanted(
        self, acked: Mapping[int, int], log_end: int, confirmed: int, epoch_start: int, now_ms: int, lag_max_ms: int
    ) -> frozenset[int] | None:
        """The set to propose now; None if it is the present one, or while a proposal is pending. ``acked`` maps each
        connected slave that may be in the set to its log offset. A slave joins once it has everything confirmed and
        everything from before this master's epoch."""
        if self.proposed is not None:
            return None
        wanted = {self.own_id}
        for broker_id, log_offset in acked.items():
            if broker_id not in self.members and log_offset >= max(confirmed, epoch_start):
                wanted.add(broker_id)
        for broker_id in self.members - {self.own_id}:
            is_level = acked.get(broker_id, -1) >= log_end
            if is_level or now_ms - self._level_ms.get(broker_id, NEVER) <= lag_max_ms:
                wanted.add(broker_id)
        return None if wanted == self.members else frozenset(wanted)

    def propose(self, members: frozenset[int]) -> None:
        self.proposed = members

    def take(self, members: frozenset[int], set_epoch: int) -> bool:
        """Takes the controller's set, from any answer, and with it settles the proposal. Returns False and changes
        nothing if it is older than the present set."""
        if set_epoch < self.set_epoch:
            return False
        self.members, self.set_epoch, self.proposed = members | {self.own_id}, set_epoch, None
        return True


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
