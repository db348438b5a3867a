"""Which brokers are alive, by their heartbeats (904) and the connections on which these came
(``BrokerHeartbeatManager`` of 5.5.0). Kept only in memory: after a start no broker is known to live until its first
heartbeat."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rmqproto.headers.nameserver import BrokerHeartbeatHeader
from rmqserver.controller.decision import Standing

HEARTBEAT_TIMEOUT_MS = 10_000
"""For a broker that does not name its own; also the default of Apache's brokers."""

_TIMEOUT_MIN_MS, _TIMEOUT_MAX_MS = 100, 600_000

ReplicaKey = tuple[str, int]
"""Broker name and id."""


class _Life(NamedTuple):
    """A heartbeat, the time when it expires, the connection on which it came, and whether the broker waits for the
    answer."""

    standing: Standing
    ends_s: float
    connection: object
    has_lease: bool


class LiveBrokers:
    def __init__(self, clock_s: Callable[[], float]):
        self._clock_s = clock_s
        self._lives: dict[ReplicaKey, _Life] = {}
        self.settle_anew()

    def settle_anew(self) -> None:
        """For one heartbeat time-out from now, a broker without a heartbeat may still be alive."""
        self._settles_s = self._clock_s() + HEARTBEAT_TIMEOUT_MS / 1000

    @property
    def is_settled(self) -> bool:
        """Whether every living broker has been heard from: one heartbeat time-out has passed since the start, or since
        a standstill of the controller."""
        return self._clock_s() >= self._settles_s

    def heard(self, broker_id: int, beat: BrokerHeartbeatHeader, connection: object, *, has_lease: bool) -> None:
        """The newest heartbeat counts, even if the log has become shorter. ``has_lease``: the broker takes the answer
        for its lease, as ours do."""
        timeout_ms = min(max(beat.heartbeat_timeout_mills or HEARTBEAT_TIMEOUT_MS, _TIMEOUT_MIN_MS), _TIMEOUT_MAX_MS)
        usual = Standing()
        standing = Standing(
            usual.epoch if beat.epoch is None else beat.epoch,
            usual.max_offset if beat.max_offset is None else beat.max_offset,
            usual.priority if beat.election_priority is None else beat.election_priority,
            beat.takes_messages is not False,
        )
        ends_s = self._clock_s() + timeout_ms / 1000
        self._lives[beat.broker_name, broker_id] = _Life(standing, ends_s, connection, has_lease)

    def has_lease(self, key: ReplicaKey) -> bool:
        """Whether the broker is alive, and has a lease while it is the master."""
        life = self._lives.get(key)
        return life is not None and life.has_lease and life.ends_s >= self._clock_s()

    def forget(self, key: ReplicaKey) -> None:
        """Forgets a broker that is dead, or is starting again."""
        self._lives.pop(key, None)

    def heard_on(self, connection: object) -> list[ReplicaKey]:
        """Brokers whose newest heartbeat came on that connection."""
        return [key for key, life in self._lives.items() if life.connection is connection]

    def is_heard_on(self, key: ReplicaKey, connection: object) -> bool:
        """Whether the broker's newest heartbeat came on that connection. False also if the broker is dead."""
        life = self._lives.get(key)
        return life is not None and life.connection is connection

    def expired(self) -> list[ReplicaKey]:
        """Returns, only once, each broker whose newest heartbeat has expired: it is dead."""
        now_s = self._clock_s()
        return self._remove([key for key, life in self._lives.items() if life.ends_s < now_s])

    def _remove(self, keys: list[ReplicaKey]) -> list[ReplicaKey]:
        for key in keys:
            del self._lives[key]
        return keys

    def alive(self) -> dict[ReplicaKey, Standing]:
        now_s = self._clock_s()
        return {key: life.standing for key, life in self._lives.items() if life.ends_s >= now_s}
