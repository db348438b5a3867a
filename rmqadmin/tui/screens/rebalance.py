"""How a group's queues are assigned: the owner of each, its previous owner, problems and their remedies, and what has
changed while the dashboard ran."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from textual.content import Content

from rmqadmin.core.groups.queue_owners import QueueOwners, QueueState
from rmqadmin.core.groups.rebalances import OwnedQueue, QueueMove, Rebalances
from rmqadmin.core.health.finding import Finding
from rmqadmin.core.health.group_checks import members_findings
from rmqadmin.core.results import Shape
from rmqadmin.core.tables.marks import Mark
from rmqadmin.core.units import UNKNOWN, age, clock, elapsed
from rmqadmin.tui.literal import literal
from rmqadmin.tui.memory.readings import GroupState
from rmqadmin.tui.refresh import Feed
from rmqadmin.tui.screens.map_screen import MapScreen
from rmqadmin.tui.screens.selected import of_queue
from rmqadmin.tui.sources import groups
from rmqadmin.tui.sources.found import lacks_text
from rmqadmin.tui.sources.groups import MEMBER_WAIT_MAX_S, GroupFacts, members_interval_s
from rmqadmin.tui.widgets.detail import finding_lines
from rmqadmin.tui.widgets.tables.columns import MINOR, VITAL, Column
from rmqproto.bodies.base import MessageQueue
from rmqproto.wording import counted, names_told

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
        return names_told(self.owned.before) or "nobody"


class RebalanceScreen(MapScreen):
    file_name = "rebalance"

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
            Column(name="state", value=lambda row: row.state.value, mark=lambda row: _MARKS.get(row.state)),
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

    def make_feeds(self) -> Sequence[Feed]:
        return [self.feed(self._refresh, least_s=self._least_s, answer_wait_max_s=MEMBER_WAIT_MAX_S)]

    def interval_s(self) -> float | None:
        interval_s = super().interval_s()
        return None if interval_s is None else max(interval_s, self._least_s())

    def _least_s(self) -> float:
        return 0.0 if self._state is None else members_interval_s(self._state)

    async def _refresh(self, feed: Feed) -> None:
        state = self._state = await feed.ask(groups.read_state, self.dashboard.memory, self._facts)
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
