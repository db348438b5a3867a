"""How a group's queues are assigned: the owner of each, its previous owner, problems and their remedies, and what has
changed while the dashboard ran."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from rmqadmin.core.groups.queue_owners import QueueState
from rmqadmin.core.groups.rebalances import OwnedQueue, QueueMove, Rebalances
from rmqadmin.core.health.group_checks import members_findings
from rmqadmin.core.results import Shape
from rmqadmin.core.tables.marks import Mark
from rmqadmin.core.units import UNKNOWN, age, clock, elapsed, unchanged_text
from rmqadmin.tui.memory.readings import GroupState
from rmqadmin.tui.refresh import Feed
from rmqadmin.tui.screens.base import DashboardScreen
from rmqadmin.tui.screens.selected import of_queue
from rmqadmin.tui.sources import groups
from rmqadmin.tui.sources.found import lacks_text
from rmqadmin.tui.sources.groups import MEMBER_WAIT_MAX_S, GroupFacts
from rmqadmin.tui.widgets.advice import Advice
from rmqadmin.tui.widgets.tables.columns import MINOR, VITAL, Column
from rmqadmin.tui.widgets.tables.row_table import RowTable
from rmqproto.bodies.base import MessageQueue
from rmqproto.wording import counted

_MARKS = {QueueState.UNOWNED: Mark.BAD, QueueState.SHARED: Mark.BAD, QueueState.UNKNOWN: Mark.WARN}


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
        return ", ".join(self.owned.before) or "nobody"


class RebalanceScreen(DashboardScreen):
    file_name = "rebalance"
    AUTO_FOCUS = "#map"

    def __init__(self, facts: GroupFacts):
        super().__init__()
        self._facts = facts
        now_ms = lambda: self.dashboard.now_ms()  # noqa: E731 - looked up later: the screen has no app yet
        self.map = RowTable(self._map_columns(), id="map", opens=False, now_ms=now_ms)
        self.moves = RowTable(self._move_columns(), id="moves", opens=False, now_ms=now_ms)

    def _map_columns(self) -> list[Column]:
        return [
            Column(name="topic", value=lambda row: row.queue.topic),
            Column(name="broker_name", value=lambda row: row.queue.broker_name, importance=MINOR),
            Column(name="queue_id", value=lambda row: row.queue.queue_id, is_number=True, importance=VITAL),
            Column(name="state", value=lambda row: row.state.value, mark=lambda row: _MARKS.get(row.state)),
            Column(name="owner", value=lambda row: ", ".join(row.owners) or None, importance=VITAL),
            Column(name="since_ms", words="since", form=self._since, is_time=True),
            Column(name="before", words="owner before", importance=MINOR),
        ]

    def _since(self, since_ms: int | None) -> str:
        if not since_ms:
            return UNKNOWN if since_ms is None else "the first look"
        return age(since_ms, self.dashboard.now_ms())

    def _move_columns(self) -> list[Column]:
        return [
            Column(name="at_ms", words="when", form=clock, importance=VITAL),
            Column(name="queue", value=lambda move: groups.key_of(move.queue), is_name=True),
            Column(name="text", words="from whom to whom", value=QueueMove.text, shape=Shape.PROSE, importance=VITAL),
        ]

    def body(self) -> Iterable[Widget]:
        yield Advice(id="advice")
        yield self.map
        yield Static("Changes", classes="caption", id="caption")
        yield self.moves

    def make_feeds(self) -> Sequence[Feed]:
        return [self.feed(self._refresh, answer_wait_max_s=MEMBER_WAIT_MAX_S)]

    async def _refresh(self, feed: Feed) -> None:
        state = await feed.ask(groups.read_state, self.dashboard.memory, self._facts)
        feed.problems = [*lacks_text(state.lacks), *([state.error] if state.error else [])]
        sampler, owners = self.dashboard.sampler, state.owners
        if sampler is None or owners is None:
            return
        sampler.pulse.groups.take_members(self._facts.group, state)
        seen = sampler.pulse.groups.rebalances(self._facts.group)
        rows = {
            groups.key_of(queue): OwnedRow(queue, owners.state(queue), tuple(sorted(names)), seen.queues.get(queue))
            for queue, names in owners.queues.items()
        }
        self.map.set_rows(rows.items())
        moves = reversed(seen.moves)
        self.map.say_when_empty("no queue has an owner")
        self.moves.say_when_empty(unchanged_text(seen.since_ms))
        self.moves.set_rows((str(len(seen.moves) - at), move) for at, move in enumerate(moves))
        self.query_one(Advice).show(self._advice(state, seen))
        self.query_one("#caption", Static).update(Content(f"Changes: {len(seen.moves):,}"))
        self.show_frame()

    def _advice(self, state: GroupState, seen: Rebalances) -> list[Content]:
        """The current or last rebalance, then each problem with its remedy, in the words of `doctor`."""
        owners, now_ms = state.owners, self.dashboard.now_ms()
        lines = []
        if seen.begun_ms is not None:
            lines.append(Content.styled(f"rebalancing for {elapsed(now_ms - seen.begun_ms)}", "bold $text-warning"))
        elif seen.done:
            lines.append(Content(f"{clock(seen.done[-1].ended_ms)}: {seen.done[-1].text()}"))
        for found in [] if owners is None else members_findings(self._facts.group, owners):
            line: list[Any] = [(found.what, "$text-error" if found.is_bad else "$text-muted")]
            if found.fix:
                line += ["  ", (found.fix, "$text-muted")]
            lines.append(Content.assemble(*line))
        if not lines and owners is not None:
            lines.append(Content("every queue has its member" if owners.members else state.nobody_text()))
        return lines

    def selected(self) -> dict[str, str]:
        key = self.map.cursor_key
        return {"GROUP": self._facts.group, **({} if key is None else of_queue(self.map.part(key).queue))}

    def rows_text(self) -> str:
        if self.map.all_count:
            return counted(self.map.all_count, "queue")
        return "no owners" if self.has_answer else "queues unknown"
