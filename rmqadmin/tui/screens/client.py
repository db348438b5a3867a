"""One online client of a group: what it reports about itself, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from rmqadmin.core.results import Shape
from rmqadmin.core.tables.marks import Mark
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.key_map import bound
from rmqadmin.tui.refresh import Feed
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
    file_name = "client"
    BINDINGS: ClassVar[list[BindingType]] = [bound("stacks")]

    def columns(self) -> list[Column]:
        return [
            Column(name="kind", words="of", mark=_problem_mark),
            Column(name="name", is_name=True, mark=_problem_mark),
            Column(name="text", words="value", mark=_problem_mark, shape=Shape.PROSE, importance=VITAL, width_max=1000),
        ]

    def __init__(self, facts: GroupFacts, client_id: str):
        super().__init__()
        self.step = self._client_id = client_id
        self._facts = facts

    def selected(self) -> dict[str, str]:
        return {"GROUP": self._facts.group, "CLIENT": self._client_id}

    def make_feeds(self) -> Sequence[Feed]:
        return [self.feed(self._refresh, answer_wait_max_s=MEMBER_WAIT_MAX_S)]

    def action_stacks(self) -> None:
        from rmqadmin.tui.screens.stack import StackScreen

        self.app.push_screen(StackScreen(self._facts, self._client_id))

    def read_rows(self, client: DashboardClient) -> Found[ClientFact]:
        return clients.read_client(client, self.dashboard.memory, self._facts, self._client_id, self.dashboard.now_ms())
