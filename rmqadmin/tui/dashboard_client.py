"""The admin client as the dashboard uses it: under a deadline for a whole refresh, and stopped for good when the screen
that asked is closed. Both act on ``wait_s``, which every request asks first, so a source that passes over the failure
of one broker cannot go on asking the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqadmin.core.deadline_client import DeadlineClient
from rmqproto.errors import ConnectError

if TYPE_CHECKING:
    from rmqadmin.core.audit.audit_log import AuditedChange


class DashboardClient(DeadlineClient):
    """One for each feed of a screen: requests to one address wait for each other, and screens must not."""

    _stopped = False

    def stop(self) -> None:
        """Wakes every thread that waits for an answer, and refuses all later requests. Does not block. ``close`` when
        no thread asks any more."""
        self._stopped = True
        self.cancel()

    def note_change(self, change: AuditedChange) -> None:
        """For the log of changes: what was changed without a request of this client."""

    @property
    def is_stopped(self) -> bool:
        return self._stopped

    def wait_s(self, address: str, timeout_s: float | None) -> float:
        if self._stopped:
            raise ConnectError(f"the screen that asks {address} was closed", address=address)
        return super().wait_s(address, timeout_s)
