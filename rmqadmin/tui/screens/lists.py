"""The lists that only have a place after `:`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rmqadmin.core.audit_trail import AuditRow
from rmqadmin.core.groups.client_status import ProducerRow
from rmqadmin.core.health.finding import SubjectKind
from rmqadmin.core.results import Shape
from rmqadmin.core.tables.marks import Mark
from rmqadmin.tui.memory.alert_book import AlertRow, condition_text
from rmqadmin.tui.refresh import Feed
from rmqadmin.tui.screens.access import AccessScreen
from rmqadmin.tui.screens.broker_sets import BrokerSetsScreen
from rmqadmin.tui.screens.members import ClientsScreen
from rmqadmin.tui.screens.row_state import state_column
from rmqadmin.tui.screens.table_screen import TableScreen
from rmqadmin.tui.screens.things import RowsScreen, delays, halves
from rmqadmin.tui.sources import pulse, things
from rmqadmin.tui.sources.found import Found
from rmqadmin.tui.widgets.tables.columns import MINOR, VITAL, Column

if TYPE_CHECKING:
    from rmqadmin.core.health.facts import NamesrvFacts
    from rmqadmin.tui.dashboard_client import DashboardClient
    from rmqadmin.tui.screens.base import DashboardScreen


class NameServersScreen(TableScreen):
    NOUN = ("name server", "name servers")
    ROWS_OPEN = False
    JUDGED_KIND = SubjectKind.NAME_SERVER
    file_name = "name-servers"

    def columns(self) -> list[Column]:
        def broker_count(one: NamesrvFacts) -> int | None:
            return None if one.cluster is None else len(one.cluster.broker_addr_table)

        return [
            Column(name="addr", words="name server", importance=VITAL),
            Column(name="broker_count", value=broker_count, is_number=True, is_unknown=lambda one: one.cluster is None),
            state_column(),
        ]

    def read_rows(self, client: DashboardClient) -> Found[NamesrvFacts]:
        return Found({one.addr: one for one in pulse.read_name_servers(client, self.dashboard.memory)})


def _alert_mark(row: AlertRow) -> Mark:
    if row.text is None:
        return Mark.DIM
    return Mark.BAD if row.rule.is_critical else Mark.WARN


class AlertsScreen(TableScreen):
    """The user's rules, as the pulse has looked at them: nothing is asked."""

    NOUN = ("alert", "alerts")
    NONE = "no alert is written in alerts.toml"
    ROWS_OPEN = False
    ROWS_AGE = False
    file_name = "alerts"

    def columns(self) -> list[Column]:
        return [
            Column(name="number", words="alert", is_number=True, importance=VITAL),
            Column(name="about", value=lambda row: f"{row.rule.about} {row.rule.pattern}", importance=MINOR),
            Column(name="when", value=lambda row: condition_text(row.rule), shape=Shape.PROSE, importance=VITAL),
            Column(name="name", words="is on for", importance=VITAL, is_name=True),
            Column(name="since_ms", is_time=True),
            Column(name="text", words="now", value=lambda row: row.text or "off", mark=_alert_mark, shape=Shape.PROSE,
                   importance=VITAL),
        ]  # fmt: skip

    async def _refresh(self, feed: Feed) -> None:
        sampler = self.dashboard.sampler
        rows = [] if sampler is None else sampler.pulse.alerts.rows()
        self.table.set_rows((f"{row.number} {row.name}", row) for row in rows)


def _log() -> RowsScreen:
    return RowsScreen(AuditRow, ("change", "changes"), things.read_log, "nothing was changed from this machine")


def _producers() -> RowsScreen:
    return RowsScreen(ProducerRow, ("producer", "producers"), things.read_producers, "no producer is online")


LISTS: dict[str, tuple[str, Callable[[], DashboardScreen]]] = {
    "alerts": ("Alerts", AlertsScreen),
    "clients": ("Clients", ClientsScreen),
    "delays": ("Delays", delays),
    "half": ("Half messages", halves),
    "log": ("Log", _log),
    "nameservers": ("Name servers", NameServersScreen),
    "producers": ("Producers", _producers),
    "replicas": ("Replicas", BrokerSetsScreen),
    "users": ("Users", AccessScreen),
}
"""By the word of the place: the screen's name in the path, and what makes it."""


def list_of(word: str) -> DashboardScreen:
    step, make = LISTS[word]
    screen = make()
    screen.step = step
    return screen
