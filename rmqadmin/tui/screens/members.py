"""The members of a group, and those of all groups: what each has, manages and subscribes to; and one of them: what it
reports about itself, and the stacks of its threads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, ClassVar

from textual.binding import BindingType
from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import Static

from rmqadmin.core.groups.queue_owners import Member
from rmqadmin.core.groups.running_info import pace_text
from rmqadmin.core.results import Shape
from rmqadmin.core.tables.marks import Mark
from rmqadmin.core.terminal_text import printable
from rmqadmin.core.units import rate
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.key_map import bound
from rmqadmin.tui.literal import literal
from rmqadmin.tui.memory.readings import GroupState
from rmqadmin.tui.refresh import Feed
from rmqadmin.tui.screens.base import DashboardScreen
from rmqadmin.tui.screens.table_screen import SELDOM, TableScreen
from rmqadmin.tui.sources import clients, groups
from rmqadmin.tui.sources.clients import ClientFact, OnlineClient
from rmqadmin.tui.sources.found import Found
from rmqadmin.tui.sources.groups import MEMBER_WAIT_MAX_S, GroupFacts, members_interval_s
from rmqadmin.tui.widgets.lines import Lines
from rmqadmin.tui.widgets.tables.columns import MINOR, NUMBERS, VITAL, Column
from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqproto.codes import version_name
from rmqproto.errors import NotFoundError
from rmqproto.wording import counted


def _silence_mark(member: Member) -> Mark | None:
    return Mark.WARN if member.queues is None else None


def member_columns(is_unequal: Callable[[Member], bool] = lambda _: False) -> list[Column]:
    """The first three say which members there are and what they do, the others what they are. ``is_unequal``: whether a
    member subscribes to something else than the others."""

    def subscriptions(member: Member) -> str:
        if member.subscriptions is None:
            return f"does not answer: {member.error}"
        found = "; ".join(f"{topic} ({expression})" for topic, expression in sorted(member.subscriptions.items()))
        return f"not as the others: {found}" if is_unequal(member) else found

    def mark(member: Member) -> Mark | None:
        return _silence_mark(member) or (Mark.BAD if is_unequal(member) else None)

    return [
        Column(name="client_id", shape=Shape.ID, importance=VITAL),
        Column(name="queues", value=lambda member: None if member.queues is None else len(member.queues),
               form=lambda count: "unknown" if count is None else str(count), is_number=True, mark=_silence_mark,
               importance=VITAL),
        Column(name="consumed", value=lambda member: member.pace and member.pace.consumed_tps,
               form=lambda tps: "-" if tps is None else f"{rate(tps)}/s", is_number=True, importance=VITAL),
        Column(name="client_addr", importance=MINOR),
        Column(name="language", value=lambda member: (member.language or "").lower(), importance=MINOR),
        Column(name="version", value=lambda member: version_name(member.version), importance=MINOR),
        Column(name="pace", words="manages", value=lambda member: pace_text(member.pace), shape=Shape.PROSE,
               importance=MINOR),
        Column(name="subscriptions", words="subscribes to", value=subscriptions, mark=mark,
               shape=Shape.PROSE, readable_width=50, importance=VITAL),
    ]  # fmt: skip


class MembersScreen(TableScreen):
    NOUN = ("member", "members")
    ANSWER_WAIT_MAX_S = MEMBER_WAIT_MAX_S
    file_name = "members"
    BINDINGS: ClassVar[list[BindingType]] = [bound("stacks")]

    def __init__(self, facts: GroupFacts):
        self._state: GroupState | None = None
        self._facts = facts
        super().__init__()

    def columns(self) -> list[Column]:
        return member_columns(is_unequal=self._is_unequal)

    def least_s(self) -> float:
        return members_interval_s(self._state)

    def _is_unequal(self, member: Member) -> bool:
        owners = self._state.owners if self._state else None
        return owners is not None and member.client_id in owners.unequal

    def read_rows(self, client: DashboardClient) -> Found[Member]:
        state = self._state = groups.read_state(client, self.dashboard.memory, self._facts)
        if state.owners is None:
            raise NotFoundError(state.error or "unknown")
        told = [f"{member.client_id}: {member.error}" for member in state.owners.silent]
        return Found({member.client_id: member for member in state.owners.members}, state.lacks, told)

    def numbers_known(self, numbers: Mapping[str, Any]) -> None:
        if self._state is not None:
            self.dashboard.pulse.groups.take_members(self._facts.group, self._state)

    def why_empty(self) -> str:
        return self._state.nobody_text() if self._state is not None and self.is_known else super().why_empty()

    def selected(self) -> dict[str, str]:
        key = self.table.cursor_key
        return {"GROUP": self._facts.group, **({} if key is None else {"CLIENT": key})}

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        self.dashboard.open_thing((self._facts, event.key))

    def action_stacks(self) -> None:
        if (key := self.row_key()) is not None:
            self.dashboard.open_thing((self._facts, key), 4)


class ClientsScreen(TableScreen):
    """The members of all groups."""

    NOUN = ("client", "clients")
    NONE = "no consumer is online"
    EVERY = SELDOM
    ANSWER_WAIT_MAX_S = MEMBER_WAIT_MAX_S
    file_name = "clients"
    BINDINGS: ClassVar[list[BindingType]] = [bound("stacks")]

    def columns(self) -> list[Column]:
        return [
            Column(name="client_id", value=lambda one: one.connection.client_id, shape=Shape.ID, is_name=True,
                   importance=VITAL),
            Column(name="group", value=lambda one: one.facts.group, importance=VITAL),
            Column(name="queue_count", part=NUMBERS, is_number=True, importance=VITAL),
            Column(name="consume_tps", part=NUMBERS, is_number=True),
            Column(name="fail_tps", part=NUMBERS, words="failed/s", is_number=True,
                   mark=lambda one: Mark.BAD if one.fail_tps else None),
            Column(name="client_addr", value=lambda one: one.connection.client_addr, importance=MINOR),
            Column(name="language", value=lambda one: (one.connection.language or "").lower(), importance=MINOR),
            Column(name="version", value=lambda one: version_name(one.connection.version), importance=MINOR),
        ]  # fmt: skip

    def read_rows(self, client: DashboardClient) -> Found[OnlineClient]:
        return clients.read_online(client, self.dashboard.memory)

    def read_numbers(
        self, client: DashboardClient, rows: Mapping[str, OnlineClient]
    ) -> Mapping[str, clients.ClientNumbers]:
        return clients.read_client_numbers(client, self.dashboard.memory, rows)

    def selected(self) -> dict[str, str]:
        one: OnlineClient | None = self.table.chosen
        return {} if one is None else {"GROUP": one.facts.group, "CLIENT": one.connection.client_id}

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        self._open(event.row)

    def action_stacks(self) -> None:
        if (one := self.row()) is not None:
            self._open(one, 4)

    def _open(self, one: OnlineClient, tab: int = 1) -> None:
        self.dashboard.open_thing((one.facts, one.connection.client_id), tab)


def _problem_mark(fact: ClientFact) -> Mark | None:
    return Mark.BAD if fact.kind == "problem" else None


class ClientScreen(TableScreen):
    """One online client of a group: what it reports about itself, and what is wrong with it."""

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
        memory, now_ms = self.dashboard.memory, self.now_ms()
        found = clients.read_client(client, memory, self._facts, self._client_id, now_ms)
        return Found({key: fact for key, fact in found.rows.items() if fact.kind in self._kinds})


_LISTENER = "ConsumeMessageThread"
"""How the Java client names the threads of listeners, the ones that matter among 700 lines."""

_STATE = "TID: "
"""Follows the name of the thread, which the Java client fills up to 40 characters."""

_NEVER = 1e9
"""The interval of automatic refreshes: never."""


class StackScreen(DashboardScreen):
    """The stacks of a member's threads, as the member reports them (`consumerStatus -s`). They are read only when the
    screen opens and on ``r``, because the member stops all its threads for it."""

    file_name = "stack"
    EVERY = _NEVER
    AUTO_FOCUS = "Lines"

    def __init__(self, facts: GroupFacts, client_id: str):
        super().__init__()
        self._facts, self._client_id = facts, client_id
        self._line_count: int | None = None

    def body(self) -> Iterable[Widget]:
        with Vertical(id="stack"):
            yield Static("asking …")

    def selected(self) -> dict[str, str]:
        return {"GROUP": self._facts.group, "CLIENT": self._client_id}

    def interval_s(self) -> float | None:
        return None

    async def _refresh(self, feed: Feed) -> None:
        text = await feed.ask(clients.read_stack, self.dashboard.memory, self._facts, self._client_id)
        lines = [printable(line.expandtabs(4)) for line in stack_lines(text or "")]
        self._line_count = len(lines)
        stack = self.query_one("#stack")
        await stack.remove_children()
        if lines:
            shown = Lines(lines)
            await stack.mount(shown)
            shown.focus()
        else:
            await stack.mount(Static(literal("It reports no stacks. Clients other than Java's often cannot.")))
        self.show_frame()

    def rows_text(self) -> str:
        return "" if self._line_count is None else f"{counted(self._line_count, 'line')}, r asks again"


def stack_lines(text: str) -> list[str]:
    """The stacks of listeners first, each with its thread's name once. Java lists threads in no order, with a blank
    line between them, and repeats the name before each frame, so that half a line of 80 columns said nothing."""
    stacks = text.strip("\n").split("\n\n")
    lines: list[str] = []
    for stack in sorted(stacks, key=lambda stack: not stack.startswith(_LISTENER)):
        name = stack.partition(_STATE)[0]
        head, *frames = stack.splitlines() or [""]
        lines += [head, *(f"  {one.removeprefix(name)}" if one.startswith(name) else one for one in frames), ""]
    return lines[:-1] if any(lines) else []
