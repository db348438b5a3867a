"""Which queue a message goes to (``MessageQueueSelector`` and ``MQFaultStrategy``, 5.5.0)."""

from __future__ import annotations

import itertools
import random
from bisect import bisect_right
from collections.abc import Callable, Sequence

from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import UsageError
from rmqproto.java.java_hash import place_by_hash

QueueSelector = Callable[[Sequence[MessageQueue], Message], MessageQueue]
"""Chooses one of a topic's queues. They are sorted by broker name and queue id, and all are there, even those whose
broker has no master at the moment, so that a fail-over changes no choice."""

LATENCY_MAX_MS = (50, 100, 550, 1800, 3000, 5000, 15000)
NOT_AVAILABLE_DURATION_MS = (0, 0, 2000, 5000, 6000, 10000, 30000)
"""For how long a broker is avoided whose send took that long."""

LATENCY_OF_FAILURE_MS = 10_000
"""What a send that failed counts as."""


def by_hash(key: str) -> QueueSelector:
    """All messages of a key to one queue, as Java's ``SelectMessageQueueByHash`` places the same text.
    UsageError if it is no text."""
    if not isinstance(key, str):
        raise UsageError(f"a key is a text, and {key!r} is none")
    return lambda queues, message: queues[place_by_hash(key, len(queues))]


def by_random(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
    return random.choice(queues)


class QueuesInTurn:
    """The choice for messages that may go anywhere. With ``avoids_slow_brokers`` (``sendLatencyFaultEnable``) a broker
    that was slow or failed is passed over for a while, as long as there is another."""

    def __init__(self, *, avoids_slow_brokers: bool, clock_s: Callable[[], float]):
        self._avoids_slow = avoids_slow_brokers
        self._clock_s = clock_s
        self._until_s: dict[str, float] = {}
        self._turn = itertools.count(random.randrange(1 << 16))  # producers started together use different queues

    def next(self, queues: Sequence[MessageQueue], failed_broker: str | None) -> MessageQueue:
        """The next queue in turn, if possible on a good broker, else on another than ``failed_broker``."""
        now_s = self._clock_s() if self._avoids_slow else 0.0
        second = None
        for _ in queues:
            queue = queues[next(self._turn) % len(queues)]
            if queue.broker_name != failed_broker:
                if self._until_s.get(queue.broker_name, 0.0) <= now_s:
                    return queue
                second = second or queue
        return second or queues[next(self._turn) % len(queues)]

    def took(self, broker_name: str, began_s: float, *, has_failed: bool = False) -> None:
        """Notes how long a send to that broker took, which ends now."""
        if self._avoids_slow:
            now_s = self._clock_s()
            latency_ms = LATENCY_OF_FAILURE_MS if has_failed else (now_s - began_s) * 1000
            step = bisect_right(LATENCY_MAX_MS, latency_ms) - 1
            avoided_ms = NOT_AVAILABLE_DURATION_MS[step] if step >= 0 else 0
            self._until_s[broker_name] = now_s + avoided_ms / 1000
