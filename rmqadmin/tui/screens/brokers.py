"""Clusters and brokers, and everything that one broker says about itself.

The first screen. The modules that ask the servers are loaded by the thread that asks, after the first frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import msgspec
from textual.binding import Binding, BindingType

from rmqadmin.core.tables.marks import DISK_BAD_RATIO, DISK_WARN_RATIO
from rmqadmin.core.units import UNKNOWN, count, moment, percent, rate
from rmqadmin.tui.screens.base import TableScreen
from rmqadmin.tui.widgets.row_table import RowTable
from rmqadmin.tui.widgets.rows import Column

if TYPE_CHECKING:
    from rmqadmin.core.servers.broker_state import Replica
    from rmqadmin.tui.dashboard_client import DashboardClient
    from rmqadmin.tui.memory.cluster import SeenBroker
    from rmqadmin.tui.sources.brokers import BrokerState, Setting
    from rmqadmin.tui.sources.found import Found


def _disk_mark(state: BrokerState) -> str | None:
    ratio = state.row.disk_ratio
    if ratio is None or ratio < DISK_WARN_RATIO:
        return None
    return "bad" if ratio >= DISK_BAD_RATIO else "warn"


class BrokerHealth(msgspec.Struct, frozen=True):
    """Whether a broker serves. ``state`` is None for one that is gone."""

    broker: SeenBroker
    state: BrokerState | None
    now_ms: int

    def text(self) -> str:
        if self.state is None:
            from rmqadmin.tui.memory.cluster import gone_text

            return gone_text(self.broker.gone_since_ms or 0, self.now_ms)
        return self.state.error or ("active" if self.state.row.active else "not active")

    def mark(self) -> str:
        return "good" if self.state is not None and self.state.row.active else "bad"


_NUMBERS = TableScreen.NUMBERS
_HEALTH = "health"
"""Whether a broker serves is always asked for; its numbers are kept when it does not."""


class BrokersScreen(TableScreen):
    NOUN = ("broker", "brokers")
    step = "Cluster"
    file_name = "cluster"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("i", "info", "Status and configuration", id="brokers.info"),
        Binding("a", "access", "Users and ACL", id="brokers.access"),
        Binding("x", "forget", "Forget", show=False, id="brokers.forget"),
        Binding("ctrl+w", "write_perm", "Write permission", id="brokers.write_perm"),
    ]
    changing_actions = frozenset({"write_perm"})

    def columns(self) -> list[Column]:
        return [
            Column("cluster", lambda seen: seen.replica.cluster),
            Column("broker", lambda seen: seen.replica.broker_name),
            Column("id", lambda seen: seen.replica.broker_id, is_number=True),
            Column("address", lambda seen: seen.replica.broker_addr),
            Column("version", lambda state: state.row.version or UNKNOWN, _NUMBERS),
            Column("in/s", lambda state: state.row.in_tps, _NUMBERS, form=rate, is_number=True),
            Column("out/s", lambda state: state.row.out_tps, _NUMBERS, form=rate, is_number=True),
            Column("in today", lambda state: state.in_today, _NUMBERS, form=count, is_number=True),
            Column("out today", lambda state: state.out_today, _NUMBERS, form=count, is_number=True),
            Column("disk", lambda state: state.row.disk_ratio, _NUMBERS, form=percent, is_number=True, mark=_disk_mark),
            Column("oldest message", lambda state: state.row.earliest_message_ms, _NUMBERS, form=moment),
            Column("state", BrokerHealth.text, _HEALTH, mark=BrokerHealth.mark),
        ]

    def read_rows(self, client: DashboardClient) -> Found[SeenBroker]:
        from rmqadmin.tui.sources import brokers

        return brokers.read_brokers(client, self.dashboard.memory)

    def read_numbers(self, client: DashboardClient, rows: Mapping[str, SeenBroker]) -> Mapping[str, BrokerState]:
        from rmqadmin.tui.sources import brokers

        return brokers.read_states(client, rows)

    def numbers_known(self, numbers: Mapping[str, BrokerState]) -> None:
        now_ms = self.dashboard.now_ms()
        found = {}
        for key in self.table.row_keys():
            seen: SeenBroker = self.table.part(key)
            if key in numbers or seen.gone_since_ms is not None:
                found[key] = BrokerHealth(seen, numbers.get(key), now_ms)
        self.table.put(_HEALTH, found)

    def rows_text(self) -> str:
        broker_keys = self.table.row_keys()
        gone_count = sum(self.table.part(key).gone_since_ms is not None for key in broker_keys)
        return super().rows_text() + (f", {gone_count} gone" if gone_count else "")

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        """Down to the topics of the broker."""
        from rmqadmin.tui.screens.topics import TopicsScreen

        seen: SeenBroker = self.table.part(event.key)
        self.app.push_screen(TopicsScreen(seen.replica.broker_name))

    @property
    def _chosen(self) -> SeenBroker | None:
        key = self.table.cursor_key
        return None if key is None else self.table.part(key)

    def action_info(self) -> None:
        if self._chosen is not None:
            self.app.push_screen(BrokerScreen(self._chosen.replica))

    def action_access(self) -> None:
        from rmqadmin.tui.screens.access import AccessScreen

        if self._chosen is not None:
            self.app.push_screen(AccessScreen(self._chosen.replica))

    def action_write_perm(self) -> None:
        from rmqadmin.tui.dialogs.write_perm import WritePermScreen

        if self._chosen is not None:
            self.app.push_screen(WritePermScreen(self._chosen.replica.broker_name))

    def action_forget(self) -> None:
        """Takes a broker off the list that is gone for good."""
        key, chosen = self.table.cursor_key, self._chosen
        if key is None or chosen is None or chosen.gone_since_ms is None:
            self.dashboard.say("only a broker that is gone can be forgotten", is_error=True)
            return
        self.dashboard.memory.forget(key)
        self.action_refresh_now()


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
