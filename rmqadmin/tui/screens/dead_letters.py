"""Dead letters: how many each group has, and since when. Enter shows them."""

from __future__ import annotations

from collections.abc import Mapping

from rmqadmin.core.units import count, duration, moment
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.screens.base import TableScreen
from rmqadmin.tui.sources import messages
from rmqadmin.tui.sources.found import Found
from rmqadmin.tui.sources.messages import Depth
from rmqadmin.tui.widgets.row_table import RowTable
from rmqadmin.tui.widgets.rows import Column
from rmqproto.names import DLQ_PREFIX

_NUMBERS = TableScreen.NUMBERS


class DeadLettersScreen(TableScreen):
    NOUN = ("group with dead letters", "groups with dead letters")
    KEEPS_LOST_ROWS = True
    step = "Dead letters"
    file_name = "dead-letters"

    def columns(self) -> list[Column]:
        return [
            Column("group", lambda topic: topic.removeprefix(DLQ_PREFIX)),
            Column(
                "depth",
                lambda depth: depth.letters.depth_count,
                _NUMBERS,
                form=count,
                is_number=True,
                mark=_depth_mark,
                is_sum=True,
            ),
            Column("oldest age", self._oldest_age, _NUMBERS, form=duration, is_number=True, is_sum=True),
            Column("oldest message", lambda depth: depth.letters.oldest_ms, _NUMBERS, form=moment),
            Column("newest message", lambda depth: depth.error or moment(depth.letters.newest_ms), _NUMBERS),
        ]

    def _oldest_age(self, depth: Depth) -> int | None:
        return None if depth.letters.oldest_ms is None else self.dashboard.now_ms() - depth.letters.oldest_ms

    def read_rows(self, client: DashboardClient) -> Found[str]:
        return messages.read_dead_letter_groups(client, self.dashboard.memory)

    def read_numbers(self, client: DashboardClient, rows: Mapping[str, str]) -> Mapping[str, Depth]:
        return messages.read_depths(client, self.dashboard.memory, rows)

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        from rmqadmin.tui.screens.messages import MessagesScreen

        self.app.push_screen(MessagesScreen(self.table.part(event.key)))


def _depth_mark(depth: Depth) -> str | None:
    return "warn" if depth.letters.depth_count else None
