"""Screens that show where the parts of something are: what is wrong and what to do about it, the map, and what has
changed of it while the dashboard ran. One for the sets of brokers with their masters and slaves, one for the owners of
a group's queues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from rmqadmin.core.groups.queue_owners import OwnedQueue, QueueMove, QueueOwners, QueueState, Rebalances
from rmqadmin.core.health.finding import Finding
from rmqadmin.core.health.group_checks import members_findings
from rmqadmin.core.results import Shape
from rmqadmin.core.servers.ha_sets import in_sync_text
from rmqadmin.core.tables.marks import Mark
from rmqadmin.core.units import UNKNOWN, age, clock, duration, elapsed, size, unchanged_text
from rmqadmin.tui.literal import literal
from rmqadmin.tui.memory.readings import GroupState
from rmqadmin.tui.refresh import Feed
from rmqadmin.tui.screens.base import DashboardScreen
from rmqadmin.tui.screens.row_parts import of_queue
from rmqadmin.tui.sources import brokers, groups
from rmqadmin.tui.sources.brokers import ReadSets, SetRow
from rmqadmin.tui.sources.found import lacks_text
from rmqadmin.tui.sources.groups import MEMBER_WAIT_MAX_S, GroupFacts, members_interval_s
from rmqadmin.tui.widgets.detail import LongLines, finding_lines
from rmqadmin.tui.widgets.tables.columns import MINOR, VITAL, Column
from rmqproto.bodies.base import MessageQueue
from rmqproto.wording import counted, names_told


class MapScreen(DashboardScreen):
    """What is wrong and what to do about it, the map, and what has changed of it."""

    AUTO_FOCUS = "#map"

    def __init__(self) -> None:
        super().__init__()
        self.map = self.table_of(self.map_columns(), id="map", opens=False)
        self.moves = self.table_of(self.move_columns(), id="moves", opens=False)

    def map_columns(self) -> list[Column]:
        raise NotImplementedError

    def move_columns(self) -> list[Column]:
        raise NotImplementedError

    def body(self) -> Iterable[Widget]:
        yield LongLines("asking …", id="advice")
        yield self.map
        yield Static("Changes", classes="caption", id="caption")
        yield self.moves

    def show(
        self, advice: Sequence[Content], rows: Mapping[str, Any], moves: Mapping[str, Any], since_ms: int | None
    ) -> None:
        """``moves``: the changes, newest first, since the first look at ``since_ms``."""
        self.query_one("#advice", LongLines).show(advice)
        self.map.set_rows(rows.items())
        self.query_one("#caption", Static).update(Content(f"Changes: {len(moves):,}"))
        self.moves.say_when_empty(unchanged_text(since_ms))
        self.moves.set_rows(moves.items())
        self.show_frame()


SERVER_WAIT_MAX_S = 2.0
"""A broker that takes longer is shown as not answering. Waiting longer would hide a handover."""

FINDINGS_SHOWN_MAX = 4


def _role_mark(row: SetRow) -> Mark | None:
    if row.member.says_master:
        return Mark.GOOD if row.is_master else Mark.BAD
    return None


def _state_mark(row: SetRow) -> Mark | None:
    member = row.member
    if member.error is not None or (member.says_master and not row.is_master):
        return Mark.BAD
    if member.in_sync is False or (row.is_master and not member.says_master):
        return Mark.WARN
    return Mark.GOOD


def _lag_text(behind_bytes: int | None) -> str:
    if behind_bytes is None:
        return UNKNOWN
    return f"ahead {size(-behind_bytes)}" if behind_bytes < 0 else size(behind_bytes)


def _lease_text(left_ms: int | None) -> str:
    if left_ms is None:
        return UNKNOWN
    return duration(left_ms) if left_ms else "ended"


class BrokerSetsScreen(MapScreen):
    """The master of each set, the slaves that could take over, how far they are behind, and each handover as it
    happens."""

    step = "Replicas"
    file_name = "replicas"
    ANSWER_WAIT_MAX_S = SERVER_WAIT_MAX_S

    def __init__(self, broker_name: str | None = None) -> None:
        """``broker_name``: only this set is shown."""
        super().__init__()
        self._broker_name = broker_name

    def map_columns(self) -> list[Column]:
        return [
            Column(name="broker_name", value=lambda row: row.of_set.broker_name, importance=VITAL),
            Column(name="broker_id", value=lambda row: row.member.broker_id, is_number=True, importance=VITAL),
            Column(name="cluster", value=lambda row: row.of_set.cluster, importance=MINOR),
            Column(name="broker_addr", value=lambda row: row.member.broker_addr, importance=MINOR),
            Column(name="role", mark=_role_mark, importance=VITAL),
            Column(name="epoch", is_number=True),
            Column(name="behind_bytes", words="behind", form=_lag_text, is_number=True, importance=VITAL),
            Column(name="behind_ms", words="for", form=duration, is_number=True),
            Column(
                name="log_end", words="log end", value=lambda row: row.member.log_end, is_number=True, importance=MINOR
            ),
            Column(name="lease", value=lambda row: row.member.lease_left_ms, form=_lease_text, is_number=True),
            Column(name="state", mark=_state_mark, shape=Shape.PROSE, readable_width=24, importance=VITAL),
        ]

    def move_columns(self) -> list[Column]:
        return [
            Column(name="at_ms", words="when", form=clock, importance=VITAL),
            Column(name="broker_name", is_name=True, importance=VITAL),
            Column(
                name="text", words="what has changed", shape=Shape.PROSE, mark=lambda change: change.mark,
                importance=VITAL,
            ),
        ]  # fmt: skip

    async def _refresh(self, feed: Feed) -> None:
        found = await feed.ask(brokers.read_sets, self.dashboard.memory, self.now_ms())
        pulse = self.dashboard.pulse
        pulse.take_sets(found.sets)
        pulse.take_set_findings(found.sets, found.findings)
        found, changes = self._own(found), pulse.set_changes
        moves = {str(one.number): one for one in changes.newest_first() if self._is_own(one.broker_name)}
        self.show(self._advice(found), found.rows, moves, changes.since_ms)

    def _is_own(self, name: str) -> bool:
        return self._broker_name in (None, name, name.partition("/")[0])

    def _own(self, found: ReadSets) -> ReadSets:
        return ReadSets(
            [one for one in found.sets if self._is_own(one.broker_name)],
            {key: row for key, row in found.rows.items() if self._is_own(row.of_set.broker_name)},
            [one for one in found.findings if self._is_own(one.subject.name)],
        )

    def _advice(self, found: ReadSets) -> list[Content]:
        """The sets without a master and for how long, then each problem with its remedy, in the words of `doctor`."""
        lines = []
        for one in found.sets:
            without_ms = self.dashboard.pulse.set_changes.without_master_ms(one.broker_name, self.now_ms())
            if without_ms is not None:
                text = f"{one.broker_name} has had no master for {elapsed(without_ms)}"
                lines.append(Content.styled(text, "bold $text-error"))
        lines += finding_lines(found.findings[:FINDINGS_SHOWN_MAX], are_named=True)
        if len(found.findings) > FINDINGS_SHOWN_MAX:
            left = len(found.findings) - FINDINGS_SHOWN_MAX
            lines.append(Content(f"and {left} more: rmqadmin doctor --quick"))
        return lines or [_no_problem(found)]

    def rows_text(self) -> str:
        names = {self.map.part(key).of_set.broker_name for key in self.map.row_keys()}
        return f"{counted(len(names), 'set')}, {counted(self.map.all_count, 'broker')}" if names else "sets unknown"

    def selected(self) -> dict[str, str]:
        row: SetRow | None = self.map.chosen
        if row is None:
            return {}
        of_set, addr = row.of_set, row.member.broker_addr
        controllers = {"HOST:PORT[;...]": of_set.controller_addrs} if of_set.controller_addrs else {}
        return {"HOST:PORT": addr, "BROKER": of_set.broker_name, "CLUSTER": of_set.cluster, **controllers}


def _no_problem(found: ReadSets) -> Content:
    """What can be said if nothing is known to be wrong. Nothing is known of a single broker that does not answer."""
    silent_count = sum(row.member.error is not None for row in found.rows.values())
    if silent_count:
        count = counted(len(found.rows), "broker")
        return Content.styled(f"unknown: {silent_count:,} of {count} cannot be asked", "$text-warning")
    if not found.sets:
        return Content("the name server knows no broker")
    return Content(f"every set has its master, and {in_sync_text(found.sets)}")


OWNER_MARKS = {QueueState.UNOWNED: Mark.BAD, QueueState.SHARED: Mark.BAD, QueueState.UNKNOWN: Mark.WARN}
"""By how a queue of a group is owned."""


class OwnedRow(msgspec.Struct, frozen=True):
    """``owned`` is the queue's ownership as seen over time; None until every member has reported its queues."""

    queue: MessageQueue
    state: QueueState
    owners: tuple[str, ...]
    owned: OwnedQueue | None

    @property
    def since_ms(self) -> int | None:
        """When the owner got the queue; 0 if that was before the first reading."""
        return None if self.owned is None else self.owned.since_ms or 0

    @property
    def before(self) -> str | None:
        if self.owned is None or self.owned.before is None:
            return None
        return names_told(self.owned.before) or "nobody"


