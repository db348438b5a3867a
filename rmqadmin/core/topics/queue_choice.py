"""``--queue``: the queues of a topic that a user names. The grammar is the same for messages and for offsets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import NotFoundError, UsageError
from rmqproto.java.whole_numbers import whole_number

_NAMED_QUEUES_MAX = 16


def chosen_queues(texts: Iterable[str], queues: Sequence[MessageQueue]) -> set[MessageQueue]:
    """Those of ``queues`` that are named: ``QUEUE``, on every broker, or ``BROKER:QUEUE``. UsageError for another text;
    NotFoundError for a queue that is not among them."""
    return {queue for text in texts for queue in _named(text, queues)}


def _named(text: str, queues: Sequence[MessageQueue]) -> list[MessageQueue]:
    broker_name, _, number = text.rpartition(":")
    queue_id = whole_number(number)
    if queue_id is None:
        raise UsageError(f"--queue {text} is neither QUEUE nor BROKER:QUEUE")
    found = [queue for queue in queues if queue.queue_id == queue_id and broker_name in ("", queue.broker_name)]
    if not found:
        there = ", ".join(f"{queue.broker_name}:{queue.queue_id}" for queue in queues[:_NAMED_QUEUES_MAX])
        raise NotFoundError(f"--queue {text}: there is no such queue", hint=f"Its queues: {there}.")
    return found
