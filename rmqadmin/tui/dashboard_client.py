"""The admin client of the dashboard. It has a deadline for a whole refresh, and stops for good when its screen is
closed. Every request asks ``wait_s`` first, which enforces both, so a source that ignores one broker's failure cannot
go on to ask the next broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from rmqadmin.core.audit_trail import AuditedChange, AuditTrail
from rmqadmin.core.deadline_client import DeadlineClient
from rmqclient.admin.caller import AskedHow
from rmqclient.remoting.requests import request_label
from rmqproto.errors import ConnectError, RocketMQError
from rmqproto.headers.request_table import READING_CODES
from rmqproto.wire.command import Command

if TYPE_CHECKING:
    from rmqclient.remoting.requests import Fields


class DashboardClient(DeadlineClient):
    """One client for each feed of a screen, which has a deadline of its own and is stopped alone."""

    _stopped = False

    def stop(self) -> None:
        """Wakes every thread that waits for an answer, and refuses all later requests. Does not block. Call ``close``
        once no thread uses the client."""
        self._stopped = True
        self.cancel()

    def note_change(self, change: AuditedChange) -> None:
        """Tells the log of changes what was changed without a request of this client."""

    @property
    def is_stopped(self) -> bool:
        return self._stopped

    def wait_s(self, address: str, timeout_s: float | None) -> float:
        if self._stopped:
            raise ConnectError(f"the screen that asks {address} was closed", address=address)
        return super().wait_s(address, timeout_s)


class AuditedClient(DashboardClient):
    """The client that makes a change: its requests to each server go into the log of changes. ``trail`` belongs to this
    client alone. The first change (``before_change``) begins it, and closing the client ends it."""

    trail: AuditTrail
    _changes: tuple[AuditedChange, ...] = ()

    def call(
        self, address: str, code: int, header: Fields | None = None, body: bytes = b"", **how: Unpack[AskedHow]
    ) -> Command:
        error: str | None = None
        try:
            return super().call(address, code, header, body, **how)
        except RocketMQError as failure:
            error = str(failure)
            raise
        finally:
            if code not in READING_CODES:
                self.note_change(
                    AuditedChange(target=address, action=request_label(code), done=error is None, error=error)
                )

    def note_change(self, change: AuditedChange) -> None:
        self._changes = (*self._changes, change)

    def close(self) -> None:
        self.trail.end_with(self._changes)
        super().close()
