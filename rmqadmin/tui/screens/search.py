"""Looking messages up: a topic, and a message id, unique key or key of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Input, Static

from rmqadmin.lookup import FoundMessage
from rmqadmin.tui.client import DashboardClient
from rmqadmin.tui.literal import literal
from rmqadmin.tui.refresh import Feed
from rmqadmin.tui.screens.base import TableScreen
from rmqadmin.tui.screens.messages import message_columns
from rmqadmin.tui.sources import messages
from rmqadmin.tui.sources.found import Found
from rmqadmin.tui.widgets.row_table import Column, RowTable

SEARCH_DEADLINE_S = 20.0
"""A look-up in the index may touch many cold files."""


class SearchScreen(TableScreen):
    """Two lines to fill in; Enter in the second asks. What was found stays until something else is asked."""

    NOUN = ("message", "messages")
    ROWS_AGE = False
    step = "Search"
    file_name = "search"
    AUTO_FOCUS = "#topic"

    def __init__(self) -> None:
        super().__init__()
        self._asked_for: tuple[str, str] | None = None

    def columns(self) -> list[Column]:
        return message_columns()

    def body(self) -> Iterable[Widget]:
        with Horizontal(id="question"):
            yield Static(literal("topic "), classes="label")
            yield Input(id="topic", compact=True)
            yield Static(literal(" id or key "), classes="label")
            yield Input(id="wanted", compact=True)
        yield from super().body()

    def make_feeds(self) -> Sequence[Feed]:
        feed = self.feed(self._refresh, deadline_s=SEARCH_DEADLINE_S)
        feed.pause(True)
        return [feed]

    def _pause_feeds(self) -> None:
        """This screen asks when it is told to."""

    def interval_s(self) -> None:
        """It asks when it is told to."""

    def read_rows(self, client: DashboardClient) -> Found[FoundMessage]:
        assert self._asked_for is not None
        return messages.search(client, *self._asked_for)

    def read_numbers(self, client: DashboardClient, rows: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    def on_input_submitted(self, event: Input.Submitted) -> None:
        topic, wanted = (self.query_one(f"#{id}", Input).value.strip() for id in ("topic", "wanted"))
        if event.input.id == "topic" or not topic or not wanted:
            self.query_one("#wanted" if topic else "#topic", Input).focus()
            return
        self._asked_for = topic, wanted
        self.table.set_rows(())
        self.table.focus()
        self.action_refresh_now()

    def action_refresh_now(self) -> None:
        if self._asked_for is not None:
            super().action_refresh_now()

    def action_back(self) -> Any:
        """From the table to the question."""
        self.query_one("#wanted", Input).focus()

    def rows_text(self) -> str:
        if self._asked_for is None:
            return "Enter asks"
        topic, wanted = self._asked_for
        return f"{super().rows_text()} of {topic} with {wanted}"

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        from rmqadmin.tui.screens.message import MessageScreen

        self.app.push_screen(MessageScreen(self.table.part(event.key)))
