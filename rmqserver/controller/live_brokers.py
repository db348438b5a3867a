"""Who is alive: heartbeats of brokers (904), and the connections on which they came (``BrokerHeartbeatManager`` of
5.5.0). In memory alone: after a start nobody is known to live until he has been heard of."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rmqproto.headers.nameserver import BrokerHeartbeatHeader
from rmqserver.controller.decision import Standing

HEARTBEAT_TIMEOUT_MS = 10_000
"""Of a broker that does not say its own, and of Apache's brokers unless they are told otherwise."""

_TIMEOUT_MIN_MS, _TIMEOUT_MAX_MS = 100, 600_000

ReplicaKey = tuple[str, int]
"""Broker name and id."""


class _Life(NamedTuple):
    """A heartbeat, when it is too old, and on what it came."""

    standing: Standing
    ends_s: float
    connection: object


class LiveBrokers:
    def __init__(self, clock_s: Callable[[], float]):
        self._clock_s = clock_s
        self._lives: dict[ReplicaKey, _Life] = {}
        self.settle_anew()

    def settle_anew(self) -> None:
        """Whoever is not heard of may live all the same, for one heartbeat time-out from now."""
        self._settles_s = self._clock_s() + HEARTBEAT_TIMEOUT_MS / 1000

    @property
    def is_settled(self) -> bool:
        """Whoever lives has been heard of: one heartbeat time-out has passed since the start, or since we stood
        still."""
        return self._clock_s() >= self._settles_s

    def heard(self, broker_id: int, beat: BrokerHeartbeatHeader, connection: object) -> None:
        """What is newer counts, also if the log has become shorter."""
        timeout_ms = min(max(beat.heartbeat_timeout_mills or HEARTBEAT_TIMEOUT_MS, _TIMEOUT_MIN_MS), _TIMEOUT_MAX_MS)
        usual = Standing()
        standing = Standing(
            usual.epoch if beat.epoch is None else beat.epoch,
            usual.max_offset if beat.max_offset is None else beat.max_offset,
            usual.priority if beat.election_priority is None else beat.election_priority,
        )
        self._lives[beat.broker_name, broker_id] = _Life(standing, self._clock_s() + timeout_ms / 1000, connection)

    def forget(self, key: ReplicaKey) -> None:
        """It is dead, or begins another life."""
        self._lives.pop(key, None)

    def heard_on(self, connection: object) -> list[ReplicaKey]:
        """Whose newest heartbeats came on that connection."""
        return [key for key, life in self._lives.items() if life.connection is connection]

    def is_heard_on(self, key: ReplicaKey, connection: object) -> bool:
        """False if it is dead by now, too."""
        life = self._lives.get(key)
        return life is not None and life.connection is connection

    def expired(self) -> list[ReplicaKey]:
        """Who has not been heard of for too long is dead, and is returned once."""
        now_s = self._clock_s()
        return self._remove([key for key, life in self._lives.items() if life.ends_s < now_s])

    def _remove(self, keys: list[ReplicaKey]) -> list[ReplicaKey]:
        for key in keys:
            del self._lives[key]
        return keys

    def alive(self) -> dict[ReplicaKey, Standing]:
        now_s = self._clock_s()
        return {key: life.standing for key, life in self._lives.items() if life.ends_s >= now_s}
