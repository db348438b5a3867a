"""Taking a broker's write permission away on all name servers, so that producers leave it, and giving it back."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static

from rmqadmin.call import Call
from rmqadmin.changes import Changes, FieldChange, Step, carry_out
from rmqadmin.results import Result
from rmqadmin.tui.dialogs.change import ChangeScreen
from rmqadmin.tui.literal import literal


class WritePermScreen(ChangeScreen):
    command = "wipeWritePerm"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "choose(False)", "Take away"),
        Binding("a", "choose(True)", "Give back"),
    ]

    def __init__(self, broker_name: str):
        super().__init__(f"Write permission of the broker {broker_name}", broker_name)
        self._broker_name = broker_name
        self._may_write = False

    def form(self) -> Iterable[Widget]:
        yield Static(literal("w takes it away: producers go to other brokers, consumers stay. a gives it back."))

    def on_mount(self) -> None:
        self.preview()

    def action_choose(self, may_write: bool) -> None:
        self._may_write = may_write
        self.preview()

    def change(self, call: Call) -> Result:
        act = call.admin.add_write_perm if self._may_write else call.admin.wipe_write_perm
        what = FieldChange("write permission in all routes", None, "given back" if self._may_write else "taken away")
        addrs = call.admin.namesrv_addrs
        return Changes(carry_out(call, [Step(a, "change", [what], partial(act, a, self._broker_name)) for a in addrs]))
