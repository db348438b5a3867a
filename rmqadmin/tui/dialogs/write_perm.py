"""Removes a broker's write permission on all nameservers, or restores it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static

from rmqadmin.core.results import Result
from rmqadmin.core.servers.write_perm import change_write_perm, require_broker
from rmqadmin.tui.dialogs.change import ChangeScreen, Occasion
from rmqadmin.tui.literal import literal

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


class WritePermScreen(ChangeScreen):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "choose(False)", "Remove"),
        Binding("a", "choose(True)", "Restore"),
    ]

    def __init__(self, broker_name: str):
        super().__init__(f"Write permission of the broker {broker_name}", broker_name)
        self._broker_name = broker_name
        self._may_write = False

    def form(self) -> Iterable[Widget]:
        yield Static(literal("w removes it: producers use other brokers, consumers stay. a restores it."))

    def on_mount(self) -> None:
        self.preview()

    def action_choose(self, may_write: bool) -> None:
        self._may_write = may_write
        self.preview()

    def change(self, admin: AdminClient, occasion: Occasion) -> Result:
        require_broker(admin, self._broker_name)
        found = change_write_perm(admin, self._broker_name, may_write=self._may_write, dry_run=occasion.dry_run)
        back = found.way_back()
        if back is not None and not self._may_write:
            occasion.notice(f"to undo this: a, or {back}")
        return found
