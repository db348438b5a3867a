"""Taking a broker's write permission away on all name servers, and giving it back: `wipeWritePerm`, `addWritePerm`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static

from rmqadmin.call import Call
from rmqadmin.commands.perm import add_write_perm, wipe_write_perm
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
        return (add_write_perm if self._may_write else wipe_write_perm)(call, self._broker_name)
