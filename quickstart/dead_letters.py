"""Dead letters in their topic: how many, and which rows."""

from __future__ import annotations

from collections import Counter

from quickstart.broker import ReadyLine
from quickstart.flights import row_of
from rmqclient.admin import AdminClient
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError
from rmqproto.names import dlq_topic


def dead_letter_count(broker: ReadyLine, group: str) -> int:
    """How many dead letters a group has; 0 without a dead-letter topic."""
    with AdminClient(broker.namesrv_addr) as admin:
        try:
            queues = admin.topic_stats(broker.broker_addr, dlq_topic(group)).offset_table
        except RefusedError as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                return 0
            raise
    return sum(queue.max_offset - queue.min_offset for queue in queues.values())


def dead_letter_rows(broker: ReadyLine, group: str) -> Counter[int]:
    """How often each row is among the group's dead letters."""
    rows: Counter[int] = Counter()
    if dead_letter_count(broker, group) == 0:
        return rows
    with AdminClient(broker.namesrv_addr) as admin:
        for queue, ends in admin.topic_stats(broker.broker_addr, dlq_topic(group)).offset_table.items():
            queue_offset = ends.min_offset
            while queue_offset < ends.max_offset:
                pulled = admin.pull_message(broker.broker_addr, queue, queue_offset)
                rows.update(row_of(message.properties.get("KEYS")) for message in pulled.messages)
                queue_offset = pulled.next_begin_offset
    return rows
