"""What several screens share: how to ask for and mark the assignment of a group's queues, and what is sampled of a
group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqadmin.core.health.finding import in_order
from rmqadmin.core.health.group_checks import members_findings
from rmqadmin.core.tables.marks import BY_GRADE, Mark
from rmqadmin.tui.memory.readings import RowReading
from rmqproto.errors import NotFoundError

if TYPE_CHECKING:
    from rmqadmin.tui.dashboard_client import DashboardClient
    from rmqadmin.tui.memory.cluster import ClusterMemory
    from rmqadmin.tui.memory.readings import GroupState
    from rmqadmin.tui.sources.groups import GroupFacts, GroupNumbers

STATE = "state"
STATE_EVERY = 5
"""Every fifth refresh asks members for their queues: each question goes through a broker to a consumer."""


def state_mark(state: GroupState) -> Mark | None:
    if state.owners is None or not state.owners.members:
        return None
    worst = in_order(members_findings("", state.owners))
    return BY_GRADE[worst[0].grade] if worst else Mark.GOOD


def group_reading(numbers: GroupNumbers, now_ms: int) -> RowReading:
    """The numbers of a group that are sampled."""
    lag_ms = None if numbers.oldest_waiting_ms is None else max(0, now_ms - numbers.oldest_waiting_ms)
    return RowReading(
        {
            "lag_count": numbers.lag_count,
            "lag_ms": 0 if numbers.lag_count == 0 else lag_ms,
            "consume_tps": numbers.consume_tps,
        },
        numbers.lag_lacking,
    )


def read_group_row(client: DashboardClient, memory: ClusterMemory, facts: GroupFacts, now_ms: int) -> RowReading:
    """Reads the sampled numbers of one group. Called in a thread. NotFoundError if they are not known."""
    from rmqadmin.tui.sources import groups

    numbers = groups.read_numbers(client, memory, {facts.group: facts})[facts.group]
    if numbers.error is not None:
        raise NotFoundError(numbers.error)
    return group_reading(numbers, now_ms)
