"""The admin client as the dashboard uses it: under a deadline for a whole refresh, and stopped for good when the screen
that asked is closed. Both act on ``call``, through which every request goes, so a source that passes over the failure
of one broker cannot go on asking the next.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from rmqclient.admin import AdminClient
from rmqclient.admin.caller import SUCCESS
from rmqclient.requests import Fields
from rmqproto.command import Command
from rmqproto.errors import ConnectError, RequestTimeoutError


class DashboardClient(AdminClient):
    """One for each feed of a screen: requests to one address wait for each other, screens shall not."""

    deadline_s = float("inf")
    """``time.monotonic()`` at which requests are no longer made, and those under way time out."""

    answer_wait_max_s = float("inf")
    """Longest wait for one answer, where the caller knows better than the call what is worth waiting for."""

    _stopped = False

    def begin(self, wait_s: float) -> None:
        """A new refresh, which may take so long."""
        self.deadline_s = time.monotonic() + wait_s

    def stop(self) -> None:
        """Wakes every thread that waits for an answer and refuses all that is asked afterwards. Does not block;
        ``close`` when no thread asks any more."""
        self._stopped = True
        self.cancel()

    @property
    def is_stopped(self) -> bool:
        return self._stopped

    def call(
        self,
        address: str,
        code: int,
        header: Fields | None = None,
        body: bytes = b"",
        *,
        timeout_s: float | None = None,
        accept: Collection[int] = SUCCESS,
    ) -> Command:
        if self._stopped:
            raise ConnectError(f"the screen that asks {address} was closed", address=address)
        left_s = self.deadline_s - time.monotonic()
        if left_s <= 0:
            raise RequestTimeoutError(f"{address} was not asked any more: the refresh took too long")
        wait_s = min(self.timeout_s if timeout_s is None else timeout_s, left_s, self.answer_wait_max_s)
        return super().call(address, code, header, body, timeout_s=wait_s, accept=accept)
