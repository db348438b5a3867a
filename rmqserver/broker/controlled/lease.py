"""How long a master may acknowledge what not all others that are in sync have. Nothing here asks a clock or a socket.

A controller elects another master when it has heard nothing of this one for its heartbeat time-out. It counts from the
arrival of a heartbeat. The lease counts from when that was sent, and is shorter, for clocks that do not go alike: so it
has ended before anybody else can be the master. A master that was frozen, or cut off, knows by it that it may be none
any more. Apache's masters know nothing of the kind, and acknowledge until somebody tells them.
"""

from __future__ import annotations

LEASE_PERCENT = 90
"""Of the heartbeat time-out. Real clocks differ by less than one in a thousand."""

LEASE_MAX_MS = 10_000
"""A controller that starts again knows nobody's time-out, and waits that long before it elects."""

NEVER = -(1 << 62)


def lease_ms(heartbeat_timeout_ms: int) -> int:
    return min(heartbeat_timeout_ms, LEASE_MAX_MS) * LEASE_PERCENT // 100


class MasterLease:
    """Times are in ms of one clock that only goes on.

    Apache's controllers answer a heartbeat without a word of who is the master. Such an answer prolongs a lease that
    still runs: until then nobody else was elected. One that has ended begins again when a controller, asked after that
    answer, says that this broker is the master."""

    def __init__(self) -> None:
        self._ends_ms = NEVER
        self.is_doubted = False
        """Only a controller that says who is the master prolongs it now."""
        self._doubted_basis_ms = NEVER
        self.basis_ms = NEVER
        """When a lease would end that is confirmed by the answer to a question which is put now."""

    def is_held(self, now_ms: int) -> bool:
        return now_ms < self._ends_ms

    def left_ms(self, now_ms: int) -> int:
        """How long it still lasts if nobody prolongs it; 0 if it has ended."""
        return max(self._ends_ms - now_ms, 0)

    def answered(self, sent_ms: int, length_ms: int, now_ms: int, *, says_master: bool | None) -> None:
        """The controllers have answered a heartbeat that was sent at ``sent_ms``, and said whether this broker is the
        master; None: nothing of it."""
        if says_master is False:
            self.end()
            return
        self.basis_ms = max(self.basis_ms, sent_ms + length_ms)
        if says_master:
            self.confirmed(sent_ms + length_ms)
        elif self.is_held(now_ms) and not self.is_doubted:
            self._ends_ms = self.basis_ms

    def confirmed(self, basis_ms: int) -> None:
        """A controller says that this broker is the master. ``basis_ms`` was so before it was asked."""
        self._ends_ms = max(self._ends_ms, basis_ms)
        if basis_ms > self._doubted_basis_ms:  # else it was asked before there was a doubt
            self.is_doubted = False

    def doubt(self) -> None:
        """A connection to a controller has ended: that takes this broker for dead if it still lives itself, and does
        not wait for the time-out. If it does not, the lease goes on."""
        self.is_doubted, self._doubted_basis_ms = True, self.basis_ms

    def end(self) -> None:
        """This broker is no master, or may be none."""
        self._ends_ms = self.basis_ms = NEVER
