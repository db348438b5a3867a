"""The admin client as the dashboard uses it: under a deadline for a whole refresh, and stopped for good when the screen
that asked is closed. Both act on ``wait_s``, which every request asks first, so a source that passes over the failure
of one broker cannot go on asking the next. A server that did not answer in time is not asked again in the same
refresh: otherwise each of a hundred rows would wait for it anew.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from rmqclient.admin import AdminClient
from rmqproto.codes import SUCCESS_ALONE, RequestCode
from rmqproto.command import Command
from rmqproto.errors import ConnectError, RequestTimeoutError

if TYPE_CHECKING:
    from rmqclient.remoting.requests import Fields

_ASKS_A_CLIENT = frozenset({RequestCode.GET_CONSUMER_RUNNING_INFO, RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS})
"""If one of these has no answer in time, a client is silent, and not its broker."""


class DashboardClient(AdminClient):
    """One for each feed of a screen: requests to one address wait for each other, and screens must not."""

    deadline_s = float("inf")
    """``time.monotonic()`` from which no request is made and those under way time out."""

    answer_wait_max_s = float("inf")
    """The longest wait for one answer, if the caller wants a shorter one than the call's own."""

    _stopped = False
    _silences: Mapping[str, str] = {}
    """Servers that did not answer in time in this refresh, by address, and the error."""

    def begin(self, wait_s: float) -> None:
        """Begins a new refresh, which may take ``wait_s``."""
        self.deadline_s = time.monotonic() + wait_s
        self._silences = {}

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

    def call(
        self,
        address: str,
        code: int,
        header: Fields | None = None,
        body: bytes = b"",
        *,
        timeout_s: float | None = None,
        accept: Collection[int] = SUCCESS_ALONE,
    ) -> Command:
        silence = self._silences.get(address)
        if silence is not None:
            raise RequestTimeoutError(silence)
        try:
            return super().call(address, code, header, body, timeout_s=timeout_s, accept=accept)
        except RequestTimeoutError as error:
            if code not in _ASKS_A_CLIENT:
                self._silences = {**self._silences, address: str(error)}
            raise
