"""The id that a replayed message carries: job and origin, so that it is the same on every attempt. It is in the
property ``REPLAY_ID``. The name is not a reserved one, because the broker's own tools refuse to change reserved
properties."""

from __future__ import annotations

from rmqproto.bodies.base import MessageQueue

REPLAY_ID = "REPLAY_ID"
REPLAY_ROUND = "REPLAY_ROUND"
"""How often a message was redriven, including this time."""


def replay_id(job: str, queue: MessageQueue, queue_offset: int) -> str:
    """``job:broker:topic:queueId:queueOffset`` of the origin."""
    return f"{job}:{queue.broker_name}:{queue.topic}:{queue.queue_id}:{queue_offset}"


def origin_of(text: str, job: str) -> tuple[MessageQueue, int] | None:
    """Source queue and queue offset of a replay id of ``job``; None for another job's id, or for a text that is no
    replay id."""
    if not text.startswith(job + ":"):
        return None
    parts = text[len(job) + 1 :].rsplit(":", 3)  # a broker name may contain a colon
    if len(parts) != 4 or not parts[2].isdecimal() or not parts[3].isdecimal():
        return None
    return MessageQueue(parts[1], parts[0], int(parts[2])), int(parts[3])
