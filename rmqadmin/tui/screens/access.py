"""Who may do what on one broker: its users and their ACL, to read. Brokers send passwords in clear; they are not shown,
but dropped as soon as the answer is read."""

from __future__ import annotations

from rmqadmin.core.servers.broker_state import Replica
from rmqadmin.core.tables.marks import Mark
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.screens.base import TableScreen
from rmqadmin.tui.sources import access
from rmqadmin.tui.sources.access import Grant
from rmqadmin.tui.sources.found import Found
from rmqadmin.tui.widgets.columns import MINOR, VITAL, Column


def _source_ips(grant: Grant) -> str | None:
    if grant.entry is None:
        return None
    return ", ".join(grant.entry.source_ips) if grant.entry.source_ips else "any"


def _decision(grant: Grant) -> str | None:
    return grant.entry.decision if grant.entry else None


def _decision_mark(grant: Grant) -> Mark | None:
    return Mark.WARN if (_decision(grant) or "").lower() == "deny" else None


def _status(grant: Grant) -> str | None:
    return grant.user.user_status if grant.user else None


def _status_mark(grant: Grant) -> Mark | None:
    return Mark.WARN if (_status(grant) or "").lower() == "disable" else None


class AccessScreen(TableScreen):
    NOUN = ("entry", "entries")
    ROWS_OPEN = False
    file_name = "access"

    def columns(self) -> list[Column]:
        return [
            Column(name="subject", importance=VITAL),
            Column(name="type", value=lambda grant: grant.user.user_type if grant.user else None),
            Column(name="status", value=_status, mark=_status_mark),
            Column(name="policy", value=lambda grant: grant.policy_type, importance=MINOR),
            Column(
                name="resource",
                value=lambda grant: grant.entry.resource if grant.entry else "nothing granted",
                importance=VITAL,
            ),
            Column(name="actions", value=lambda grant: ", ".join(grant.entry.actions) if grant.entry else None),
            Column(name="source", words="from", value=_source_ips),
            Column(name="decision", value=_decision, mark=_decision_mark, importance=VITAL),
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
