"""The dialog of `updateBrokerConfig`: changes one property of a broker, or of all brokers of its cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rmqadmin.core import targets
from rmqadmin.core.changes import Step, plan_each
from rmqadmin.core.servers.broker_properties import MEANINGS, plan_broker_property
from rmqadmin.tui.dialogs.change import Occasion
from rmqadmin.tui.dialogs.form import FormField, StepsScreen, place

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


class PropertyScreen(StepsScreen):
    """Reads the value back, because brokers report success even for values that they do not understand."""

    command = "updateBrokerConfig"

    def __init__(self, key: str, value: str, broker_addr: str):
        super().__init__(f"Property {key}", key)
        self._key, self._value, self._broker_addr = key, value, broker_addr

    def fields(self) -> Sequence[FormField]:
        return [
            FormField(name="value", label="value", value=self._value),
            FormField(name="on", label="on", value=self._broker_addr, hint="this broker, or a cluster's masters"),
        ]

    def words(self) -> str:
        meaning = MEANINGS.get(self._key, "Apache's manual of the broker says what it means")
        return f"{meaning}. Enter shows what would change."

    def plan(self, admin: AdminClient, occasion: Occasion) -> list[Step]:
        value = self.said("value") or ""
        addrs = targets.masters(admin, *place(self.required("on")))
        return plan_each(addrs, lambda addr: plan_broker_property(admin, addr, self._key, value))
