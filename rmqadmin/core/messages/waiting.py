"""What waits in a broker: delayed messages, level by level, timers, and half messages whose transaction has not ended:
those of its half topic that no op message names (``TransactionalMessageBridge``, 5.5.0). Reading them moves nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.groups.lag import KnownHeads, first_waiting_ms
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.messages.queue_reading import QueuePlace, pulls
from rmqadmin.core.results import DUE, TIME, Row, doc
from rmqadmin.core.servers.broker_state import Replica
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.statistics import ConsumeOffset, lag_of
from rmqproto.message import properties as props
from rmqproto.message.special_messages import check_times, ended_in
from rmqproto.names import SCHEDULE_TOPIC, TRANSACTION_GROUP, TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC
from rmqproto.times import parse_duration

READ_MAX = 10_000
"""How many half messages, and how many op messages, of a broker are looked at."""


class HalfRow(Row, frozen=True):
    broker_name: Annotated[str, doc("broker name", key=True)]
    topic: Annotated[str, doc("topic that they are for", key=True)]
    group: Annotated[str, doc("producer group", key=True)]
    open_count: Annotated[int, doc("half messages whose transaction has not ended", vital=True)]
    oldest_ms: Annotated[int, TIME, doc("when the first of them was sent", vital=True)]
    check_count: Annotated[int, doc("how often the broker has asked about one of them, at most", vital=True)]


def half_rows(admin: AdminClient, broker_name: str, broker_addr: str) -> tuple[list[HalfRow], bool]:
    """The rows of one broker, and whether these are all: READ_MAX messages are looked at."""
    halves, has_all = _place(admin, broker_name, broker_addr, TRANSACTION_HALF_TOPIC)
    ops, has_all_ops = _place(admin, broker_name, broker_addr, TRANSACTION_OP_TOPIC)
    ended = {offset for op in _messages(admin, ops) for offset in ended_in(op.stored)}
    found: dict[tuple[str, str], list[FoundMessage]] = {}
    for half in _messages(admin, halves):
        if half.stored.queue_offset not in ended:
            of = half.properties.get(props.REAL_TOPIC, ""), half.properties.get(props.PRODUCER_GROUP, "")
            found.setdefault(of, []).append(half)
    rows = [
        HalfRow(
            broker_name=broker_name, topic=topic, group=group, open_count=len(messages),
            oldest_ms=min(one.stored.born_timestamp_ms for one in messages),
            check_count=max(check_times(one.properties) for one in messages),
        )
        for (topic, group), messages in found.items()
    ]  # fmt: skip
    return rows, has_all and has_all_ops


def _place(admin: AdminClient, broker_name: str, broker_addr: str, topic: str) -> tuple[QueuePlace, bool]:
    """What is not dealt with of a topic's only queue, READ_MAX messages at most, and whether that is all."""
    committed = admin.consumer_offset(broker_addr, TRANSACTION_GROUP, topic, 0) or 0
    begin = max(committed, admin.min_offset(broker_addr, topic, 0))
    end = admin.max_offset(broker_addr, topic, 0)
    read_to = min(end, begin + READ_MAX)
    return QueuePlace(MessageQueue(topic, broker_name, 0), broker_addr, begin, read_to), read_to == end


def _messages(admin: AdminClient, place: QueuePlace) -> Iterator[FoundMessage]:
    return (message for pull in pulls(admin, place, is_exact=True) for message in pull.messages)


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
