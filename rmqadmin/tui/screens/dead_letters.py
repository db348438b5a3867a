"""Dead letters: how many each group has, how many were not redriven, and since when. Enter opens them."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from rmqadmin.core.health.finding import SubjectKind
from rmqadmin.core.units import moment
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.memory.readings import Depth
from rmqadmin.tui.screens.row_state import state_column
from rmqadmin.tui.screens.table_screen import TableScreen
from rmqadmin.tui.sources import messages
from rmqadmin.tui.sources.found import Found
from rmqadmin.tui.widgets.tables.columns import MINOR, NAME_READABLE, NUMBERS, VITAL, Column
from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqproto.names import group_in_topic


class DeadLettersScreen(TableScreen):
    NOUN = ("group with dead letters", "groups with dead letters")
    NONE = "no dead letters"
    KEEPS_LOST_ROWS = True
    step = "Dead letters"
    file_name = "dead-letters"
    REMEMBERS_FILTER = True
    JUDGED_KIND = SubjectKind.DEAD_LETTERS
    HAS_DETAIL = True

    def columns(self) -> list[Column]:
        def number(name: str, field: str, **how: Any) -> Column:
            return Column(name=name, part=NUMBERS, value=attrgetter(f"letters.{field}"), **how)

        return [
            Column(name="group", value=group_in_topic, importance=VITAL, readable_width=NAME_READABLE),
            number("depth_count", "depth_count", words="depth", is_number=True, is_sum=True),
            number("left_count", "left_count", words="left", is_number=True, is_sum=True, importance=VITAL),
            number("oldest_ms", "oldest_ms", is_time=True, is_sum=True, importance=VITAL),
            state_column(40),
            number("newest_ms", "newest_ms", is_time=True),
            number("oldest_at", "oldest_ms", form=moment, importance=MINOR),
            number("newest_at", "newest_ms", form=moment, importance=MINOR),
        ]

    def selected(self) -> dict[str, str]:
        key = self.table.cursor_key
        return {} if key is None else {"GROUP": key}

    def read_rows(self, client: DashboardClient) -> Found[str]:
        return messages.read_dead_letter_groups(client, self.dashboard.memory)

    def read_numbers(self, client: DashboardClient, rows: Mapping[str, str]) -> Mapping[str, Depth]:
        return messages.read_depths(client, self.dashboard.memory, rows)

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        from rmqadmin.tui.screens.messages import MessagesScreen

        self.app.push_screen(MessagesScreen(event.row))
