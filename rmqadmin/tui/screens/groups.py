"""Groups: how far behind they are, in messages and in time, who is online, and whether their queues are shared out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rmqadmin.core.units import UNKNOWN, count, duration, rate
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.refresh import Feed
from rmqadmin.tui.screens.base import TableScreen
from rmqadmin.tui.screens.group_state import MEMBER_WAIT_MAX_S, STATE, STATE_EVERY, state_mark
from rmqadmin.tui.sources import groups
from rmqadmin.tui.sources.found import Found
from rmqadmin.tui.sources.groups import GroupFacts, GroupNumbers
from rmqadmin.tui.widgets.row_table import RowTable
from rmqadmin.tui.widgets.rows import Column

_NUMBERS = TableScreen.NUMBERS


class GroupsScreen(TableScreen):
    NOUN = ("group", "groups")
    step = "Groups"
    file_name = "groups"

    def columns(self) -> list[Column]:
        return [
            Column("group", lambda facts: facts.group),
            Column(
                "lag",
                lambda numbers: numbers.lag_count,
                _NUMBERS,
                form=count,
                is_number=True,
                mark=_lag_mark,
                is_sum=True,
            ),
            Column("lag time", self._lag_time, _NUMBERS, form=duration, is_number=True, is_sum=True),
            Column("consumed/s", lambda numbers: numbers.consume_tps, _NUMBERS, form=rate, is_number=True, is_sum=True),
            Column("clients", lambda numbers: numbers.client_count, _NUMBERS, form=count, is_number=True, is_sum=True),
            Column("model", lambda numbers: numbers.error or (numbers.message_model or UNKNOWN).lower(), _NUMBERS),
            Column("queues", lambda state: state.summary(), STATE, mark=state_mark, every=STATE_EVERY),
            Column("may consume", lambda facts: {True: "yes", False: "no", None: "differs"}[facts.may_consume]),
        ]

    def _lag_time(self, numbers: GroupNumbers) -> int | None:
        return None if numbers.oldest_waiting_ms is None else self.dashboard.now_ms() - numbers.oldest_waiting_ms

    def make_feeds(self) -> Sequence[Feed]:
        states = self.feed(self._refresh_states, every=STATE_EVERY, answer_wait_max_s=MEMBER_WAIT_MAX_S)
        return [*super().make_feeds(), states]

    def read_rows(self, client: DashboardClient) -> Found[GroupFacts]:
        return groups.read_groups(client, self.dashboard.memory)

    def read_numbers(self, client: DashboardClient, rows: Mapping[str, GroupFacts]) -> Mapping[str, GroupNumbers]:
        return groups.read_numbers(client, self.dashboard.memory, rows)

    async def _refresh_states(self, feed: Feed) -> None:
        in_view = self.rows_in_view()
        if not in_view:  # the first rows are not there yet
            in_view = (await feed.ask(self.read_rows)).rows
            self.table.set_rows(in_view.items())
            in_view = self.rows_in_view()
        for key, facts in in_view.items():  # one by one: a silent member does not hold up the groups before it
            self.table.put(STATE, {key: await feed.ask(groups.read_state, self.dashboard.memory, facts)})

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        from rmqadmin.tui.screens.group import GroupScreen

        self.app.push_screen(GroupScreen(self.table.part(event.key)))


def _lag_mark(numbers: GroupNumbers) -> str | None:
    return "warn" if numbers.lag_count else None
