"""The queue that a message of a file or a line goes to."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from rmqadmin.core.messages.files.exported_message import ExportedMessage
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import UsageError

_NAMED_QUEUES_MAX = 16


def queues_for(found: ExportedMessage, queues: Sequence[MessageQueue]) -> Sequence[MessageQueue]:
    """Those of a topic's writable queues to which the message may go, each as good as the other: the one that it names,
    by broker, number or both, and all if it names none. A message that was stored before goes where all of its old
    queue go, whether the topic has that queue or not. UsageError for one that was written by hand and names a queue
    that is not there."""
    broker_name, queue_id = found.broker_name, found.queue_id
    named = [
        queue for queue in queues
        if broker_name in (None, queue.broker_name) and queue_id in (None, queue.queue_id)
    ]  # fmt: skip
    if named:
        return named
    if was_stored(found):
        return [queues[(zlib.crc32((broker_name or "").encode()) + (queue_id or 0)) % len(queues)]]
    there = ", ".join(f"{queue.broker_name}:{queue.queue_id}" for queue in queues[:_NAMED_QUEUES_MAX])
    place = ", ".join(
        f"{name} {value}" for name, value in (("broker_name", broker_name), ("queue_id", queue_id)) if value is not None
    )
    raise UsageError(f"there is no queue with {place}", hint=f"Queues of {queues[0].topic}: {there}.")


def was_stored(found: ExportedMessage) -> bool:
    """Whether the line is of a stored message, and not one that somebody wrote."""
    return found.queue_offset is not None
