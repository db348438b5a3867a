"""How a group's queues are shared out, as several screens ask for it and mark it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqadmin.core.tables.marks import Mark, sharing_mark

if TYPE_CHECKING:
    from rmqadmin.tui.sources.groups import GroupState

STATE = "state"
STATE_EVERY = 5
"""Members are asked for their queues at every fifth refresh: each question goes through a broker to a consumer."""

MEMBER_WAIT_MAX_S = 3.0
"""A member that takes longer is unknown. Its broker would wait 10 s for it."""


def state_mark(state: GroupState) -> Mark | None:
    return sharing_mark(state.summary())
