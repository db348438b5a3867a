"""Which brokers of a set are in sync, as their master knows it and as it proposes to the controller
(``SyncStateSet``, ``AutoSwitchHAService``, 5.5.0). Nothing here uses a clock or a socket.

A broker that the controller may elect must have every message that was acknowledged to a producer. So the master waits
for a joining broker from the moment it is proposed, and for a leaving one until the controller has agreed. An Apache
master stops waiting once a connection has ended: one that was frozen, and wakes when another is already the master,
acknowledges messages alone, and they are cut off afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping

NEVER = -(1 << 62)


class SyncSet:
    """``members`` and ``set_epoch`` are the controller's; ``members`` are broker ids, including the master's. Times are
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
