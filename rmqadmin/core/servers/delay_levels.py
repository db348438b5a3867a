"""How far a broker is with its delayed messages, level by level, and with its timers."""

import re
from collections.abc import Mapping
from typing import Annotated

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.groups.lag_trend import KnownHeads, first_waiting_ms
from rmqadmin.core.results import DUE, Row, doc
from rmqadmin.core.servers.broker_state import Replica
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.statistics import ConsumeOffset, lag_of
from rmqproto.names import SCHEDULE_TOPIC
from rmqproto.times import parse_duration

_OFFSETS = re.compile(r"scheduleMessageOffset_(\d+)")


class DelayRow(Row, frozen=True):
    broker_name: Annotated[str, doc("broker name", key=True)]
    level: Annotated[int, doc("delay level, from 1", key=True)]
    delay_ms: Annotated[int | None, doc("how long it waits; unknown if the broker does not say")]
    waiting_count: Annotated[int | None, doc("messages that wait", vital=True)]
    due_ms: Annotated[int | None, DUE, doc("when the next is due", vital=True)]
    overdue_ms: Annotated[int | None, doc("for how long the next has been due; none if it is not due yet", vital=True)]


def delay_rows(admin: AdminClient, replica: Replica, now_ms: int, heads: KnownHeads | None = None) -> list[DelayRow]:
    """One row for each level that ever had a message, by what the broker said (``replica.info``) and its queues.
    ``heads``: messages that need not be read again."""
    config = admin.broker_config(replica.broker_addr, with_own_defaults=True)
    delays_ms = [parse_duration(one) for one in config.get("messageDelayLevel", "").split()]
    rows = []
    for level, entry in sorted(_levels(replica.info).items()):
        delay_ms = delays_ms[level - 1] if 0 < level <= len(delays_ms) else None
        queue = MessageQueue(SCHEDULE_TOPIC, replica.broker_name, level - 1)
        stored_ms = first_waiting_ms(admin, replica.broker_addr, queue, entry, heads)
        due_ms = None if stored_ms is None or delay_ms is None else stored_ms + delay_ms
        overdue_ms = None if due_ms is None or due_ms > now_ms else now_ms - due_ms
        rows.append(
            DelayRow(
                broker_name=replica.broker_name, level=level, delay_ms=delay_ms, waiting_count=lag_of(entry),
                due_ms=due_ms, overdue_ms=overdue_ms,
            )
        )  # fmt: skip
    return rows


def timers_text(info: Mapping[str, str]) -> str:
    """``timers: 1204 wait, 0 s behind, 12.0/s out``, by a broker's runtime information; empty if it has none."""
    names = ("timerCongestNum", "timerReadBehind", "timerDequeueTps")
    waiting, behind, out = (info.get(name) for name in names)
    if waiting is None or behind is None or out is None:
        return ""
    return f"timers: {waiting} wait, {behind} s behind, {out}/s out"


def _levels(info: Mapping[str, str]) -> dict[int, ConsumeOffset]:
    """By level, the next offset and the end of its queue: ``scheduleMessageOffset_3`` is ``17,20``."""
    found = {}
    for name, value in info.items():
        next_offset, _, end = value.partition(",")
        if (named := _OFFSETS.fullmatch(name)) and next_offset.isdecimal() and end.isdecimal():
            found[int(named[1])] = ConsumeOffset(consumer_offset=int(next_offset), broker_offset=int(end))
    return found
