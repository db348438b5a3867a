"""How long a master may acknowledge messages that not all other in-sync brokers have. Nothing here uses a clock or a
socket.

A controller elects another master when it has had no heartbeat from this one for its heartbeat time-out, counted from
the arrival of the last. The lease counts from when that heartbeat was sent, and is shorter, to allow for clocks of
different speed. So it ends before any other broker can be the master, and tells a master that was frozen or cut off
that it may no longer be one. Apache's masters have no lease, and acknowledge until they are told of another master.
"""

from __future__ import annotations

LEASE_PERCENT = 90
"""Share of the heartbeat time-out. The speeds of real clocks differ by less than one in a thousand."""

LEASE_MAX_MS = 10_000
"""A restarted controller knows no broker's time-out, and waits this long before it elects."""

NEVER = -(1 << 62)


def lease_ms(heartbeat_timeout_ms: int) -> int:
    return min(heartbeat_timeout_ms, LEASE_MAX_MS) * LEASE_PERCENT // 100


class MasterLease:
    """Times are in ms of one monotonic clock.

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
