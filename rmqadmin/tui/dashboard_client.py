"""The admin client as the dashboard uses it: under a deadline for a whole refresh, and stopped for good when the screen
that asked is closed. Both act on ``wait_s``, which every request asks first, so a source that passes over the failure
of one broker cannot go on asking the next.
"""

from __future__ import annotations

import time

from rmqclient.admin import AdminClient
from rmqproto.errors import ConnectError, RequestTimeoutError


class DashboardClient(AdminClient):
    """One for each feed of a screen: requests to one address wait for each other, and screens must not."""

    deadline_s = float("inf")
    """``time.monotonic()`` from which no request is made and those under way time out."""

    answer_wait_max_s = float("inf")
    """The longest wait for one answer, if the caller wants a shorter one than the call's own."""

    _stopped = False

    def begin(self, wait_s: float) -> None:
        """Begins a new refresh, which may take ``wait_s``."""
        self.deadline_s = time.monotonic() + wait_s

    def stop(self) -> None:
        """Wakes every thread that waits for an answer, and refuses all later requests. Does not block. ``close`` when
        no thread asks any more."""
        self._stopped = True
        self.cancel()

    @property
    def is_stopped(self) -> bool:
        return self._stopped

    def wait_s(self, address: str, timeout_s: float | None) -> float:
        if self._stopped:
            raise ConnectError(f"the screen that asks {address} was closed", address=address)
        left_s = self.deadline_s - time.monotonic()
        if left_s <= 0:
            raise RequestTimeoutError(f"{address} was not asked any more: the refresh took too long")
        return min(super().wait_s(address, timeout_s), left_s, self.answer_wait_max_s)
