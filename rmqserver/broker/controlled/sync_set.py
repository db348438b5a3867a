"""Which brokers of a set are in sync, as their master knows it and as it proposes to the controller
(``SyncStateSet``, ``AutoSwitchHAService``, 5.5.0). Nothing here asks a clock or a socket.

A broker that the controller may elect must have whatever a producer was told is stored. So one that joins is waited for
from the moment in which it is proposed, and one that leaves until the controller has agreed. An Apache master waits no
longer once a connection has ended: frozen, and woken when another is master already, it acknowledges alone what is cut
off afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping

NEVER = -(1 << 62)


class SyncSet:
    """``members`` and ``set_epoch`` are the controller's; ids of all, the master's among them. Times are in ms, from
    any clock that only goes on."""

    def __init__(self, own_id: int, members: frozenset[int], set_epoch: int, now_ms: int):
        self.own_id = own_id
        self.members = members
        self.set_epoch = set_epoch
        self.proposed: frozenset[int] | None = None
        """On its way to the controller."""
        self._level_ms = dict.fromkeys(members - {own_id}, now_ms)
        """When each was known to have all that was there at that time."""
        self._marks: dict[int, tuple[int, int]] = {}
        """Of those that are behind: an end of the log, and when it was there."""

    @property
    def required(self) -> frozenset[int]:
        """Who else must have a message before it counts as stored: members, and those who may be by now."""
        return (self.members | (self.proposed or frozenset())) - {self.own_id}

    @property
    def size(self) -> int:
        return len(self.required) + 1

    def reported(self, broker_id: int, log_offset: int, log_end: int, now_ms: int) -> None:
        """A slave has the log up to there; ours goes to ``log_end``."""
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
        """What is to be proposed now; None if nothing, or while something is. ``acked``: how far the log of each is
        that is connected and may be in the set. Who joins has what is confirmed, and what came before this master."""
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
        """The controller's set, from whatever answer; an older one than ours changes nothing. False for an older one.
        What was proposed is settled by it: it counts, or it does not."""
        if set_epoch < self.set_epoch:
            return False
        self.members, self.set_epoch, self.proposed = members | {self.own_id}, set_epoch, None
        return True