class RebalanceScreen(MapScreen):
    """The owner of each queue of a group, and its previous owner."""

    file_name = "rebalance"
    ANSWER_WAIT_MAX_S = MEMBER_WAIT_MAX_S

    def __init__(self, facts: GroupFacts):
        super().__init__()
        self._facts = facts
        self._state: GroupState | None = None

    def findings(self) -> Sequence[Finding]:
        """None: all of them stand in the advice."""
        return ()

    def map_columns(self) -> list[Column]:
        return [
            Column(name="topic", value=lambda row: row.queue.topic),
            Column(name="broker_name", value=lambda row: row.queue.broker_name, importance=MINOR),
            Column(name="queue_id", value=lambda row: row.queue.queue_id, is_number=True, importance=VITAL),
            Column(name="state", value=lambda row: row.state.value, mark=lambda row: OWNER_MARKS.get(row.state)),
            Column(name="owner", value=lambda row: names_told(row.owners) or None, importance=VITAL),
            Column(name="since_ms", words="since", form=self._since, is_time=True),
            Column(name="before", words="owner before", importance=MINOR),
        ]

    def _since(self, since_ms: int | None) -> str:
        if not since_ms:
            return UNKNOWN if since_ms is None else "the first look"
        return age(since_ms, self.now_ms())

    def move_columns(self) -> list[Column]:
        return [
            Column(name="at_ms", words="when", form=clock, importance=VITAL),
            Column(name="queue", value=lambda move: groups.key_of(move.queue), is_name=True),
            Column(name="text", words="from whom to whom", value=QueueMove.text, shape=Shape.PROSE, importance=VITAL),
        ]

    def least_s(self) -> float:
        return members_interval_s(self._state)

    async def _refresh(self, feed: Feed) -> None:
        state = self._state = await feed.ask(groups.read_state, self.dashboard.memory, self._facts)
        feed.problems = [*lacks_text(state.lacks), *([state.error] if state.error else [])]
        pulse, owners = self.dashboard.pulse, state.owners
        if owners is None:
            return
        pulse.groups.take_members(self._facts.group, state)
        seen = pulse.groups.rebalances(self._facts.group)
        rows = {
            groups.key_of(queue): OwnedRow(queue, owners.state(queue), tuple(sorted(names)), seen.queues.get(queue))
            for queue, names in owners.queues.items()
        }
        self.map.say_when_empty("no queue has an owner")
        moves = {str(len(seen.moves) - at): move for at, move in enumerate(reversed(seen.moves))}
        self.show(self._advice(state, owners, seen), rows, moves, seen.since_ms)

    def _advice(self, state: GroupState, owners: QueueOwners, seen: Rebalances) -> list[Content]:
        """The current or last rebalance, then each problem with its remedy, in the words of `doctor`."""
        lines = []
        if seen.begun_ms is not None:
            lines.append(Content.styled(f"rebalancing for {elapsed(self.now_ms() - seen.begun_ms)}", "$text-warning"))
        elif seen.done:
            lines.append(literal(f"{clock(seen.done[-1].ended_ms)}: {seen.done[-1].text()}"))
        lines += finding_lines(list(members_findings(self._facts.group, owners)))
        return lines or [Content("every queue has its member" if owners.members else state.nobody_text())]

    def selected(self) -> dict[str, str]:
        row: OwnedRow | None = self.map.chosen
        return {"GROUP": self._facts.group, **({} if row is None else of_queue(row.queue))}

    def rows_text(self) -> str:
        if self.map.all_count:
            return counted(self.map.all_count, "queue")
        return "no owners" if self.has_answer else "queues unknown"
