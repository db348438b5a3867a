"""One group: every queue with its offsets, lag and owner; beside or below them, its members."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import msgspec
from textual.binding import BindingType
from textual.containers import Container, Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from rmqadmin.core.groups.consumption import GroupOffsets
from rmqadmin.core.groups.group_standing import QueueStanding
from rmqadmin.core.groups.lag import SAMPLE_DEFAULT_S, StandingStill
from rmqadmin.core.groups.queue_owners import QueueOwners, QueueState, without_heading
from rmqadmin.core.health.finding import Check, Finding, Subject, SubjectKind, in_order
from rmqadmin.core.health.group_checks import group_row_findings, members_findings, queue_findings
from rmqadmin.core.results import Shape
from rmqadmin.core.units import UNKNOWN, at_least, clock, count, elapsed, rate
from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.dialogs.groups import reset_offsets
from rmqadmin.tui.key_map import bound
from rmqadmin.tui.literal import literal
from rmqadmin.tui.memory.cluster import Lacks
from rmqadmin.tui.memory.readings import GroupState, RowReading
from rmqadmin.tui.refresh import Feed
from rmqadmin.tui.screens.base import STALE_AFTER_MIN_S, DashboardScreen
from rmqadmin.tui.screens.groups import STATE
from rmqadmin.tui.screens.maps import OWNER_MARKS
from rmqadmin.tui.screens.members import member_columns
from rmqadmin.tui.screens.row_parts import OVER_TIME, RowState, line_column, of_queue, state_column
from rmqadmin.tui.sources import groups
from rmqadmin.tui.sources.found import lacks_text
from rmqadmin.tui.sources.groups import (
    MEMBER_WAIT_MAX_S,
    GroupFacts,
    GroupNumbers,
    QueueKept,
    QueueOffsets,
    members_interval_s,
)
from rmqadmin.tui.widgets.frame import mark_of
from rmqadmin.tui.widgets.plot import Plot, whole
from rmqadmin.tui.widgets.tables.columns import BASE, JUDGED, MINOR, NUMBERS, VITAL, Column
from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import NotFoundError
from rmqproto.wording import counted, names_told

_LAG = ("lag_count",)

_KEPT_EVERY = 15
"""Every fifteenth refresh asks what brokers have deleted."""

_EVERY = 2
"""Every second refresh asks the members, who are in view on this screen."""


class Ownership(msgspec.Struct, frozen=True):
    """Who consumes one queue, according to the members."""

    state: QueueState | None
    """None while nobody is online."""
    owners: list[str]

    def text(self) -> str:
        if self.state is None:
            return UNKNOWN
        owners = names_told(self.owners)
        return owners if self.state is QueueState.OWNED else ", ".join(filter(None, [self.state, owners]))


class GroupScreen(DashboardScreen):
    """Two tables with a feed each: what brokers know of the group, and what its members report."""

    file_name = "group"
    AUTO_FOCUS = "#offsets"
    BINDINGS: ClassVar[list[BindingType]] = [
        bound("reset"),
        bound("edit", "move", "Move queue"),
        bound("next_part", "app.focus_next", shown=False),
        bound("stacks"),
        bound("plot"),
    ]
    changing_actions = frozenset({"reset", "move"})

    def __init__(self, facts: GroupFacts):
        super().__init__()
        self.facts = facts
        self.offsets = self.table_of(self._offset_columns(), id="offsets", stale_after_s=STALE_AFTER_MIN_S)
        self.members = self.table_of(member_columns()[:3], id="members", stale_after_s=STALE_AFTER_MIN_S)
        self._totals: GroupOffsets | None = None
        self._lacks: Lacks = {}
        self._known: dict[str, QueueOffsets] = {}
        self._state: GroupState | None = None
        """What the members say, as last asked."""
        self._still = StandingStill()
        self._still_s: dict[MessageQueue, float] = {}
        self._kept: dict[str, QueueKept] = {}

    @property
    def _owners(self) -> QueueOwners | None:
        return None if self._state is None else self._state.owners

    def findings(self) -> Sequence[Finding]:
        """What the pulse finds, or before that, what the members themselves tell."""
        owners = self._owners
        if self.tabbed is not None and owners is not None:
            self.tabbed.told = in_order(one for one in members_findings(self.facts.group, owners) if one.is_bad)
        may_consume = self.facts.may_consume is not False  # None may also be that nobody has asked
        return [*super().findings(), *([] if may_consume else group_row_findings(self.facts.group, may_consume=False))]

    def tab_counts(self) -> Mapping[int, int]:
        queues = {} if self._totals is None else {1: self.offsets.all_count}
        return queues if self._owners is None else {**queues, 2: len(self._owners.members)}

    def _offset_columns(self) -> list[Column]:
        def of_broker(name: str, **how: Any) -> Column:
            return Column(name=name, part=NUMBERS, is_unknown=self._is_lacking, **how)

        return [
            Column(name="topic"),
            Column(name="broker_name"),
            Column(name="queue_id", is_number=True, importance=VITAL),
            of_broker("consumer_offset", value=_entry("consumer_offset"), is_number=True),
            of_broker("broker_offset", value=_entry("broker_offset"), is_number=True),
            of_broker("lag_count", is_number=True, mark=lambda _: None, importance=VITAL),
            of_broker(
                "lag_ms", words="lag time", value=self._lag_ms, is_number=True, is_age=True, importance=VITAL
            ),
            line_column("lag_count"),
            of_broker("inflight_count", is_number=True, importance=MINOR),
            of_broker(
                "last_consumed_ms", is_time=True, importance=MINOR,
                value=lambda queue: _entry("last_timestamp")(queue) or None,  # 0: nothing consumed yet
            ),
            Column(
                name="owner", part=STATE, value=Ownership.text, mark=lambda one: OWNER_MARKS.get(one.state),
                shape=Shape.CLAUSES, every=_EVERY, importance=VITAL,
            ),
            state_column(is_sparse=True),
        ]  # fmt: skip

    def body(self) -> Iterable[Widget]:
        with Container(id="parts"):
            yield self.offsets
            with Vertical(id="of-members"):
                yield Static(literal("Members"), classes="caption", id="caption")
                yield self.members
                yield Plot(id="waiting")

    def make_feeds(self) -> Sequence[Feed]:
        members = self.feed(
            self._refresh_members,
            every=_EVERY,
            least_s=lambda: members_interval_s(self._state),
            answer_wait_max_s=MEMBER_WAIT_MAX_S,
        )
        kept = self.feed(self._refresh_kept, every=_KEPT_EVERY)
        return [self.feed(self._refresh_offsets), members, kept]

    def shown_feeds(self) -> list[Feed]:
        """All but the feed of what brokers keep, which asks seldom."""
        return self.feeds[:2]

    # --- what brokers know -------------------------------------------------------------------------------------------

    async def _refresh_offsets(self, feed: Feed) -> None:
        group = await feed.ask(groups.read_group, self.dashboard.memory, self.facts)
        self._lacks, feed.problems = group.found.lacks, group.found.told()
        if self._totals is None:
            self.feeds[2].want()
        self._totals, self._known = group.offsets, group.found.rows
        self._still_s = self._still.look(group.offsets, time.monotonic())
        self._sample()
        self._show_offsets()

    def _sample(self) -> None:
        pulse, readings = self.dashboard.pulse, {}
        for key, row in self._known.items():
            lag_ms = 0 if row.lag_count == 0 else self._lag_ms(row)
            readings[self._queue_subject(key).name] = RowReading({"lag_count": row.lag_count, "lag_ms": lag_ms})
        pulse.take_rows(SubjectKind.QUEUE, readings)
        totals = self._totals
        if totals is not None and totals.offsets:
            waiting = [row.first_waiting_ms for row in self._known.values() if row.first_waiting_ms is not None]
            numbers = GroupNumbers(
                totals.lag_count, min(waiting, default=None), totals.consume_tps, lag_lacking=tuple(self._lacks)
            )
            pulse.take_rows(SubjectKind.GROUP, {self.facts.group: groups.group_reading(numbers, self.now_ms())})

    def _queue_subject(self, key: str) -> Subject:
        return Subject(SubjectKind.QUEUE, f"{self.facts.group}: {key}")

    async def _refresh_kept(self, feed: Feed) -> None:
        if self._totals is not None:
            self._kept = await feed.ask(groups.read_kept, self.dashboard.memory, self.facts, self._totals)
            self._show_over_time()

    def _show_over_time(self) -> None:
        pulse, shown = self.dashboard.pulse, self.offsets.visible_keys()
        over = pulse.over_time(Subject(SubjectKind.GROUP, self.facts.group), _LAG)
        self.query_one("#waiting", Plot).show("Waiting", over.lines["lag_count"], whole, note=over.trend)
        self.offsets.put(OVER_TIME, {key: pulse.over_time(self._queue_subject(key), _LAG) for key in shown})
        states = {
            key: RowState(tuple(self._findings(key)), told_beside=Check.QUEUE_OWNERS) for key in self.offsets.row_keys()
        }
        self.offsets.put(JUDGED, states)

    def _findings(self, key: str) -> list[Finding]:
        """What is wrong with a queue, as in `group lag`."""
        row, kept = self._known.get(key), self._kept.get(key)
        if row is None or row.entry is None:
            return []
        owners, idle_s = self._owners, self._still_s.get(row.queue, 0.0)
        standing = QueueStanding(
            queue=row.queue,
            entry=row.entry,
            min_offset=None if kept is None else kept.min_offset,
            oldest_waiting_ms=row.first_waiting_ms,
            reserved_ms=None if kept is None else kept.reserved_ms,
            is_stuck=bool(row.lag_count) and idle_s >= SAMPLE_DEFAULT_S,
            idle_ms=round(idle_s * 1000),
            state=owners.state(row.queue) if owners is not None and owners.members else None,
        )
        has_members = owners is not None and bool(owners.members)
        return in_order(queue_findings(standing, self.now_ms(), has_members=has_members))

    def _show_offsets(self) -> None:
        """Shows queues with offsets, and queues without an offset that members own or should own. Queues of brokers
        that do not answer stay as they were."""
        unread = () if self._owners is None else self._owners.queues
        rows = {groups.key_of(queue): QueueOffsets(queue, None, None) for queue in unread} | self._known
        ordered = sorted(rows.items(), key=lambda item: groups.order_of(item[1].queue))
        none = "unknown: " + ", ".join(lacks_text(self._lacks)) if self._lacks else "it has committed no offset yet"
        self.offsets.say_when_empty("unknown" if self._totals is None else none)
        self.offsets.set_rows(((key, row.queue) for key, row in ordered), keeps_others=bool(self._lacks))
        self.offsets.put(NUMBERS, {key: row for key, row in rows.items() if not self._stays(key, row)})
        self._show_over_time()
        self.show_frame()

    def _is_lacking(self, row: QueueOffsets) -> bool:
        """Whether the broker that knows where a queue stands did not answer."""
        return row.entry is None and row.queue.broker_name in self._lacks

    def _stays(self, key: str, row: QueueOffsets) -> bool:
        """Whether a queue keeps the numbers that its broker told before."""
        before: QueueOffsets | None = self.offsets.part(key, NUMBERS)
        return self._is_lacking(row) and before is not None and before.entry is not None

    def _lag_ms(self, row: QueueOffsets) -> int | None:
        return None if row.first_waiting_ms is None else self.now_ms() - row.first_waiting_ms

    # --- what members say --------------------------------------------------------------------------------------------

    async def _refresh_members(self, feed: Feed) -> None:
        state = self._state = await feed.ask(groups.read_state, self.dashboard.memory, self.facts)
        every = max(_EVERY, members_interval_s(state) / self.dashboard.interval_s)
        self.members.model.every, self.offsets.model.every = {BASE: every}, {STATE: every}
        self.dashboard.pulse.groups.take_members(self.facts.group, state)
        feed.problems = [*lacks_text(state.lacks), *([state.error] if state.error else [])]
        owners = state.owners
        if owners is None:
            self.query_one("#caption", Static).update(literal("Members: unknown"))
            self.members.say_when_empty("unknown")
            return
        feed.problems += [f"{member.client_id}: {member.error}" for member in owners.silent]
        self.members.say_when_empty(state.nobody_text())
        self.members.set_rows((member.client_id, member) for member in owners.members)
        self._show_offsets()
        queues: dict[str, MessageQueue] = {key: self.offsets.part(key, BASE) for key in self.offsets.row_keys()}
        self.offsets.put(STATE, {
            key: Ownership(owners.state(queue) if owners.members else None, owners.queues.get(queue, []))
            for key, queue in queues.items()
        })  # fmt: skip
        self._show_caption(owners, state.lacks)

    def _show_caption(self, owners: QueueOwners, lacks: Lacks) -> None:
        worst = next(iter(in_order(members_findings("", owners))), None) if owners.members else None
        well = "$text-success" if owners.members else "$text-warning"
        color = well if worst is None else mark_of(worst)[1]
        member_count = at_least(count(len(owners.members))) if lacks else count(len(owners.members))
        self.query_one("#caption", Static).update(
            Content.assemble(
                f"Members: {member_count}  ·  ", (without_heading(owners.summary()), color), self._course()
            )
        )

    def _course(self) -> str:
        """The course of the current rebalance, or of the last one."""
        seen = self.dashboard.pulse.groups.rebalances(self.facts.group)
        if seen.begun_ms is not None:
            return f"  ·  rebalancing for {elapsed(self.now_ms() - seen.begun_ms)}"
        if seen.done:
            last = seen.done[-1]
            return f"  ·  rebalanced at {clock(last.ended_ms)} in {elapsed(last.ended_ms - last.began_ms)}"
        return ""

    def selected(self) -> dict[str, str]:
        """The group, and the queue or member under the cursor of the focused table."""
        found, key, client_id = {"GROUP": self.facts.group}, self.offsets.cursor_key, self.members.cursor_key
        if self.members.has_focus and client_id is not None:
            return found | {"CLIENT": client_id}
        return found if key is None else found | of_queue(self.offsets.part(key))

    # --- the rest ----------------------------------------------------------------------------------------------------

    def rows_text(self) -> str:
        totals = self._totals
        if totals is None:
            return "lag unknown"
        lag, inflight, consumed = count(totals.lag_count), count(totals.inflight_count), rate(totals.consume_tps)
        if not totals.offsets:
            lag = inflight = UNKNOWN
        if self._lacks:
            lag, inflight, consumed = at_least(lag), at_least(inflight), at_least(consumed)
        drain = self.dashboard.pulse.groups.drain_text(self.facts.group)
        return f"{counted(self.offsets.all_count, 'queue')}, lag {lag}, in flight {inflight}, {consumed}/s{drain}"

    def on_row_table_chosen(self, event: RowTable.Chosen) -> None:
        """Opens the messages of a queue, or what a member reports."""
        if event.table is self.members:
            self.dashboard.open_thing((self.facts, event.key))
        else:
            from rmqadmin.tui.screens.messages import MessagesScreen

            queue: MessageQueue = event.row
            self.app.push_screen(MessagesScreen(queue.topic, queue))

    def action_stacks(self) -> None:
        """Shows the stacks of the member under the cursor."""
        if (client_id := self.members.cursor_key) is None:
            self.dashboard.say("no member is online", is_error=True)
        else:
            self.dashboard.open_thing((self.facts, client_id), 4)

    def action_plot(self) -> None:
        """Plots the queue under the cursor, or the whole group if the members' table has the focus."""
        key, memory, facts = self.offsets.cursor_key, self.dashboard.memory, self.facts
        if self.members.has_focus or key is None:
            subject = Subject(SubjectKind.GROUP, facts.group)
            self.dashboard.plot(subject, lambda client: groups.read_group_row(client, memory, facts))
            return

        def read_queue(client: DashboardClient) -> RowReading:
            row = groups.read_group(client, memory, facts).found.rows.get(key)
            if row is None:
                raise NotFoundError(f"no broker reports {key}")
            return RowReading({"lag_count": row.lag_count, "lag_ms": 0 if row.lag_count == 0 else self._lag_ms(row)})

        self.dashboard.plot(self._queue_subject(key), read_queue)

    def action_reset(self) -> None:
        """Resets all queues of the topic under the cursor."""
        self._reset(is_one_queue=False)

    def action_move(self) -> None:
        """Resets only the queue under the cursor."""
        self._reset(is_one_queue=True)

    def _reset(self, *, is_one_queue: bool) -> None:
        key = self.offsets.cursor_key
        if key is None:
            self.dashboard.say("the group has no offsets to reset", is_error=True)
            return
        queue: MessageQueue = self.offsets.part(key)
        only = queue if is_one_queue else None
        self.open_change(reset_offsets(self.facts.group, queue.topic, only, self.dashboard.memory))


def _entry(field: str) -> Callable[[QueueOffsets], Any]:
    """Reads a field of the group's offset in a queue; None if it has no offset there."""
    return lambda row: None if row.entry is None else getattr(row.entry, field)
