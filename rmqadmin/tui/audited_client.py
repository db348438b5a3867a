"""The client that makes a change in the dashboard. Its requests to each server go into the log of changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from rmqadmin.core.audit_trail import AuditedChange, AuditTrail
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqclient.admin.caller import READING_CODES, AskedHow
from rmqclient.remoting.requests import request_label
from rmqproto.errors import RocketMQError
from rmqproto.wire.command import Command

if TYPE_CHECKING:
    from rmqclient.remoting.requests import Fields


class AuditedClient(DashboardClient):
    """``trail`` belongs to this client alone. The first change (``before_change``) begins it, and closing the client
    ends it."""

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
