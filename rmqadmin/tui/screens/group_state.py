"""How a group's queues are shared out, as several screens ask for it and mark it, and what of a group they sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqadmin.core.tables.marks import Mark, sharing_mark
from rmqadmin.tui.memory.readings import RowReading
from rmqproto.errors import NotFoundError

if TYPE_CHECKING:
    from rmqadmin.tui.dashboard_client import DashboardClient
    from rmqadmin.tui.memory.cluster import ClusterMemory
    from rmqadmin.tui.sources.groups import GroupFacts, GroupNumbers, GroupState

STATE = "state"
STATE_EVERY = 5
"""Members are asked for their queues at every fifth refresh: each question goes through a broker to a consumer."""

MEMBER_WAIT_MAX_S = 3.0
"""A member that takes longer is unknown. Its broker would wait 10 s for it."""


def state_mark(state: GroupState) -> Mark | None:
    return sharing_mark(state.summary())


def group_reading(numbers: GroupNumbers, now_ms: int) -> RowReading:
    """What is sampled of a group."""
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
    """In a thread: what is sampled of one group. NotFoundError if that is not known."""
    from rmqadmin.tui.sources import groups

    numbers = groups.read_numbers(client, memory, {facts.group: facts})[facts.group]
    if numbers.error is not None:
        raise NotFoundError(numbers.error)
    return group_reading(numbers, now_ms)
