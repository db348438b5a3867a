"""One online client of a group: what it reports about itself, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from textual.binding import BindingType

from rmqadmin.core.results import Shape
from rmqadmin.core.tables.marks import Mark
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.key_map import bound
from rmqadmin.tui.screens.table_screen import TableScreen
from rmqadmin.tui.sources import clients
from rmqadmin.tui.sources.clients import ClientFact
from rmqadmin.tui.sources.found import Found
from rmqadmin.tui.sources.groups import MEMBER_WAIT_MAX_S, GroupFacts
from rmqadmin.tui.widgets.tables.columns import VITAL, Column


def _problem_mark(fact: ClientFact) -> Mark | None:
    return Mark.BAD if fact.kind == "problem" else None


class ClientScreen(TableScreen):
    NOUN = ("value", "values")
    ROWS_OPEN = False
    ANSWER_WAIT_MAX_S = MEMBER_WAIT_MAX_S
    file_name = "client"
    BINDINGS: ClassVar[list[BindingType]] = [bound("stacks")]

    def columns(self) -> list[Column]:
        return [
            Column(name="kind", words="of", mark=_problem_mark),
            Column(name="name", is_name=True, mark=_problem_mark),
            Column(name="text", words="value", mark=_problem_mark, shape=Shape.PROSE, importance=VITAL, width_max=1000),
        ]

    def __init__(self, facts: GroupFacts, client_id: str, kinds: Collection[str]):
        """``kinds``: those of the facts that are shown."""
        super().__init__()
        self._facts, self._client_id, self._kinds = facts, client_id, kinds

    def selected(self) -> dict[str, str]:
        return {"GROUP": self._facts.group, "CLIENT": self._client_id}

    def action_stacks(self) -> None:
        self.app.call_later(self.run_action, "open_tab(4)")

    def read_rows(self, client: DashboardClient) -> Found[ClientFact]:
        memory, now_ms = self.dashboard.memory, self.dashboard.now_ms()
        found = clients.read_client(client, memory, self._facts, self._client_id, now_ms)
        return Found({key: fact for key, fact in found.rows.items() if fact.kind in self._kinds})
