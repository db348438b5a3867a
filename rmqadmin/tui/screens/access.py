"""Who may do what on one broker: its users and their ACL, to read. Brokers send passwords in clear; they are not shown,
but dropped as soon as the answer is read."""

from __future__ import annotations

from rmqadmin.core.servers.broker_state import Replica
from rmqadmin.core.units import UNKNOWN
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.screens.base import TableScreen
from rmqadmin.tui.sources import access
from rmqadmin.tui.sources.access import Grant
from rmqadmin.tui.sources.found import Found
from rmqadmin.tui.widgets.rows import Column


def _resource(grant: Grant) -> str:
    return (grant.entry.resource or UNKNOWN) if grant.entry else "nothing granted"


def _source_ips(grant: Grant) -> str:
    if grant.entry is None:
        return UNKNOWN
    return ", ".join(grant.entry.source_ips) if grant.entry.source_ips else "any"


def _decision_mark(grant: Grant) -> str | None:
    return "warn" if grant.entry and (grant.entry.decision or "").lower() == "deny" else None


def _status_mark(grant: Grant) -> str | None:
    return "warn" if grant.user and (grant.user.user_status or "").lower() == "disable" else None


class AccessScreen(TableScreen):
    NOUN = ("entry", "entries")
    ROWS_OPEN = False
    file_name = "access"

    def columns(self) -> list[Column]:
        return [
            Column("subject", lambda grant: grant.subject),
            Column("type", lambda grant: (grant.user.user_type if grant.user else None) or UNKNOWN),
            Column(
                "status", lambda grant: (grant.user.user_status if grant.user else None) or UNKNOWN, mark=_status_mark
            ),
            Column("policy", lambda grant: grant.policy_type or UNKNOWN),
            Column("resource", _resource),
            Column("actions", lambda grant: ", ".join(grant.entry.actions) if grant.entry else UNKNOWN),
            Column("from", _source_ips),
            Column(
                "decision",
                lambda grant: (grant.entry.decision if grant.entry else None) or UNKNOWN,
                mark=_decision_mark,
            ),
        ]

    def __init__(self, replica: Replica):
        super().__init__()
        self.step = f"Access to {replica.broker_name} {replica.broker_id}"
        self._addr = replica.broker_addr
        self._enforced: dict[str, bool] = {}

    def read_rows(self, client: DashboardClient) -> Found[Grant]:
        found = access.read_access(client, self._addr)
        self._enforced = found.enforced
        return found.grants

    def rows_text(self) -> str:
        return ", ".join(
            [super().rows_text(), *(f"{name} {'on' if on else 'off'}" for name, on in self._enforced.items())]
        )
