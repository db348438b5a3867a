"""Dead letters: how many each group has, and since when. Enter shows them."""

from __future__ import annotations

from collections.abc import Mapping

from rmqadmin.core.messages.dead_letters import DeadLetters
from rmqadmin.core.units import count, duration, moment
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.screens.base import TableScreen
from rmqadmin.tui.sources import messages
from rmqadmin.tui.sources.found import Found
from rmqadmin.tui.widgets.row_table import RowTable
from rmqadmin.tui.widgets.rows import Column
from rmqproto.names import DLQ_PREFIX

_NUMBERS = TableScreen.NUMBERS


class DeadLettersScreen(TableScreen):
    NOUN = ("group with dead letters", "groups with dead letters")
    step = "Dead letters"
    file_name = "dead-letters"

    def columns(self) -> list[Column]:
        return [
            Column("group", lambda topic: topic.removeprefix(DLQ_PREFIX)),
            Column(
                "depth", lambda numbers: numbers.depth_count, _NUMBERS, form=count, is_number=True, mark=_depth_mark
            ),
            Column("oldest age", self._oldest_age, _NUMBERS, form=duration, is_number=True),
            Column("oldest message", lambda numbers: numbers.oldest_ms, _NUMBERS, form=moment),
            Column("newest message", lambda numbers: numbers.error or moment(numbers.newest_ms), _NUMBERS),
        ]

    def _oldest_age(self, numbers: DeadLetters) -> int | None:
        return None if numbers.oldest_ms is None else self.dashboard.now_ms() - numbers.oldest_ms

    def read_rows(self, client: DashboardClient) -> Found[str]:
        return messages.read_dead_letter_groups(client)

    def read_numbers(self, client: DashboardClient, rows: Mapping[str, str]) -> Mapping[str, DeadLetters]:
        return messages.read_depths(client, rows)

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        from rmqadmin.tui.screens.messages import MessagesScreen

        self.app.push_screen(MessagesScreen(self.table.part(event.key)))


def _depth_mark(numbers: DeadLetters) -> str | None:
    return "warn" if numbers.depth_count else None
