"""How findings name things."""

from __future__ import annotations

from collections.abc import Mapping

from rmqproto.names import LIGHT_QUEUE_PREFIX
from rmqproto.wording import counted
from rmqserver.store.checks.looks.queue_check import LostMessages

QUEUES_NAMED_MAX = 3


def offsets(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first} to {last}"


def queues(lost: Mapping[tuple[str, int], LostMessages]) -> str:
    """``OrderTopic-3 offsets 5 to 9, OrderTopic-4 offset 7 and 2 more queues``."""
    named = [
        f"{topic}-{queue_id} offset{'' if each.count == 1 else 's'} "
        f"{offsets(each.first_queue_offset, each.last_queue_offset)}"
        for (topic, queue_id), each in lost.items()
    ]
    rest = len(named) - QUEUES_NAMED_MAX
    text = ", ".join(named[:QUEUES_NAMED_MAX])
    return f"{text} and {counted(rest, 'more queue')}" if rest > 0 else text


def message_count(lost: Mapping[tuple[str, int], LostMessages]) -> int:
    """Number of messages, each counted once: a light queue also has units of other topics' messages."""
    plain = sum(each.count for (topic, _), each in lost.items() if not topic.startswith(LIGHT_QUEUE_PREFIX))
    return plain or sum(each.count for each in lost.values())
