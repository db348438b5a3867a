"""Clusters and brokers, and everything that one broker says about itself.

The first screen. The modules that ask the servers are loaded by the thread that asks, after the first frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from rmqadmin.core.tables.marks import DISK_BAD_RATIO, DISK_WARN_RATIO
from rmqadmin.core.units import UNKNOWN, count, moment, percent, rate
from rmqadmin.tui.screens.base import TableScreen
from rmqadmin.tui.widgets.row_table import RowTable
from rmqadmin.tui.widgets.rows import Column

if TYPE_CHECKING:
    from rmqadmin.core.servers.broker_state import Replica
    from rmqadmin.tui.dashboard_client import DashboardClient
    from rmqadmin.tui.sources.brokers import BrokerState, Setting
    from rmqadmin.tui.sources.found import Found


def _disk_mark(state: BrokerState) -> str | None:
    ratio = state.row.disk_ratio
    if ratio is None or ratio < DISK_WARN_RATIO:
        return None
    return "bad" if ratio >= DISK_BAD_RATIO else "warn"


def _state(state: BrokerState) -> str:
    if state.row.error is not None:
        return state.row.error
    return "active" if state.row.active else "not active"


def _state_mark(state: BrokerState) -> str:
    return "good" if state.row.active else "bad"


_NUMBERS = TableScreen.NUMBERS


class BrokersScreen(TableScreen):
    NOUN = ("broker", "brokers")
    step = "Cluster"
    file_name = "cluster"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("i", "info", "Status and configuration", id="brokers.info"),
        Binding("a", "access", "Users and ACL", id="brokers.access"),
        Binding("ctrl+w", "write_perm", "Write permission", id="brokers.write_perm"),
    ]
    changing_actions = frozenset({"write_perm"})

    def columns(self) -> list[Column]:
        return [
            Column("cluster", lambda replica: replica.cluster),
            Column("broker", lambda replica: replica.broker_name),
            Column("id", lambda replica: replica.broker_id, is_number=True),
            Column("address", lambda replica: replica.broker_addr),
            Column("version", lambda state: state.row.version or UNKNOWN, _NUMBERS),
            Column("in/s", lambda state: state.row.in_tps, _NUMBERS, form=rate, is_number=True),
            Column("out/s", lambda state: state.row.out_tps, _NUMBERS, form=rate, is_number=True),
            Column("in today", lambda state: state.in_today, _NUMBERS, form=count, is_number=True),
            Column("out today", lambda state: state.out_today, _NUMBERS, form=count, is_number=True),
            Column("disk", lambda state: state.row.disk_ratio, _NUMBERS, form=percent, is_number=True, mark=_disk_mark),
            Column("oldest message", lambda state: state.row.earliest_message_ms, _NUMBERS, form=moment),
            Column("state", _state, _NUMBERS, mark=_state_mark),
        ]

    def read_rows(self, client: DashboardClient) -> Found[Replica]:
        from rmqadmin.tui.sources import brokers

        return brokers.read_brokers(client)

    def read_numbers(self, client: DashboardClient, rows: Mapping[str, Replica]) -> Mapping[str, BrokerState]:
        from rmqadmin.tui.sources import brokers

        return brokers.read_states(client, rows)

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        """Down to the topics of the broker."""
        from rmqadmin.tui.screens.topics import TopicsScreen

        replica: Replica = self.table.part(event.key)
        self.app.push_screen(TopicsScreen(replica.broker_name))

    def action_info(self) -> None:
        if self.table.cursor_key is not None:
            self.app.push_screen(BrokerScreen(self.table.part(self.table.cursor_key)))

    def action_access(self) -> None:
        from rmqadmin.tui.screens.access import AccessScreen

        if self.table.cursor_key is not None:
            self.app.push_screen(AccessScreen(self.table.part(self.table.cursor_key)))

    def action_write_perm(self) -> None:
        from rmqadmin.tui.dialogs.write_perm import WritePermScreen

        if self.table.cursor_key is not None:
            self.app.push_screen(WritePermScreen(self.table.part(self.table.cursor_key).broker_name))


class BrokerScreen(TableScreen):
    NOUN = ("value", "values")
    ROWS_OPEN = False
    file_name = "broker"

    def columns(self) -> list[Column]:
        return [
            Column("of", lambda setting: setting.kind),
            Column("name", lambda setting: setting.row.name),
            Column("value", lambda setting: str(setting.row.value), width_max=240),
        ]

    def __init__(self, replica: Replica):
        super().__init__()
        self.step = f"{replica.broker_name} {replica.broker_id}"
        self._addr = replica.broker_addr

    def read_rows(self, client: DashboardClient) -> Found[Setting]:
        from rmqadmin.tui.sources import brokers

        return brokers.read_settings(client, self._addr)
