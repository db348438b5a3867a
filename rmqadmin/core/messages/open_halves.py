"""Half messages whose transaction has not ended, by topic and producer group: those of a broker's half topic that no op
message names (``TransactionalMessageBridge``, 5.5.0). Reading them moves nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.messages.queue_reading import QueuePlace, pulls
from rmqadmin.core.results import TIME, Row, doc
from rmqproto.bodies.base import MessageQueue
from rmqproto.message import properties as props
from rmqproto.message.half_message import check_times, ended_in
from rmqproto.names import TRANSACTION_GROUP, TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC

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
    """The rows of one broker, and whether these are all: of a longer queue only
    READ_MAX messages are looked at."""
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
    """What the broker has not dealt with of a topic's only queue, READ_MAX messages of it at most, and whether that is
    all."""
    committed = admin.consumer_offset(broker_addr, TRANSACTION_GROUP, topic, 0) or 0
    begin = max(committed, admin.min_offset(broker_addr, topic, 0))
    end = admin.max_offset(broker_addr, topic, 0)
    read_to = min(end, begin + READ_MAX)
    return QueuePlace(MessageQueue(topic, broker_name, 0), broker_addr, begin, read_to), read_to == end


def _messages(admin: AdminClient, place: QueuePlace) -> Iterator[FoundMessage]:
    return (message for pull in pulls(admin, place, is_exact=True) for message in pull.messages)
