"""One broker: everything that it says about its state, part by part, and its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType

from rmqadmin.core.results import Shape
from rmqadmin.tui.key_map import bound
from rmqadmin.tui.screens.selected import of_replica
from rmqadmin.tui.screens.table_screen import TableScreen
from rmqadmin.tui.widgets.tables.columns import MINOR, VITAL, Column

if TYPE_CHECKING:
    from rmqadmin.core.servers.broker_state import Replica
    from rmqadmin.tui.dashboard_client import DashboardClient
    from rmqadmin.tui.sources.brokers import Setting
    from rmqadmin.tui.sources.found import Found


class BrokerScreen(TableScreen):
    NOUN = ("value", "values")
    ROWS_OPEN = False
    file_name = "broker"
    BINDINGS: ClassVar[list[BindingType]] = [bound("edit")]
    changing_actions = frozenset({"edit"})

    def columns(self) -> list[Column]:
        return [
            *([Column(name="group", words="of", importance=MINOR)] if self._kind == "status" else []),
            Column(name="name", value=lambda setting: setting.row.name, is_name=True, importance=VITAL),
            Column(
                name="value", described=lambda setting: setting.described, shape=Shape.PROSE, importance=VITAL,
                width_max=1000,
            ),
            Column(
                name="meaning", form=lambda meaning: meaning or "", shape=Shape.PROSE, importance=MINOR, is_sparse=True,
                readable_width=80,  # if narrower, only the cursor's row shows it
            ),
        ]  # fmt: skip

    def __init__(self, replica: Replica, kind: str):
        """``kind``: ``status`` for its state, ``config`` for its settings."""
        self._kind, self._replica = kind, replica
        super().__init__()

    def selected(self) -> dict[str, str]:
        """The broker, and the property under the cursor, if it can be changed."""
        setting, selected = self.table.chosen, of_replica(self._replica)
        if setting is not None and setting.kind == "config":
            selected["PROPERTY"] = setting.row.name
        return selected

    def read_rows(self, client: DashboardClient) -> Found[Setting]:
        from rmqadmin.tui.sources import brokers

        return brokers.read_settings(client, self._replica.broker_addr, self._kind)

    def action_edit(self) -> None:
        from rmqadmin.tui.dialogs.brokers import broker_property

        setting: Setting | None = self.table.chosen
        if setting is None or setting.kind != "config":
            self.dashboard.say("only properties of the configuration can be changed", is_error=True)
            return
        dialog = broker_property(setting.row.name, str(setting.row.value), self._replica.broker_addr)
        self.open_change(dialog)
