"""Groups: their lag in messages and in time, who is online, and whether all queues have an owner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, ClassVar

from textual.binding import BindingType
from textual.content import Content

from rmqadmin.core.health.finding import Finding, SubjectKind
from rmqadmin.core.health.group_checks import group_row_findings
from rmqadmin.core.units import count
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.dialogs.groups import delete_group, edit_group, new_group
from rmqadmin.tui.key_map import bound
from rmqadmin.tui.memory.cluster import ClusterMemory
from rmqadmin.tui.memory.readings import GroupState, RowReading
from rmqadmin.tui.refresh import Feed
from rmqadmin.tui.screens.row_parts import RowState, line_column, state_column, trend_column
from rmqadmin.tui.screens.table_screen import TableScreen
from rmqadmin.tui.sources import groups
from rmqadmin.tui.sources.found import Found
from rmqadmin.tui.sources.groups import MEMBER_WAIT_MAX_S, GroupFacts, GroupNumbers, members_interval_s
from rmqadmin.tui.widgets.detail import part_lines
from rmqadmin.tui.widgets.tables.columns import BASE, MINOR, NAME_READABLE, NOT_KNOWN, NUMBERS, VITAL, Column
from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqproto.names import is_system_group

STATE = "state"
STATE_EVERY = 5
"""Every fifth refresh asks members for their queues: each question goes through a broker to a consumer."""

ReadGroups = Callable[[DashboardClient, ClusterMemory], Found[GroupFacts]]

_MEMBERS_UNKNOWN = attrgetter("members_are_unknown")


class GroupsScreen(TableScreen):
    """All groups, or those of a topic or a broker."""

    NOUN = ("group", "groups")
    step = "Groups"
    file_name = "groups"
    REMEMBERS_FILTER = True
    SAMPLED, LINES = SubjectKind.GROUP, {"lag_count": "lag"}
    HAS_DETAIL = True
    JUDGED_KIND, JUDGED_BY = SubjectKind.GROUP, (BASE, STATE)
    BINDINGS: ClassVar[list[BindingType]] = [
        bound("new"),
        bound("edit"),
        bound("delete"),
        bound("plot"),
        bound("system", "app.system"),
    ]
    changing_actions = frozenset({"new", "edit", "delete"})

    def __init__(self, read: ReadGroups = groups.read_groups):
        super().__init__()
        self._read = read
        self._states: list[GroupState] = []
        """Those of the groups in view, as last read."""

    def columns(self) -> list[Column]:
        def lag_column(name: str, **how: Any) -> Column:
            return Column(name=name, part=NUMBERS, is_number=True, is_sum=True, lacks=attrgetter("lag_lacking"), **how)

        return [
            Column(name="group", importance=VITAL, readable_width=NAME_READABLE),
            lag_column(
                "lag_count", is_unknown=attrgetter("lag_is_unknown"), importance=VITAL,
                mark=lambda _: None,  # most groups have some: the state says whether it is too much
            ),
            lag_column(
                "lag_ms", words="lag time", value=self._lag_ms, is_age=True,
                is_unknown=attrgetter("lag_time_is_unknown"), importance=VITAL,
            ),
            line_column("lag_count"),
            trend_column(),
            lag_column("consume_tps", is_unknown=_MEMBERS_UNKNOWN),
            Column(name="client_count", part=NUMBERS, is_number=True, is_sum=True, is_unknown=_MEMBERS_UNKNOWN),
            state_column(),
            Column(
                name="message_model", part=NUMBERS, value=lambda one: one.message_model and one.message_model.lower(),
                is_unknown=_MEMBERS_UNKNOWN, importance=MINOR,
            ),
        ]  # fmt: skip

    def state_of(self, key: str, facts: GroupFacts, state: GroupState | None, wrong: tuple[Finding, ...]) -> RowState:
        found = (*wrong, *group_row_findings(facts.group, facts.may_consume))
        return RowState(found, None if state is None else state.summary())

    def detail(self, key: str) -> list[Content]:
        """What waits in each topic, and the members with the queues that they have."""
        waiting, state = self.dashboard.pulse.groups.waiting_by_topic(key), self.table.part(key, STATE)
        members = state.owners.members if state is not None and state.owners is not None else []
        return [
            *part_lines("topics", [(topic, count(lag_count)) for topic, lag_count in waiting.items()], ("lag",)),
            *part_lines(
                "members",
                [(one.client_id, NOT_KNOWN if one.queues is None else str(len(one.queues))) for one in members],
                ("queues",),
            ),
        ]

    @staticmethod
    def is_system(row: GroupFacts) -> bool:
        return is_system_group(row.group)

    def _lag_ms(self, numbers: GroupNumbers) -> int | None:
        return None if numbers.oldest_waiting_ms is None else self.now_ms() - numbers.oldest_waiting_ms

    def row_reading(self, numbers: GroupNumbers) -> RowReading:
        return groups.group_reading(numbers, self.now_ms())

    def make_feeds(self) -> Sequence[Feed]:
        states = self.feed(
            self._refresh_states,
            every=STATE_EVERY,
            least_s=lambda: members_interval_s(*self._states),
            answer_wait_max_s=MEMBER_WAIT_MAX_S,
        )
        return [*super().make_feeds(), states]

    def selected(self) -> dict[str, str]:
        facts: GroupFacts | None = self.table.chosen
        return {} if facts is None else {"GROUP": facts.group}

    def read_rows(self, client: DashboardClient) -> Found[GroupFacts]:
        return self._read(client, self.dashboard.memory)

    def read_numbers(self, client: DashboardClient, rows: Mapping[str, GroupFacts]) -> Mapping[str, GroupNumbers]:
        return groups.read_numbers(client, self.dashboard.memory, rows)

    async def _refresh_states(self, feed: Feed) -> None:
        in_view = self.rows_in_view()
        if not in_view:  # the first rows are not there yet
            in_view = (await feed.ask(self.read_rows)).rows
            self.table.set_rows(in_view.items())
            in_view = self.rows_in_view()
        self._states = []
        for key, facts in in_view.items():  # one by one: a silent member holds up only the groups after its own
            state = await feed.ask(groups.read_state, self.dashboard.memory, facts)
            self._states.append(state)
            self.table.put(STATE, {key: state})
            if not state.lacks and state.owners is not None:
                self.dashboard.pulse.groups.take_members(facts.group, state)
            self.judge([key])
        self.show_over_time()

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        self.dashboard.open_thing(event.row)

    def action_new(self) -> None:
        self.open_change(new_group(next(iter(self.dashboard.memory.clusters), "")))

    def action_edit(self) -> None:
        if (facts := self.known_row()) is not None:
            self.open_change(edit_group(facts, groups.last_configs(self.dashboard.memory, facts)))

    def action_delete(self) -> None:
        if (facts := self.known_row()) is not None:
            self.open_change(delete_group(facts))
