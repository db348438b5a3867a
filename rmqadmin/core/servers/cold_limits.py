"""How much of a broker's cold data a group may read: plans setting and removing the group's own limit, on one
broker."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rmqadmin.core.changes import KEEP, Step, action, differences

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient

_FIELD = "limit_bytes"


def plan_cold_limit(admin: AdminClient, addr: str, group: str, limit_bytes: int | None) -> Step:
    """Plans a limit. None removes it, so that the limit of all groups applies again."""
    before = admin.cold_data_flow(addr).config_table.get(group)
    changes = differences(*({} if value is None else {_FIELD: value} for value in (before, limit_bytes)))
    where = ["-b", addr, "-g", group]
    back = (
        ["removeColdDataFlowCtrGroupConfig", *where]
        if before is None
        else ["updateColdDataFlowCtrGroupConfig", *where, "-v", str(before)]
    )
    if limit_bytes is None:
        return Step(addr, "delete" if changes else KEEP, changes, partial(admin.remove_cold_limit, addr, group), [back])
    return Step(addr, action(before, changes), changes, partial(admin.set_cold_limit, addr, group, limit_bytes), [back])
