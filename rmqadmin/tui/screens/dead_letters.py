"""Dead letters: how many each group has, how many were not redriven, and since when. Enter opens them."""

from __future__ import annotations

from collections.abc import Mapping

from rmqadmin.core.health.finding import SubjectKind
from rmqadmin.core.units import moment
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.memory.readings import Depth
from rmqadmin.tui.screens.row_state import state_column
from rmqadmin.tui.screens.table_screen import TableScreen
from rmqadmin.tui.sources import messages
from rmqadmin.tui.sources.found import Found
from rmqadmin.tui.widgets.tables.columns import MINOR, NAME_READABLE, VITAL, Column
from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqproto.names import DLQ_PREFIX

_NUMBERS = TableScreen.NUMBERS


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
        return [
            Column(
                name="group",
                value=lambda topic: topic.removeprefix(DLQ_PREFIX),
                importance=VITAL,
                readable_width=NAME_READABLE,
            ),
            Column(
                name="depth_count",
                words="depth",
                part=_NUMBERS,
                value=lambda depth: depth.letters.depth_count,
                is_number=True,
                is_sum=True,
            ),
            Column(
                name="left_count",
                words="left",
                part=_NUMBERS,
                value=lambda depth: depth.letters.left_count,
                is_number=True,
                is_sum=True,
                importance=VITAL,
            ),
            Column(
                name="oldest_ms",
                part=_NUMBERS,
                value=lambda depth: depth.letters.oldest_ms,
                is_time=True,
                is_sum=True,
                importance=VITAL,
            ),
            state_column(40),
            Column(name="newest_ms", part=_NUMBERS, value=lambda depth: depth.letters.newest_ms, is_time=True),
            Column(
                name="oldest_at",
                part=_NUMBERS,
                value=lambda depth: depth.letters.oldest_ms,
                form=moment,
                importance=MINOR,
            ),
            Column(
                name="newest_at",
                part=_NUMBERS,
                value=lambda depth: depth.letters.newest_ms,
                form=moment,
                importance=MINOR,
            ),
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
