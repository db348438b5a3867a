"""Which brokers are alive, by their heartbeats (904) and the connections on which these came
(``BrokerHeartbeatManager`` of 5.5.0). Kept only in memory: after a start no broker is known to live until its first
heartbeat."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import trio

from rmqproto.headers.nameserver import BrokerHeartbeatHeader
from rmqserver.controller.decision import Standing
from rmqserver.remoting.outward import open_stream

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
        keys = [key for key, life in self._lives.items() if life.ends_s < now_s]
        for key in keys:
            del self._lives[key]
        return keys

    def alive(self) -> dict[ReplicaKey, Standing]:
        now_s = self._clock_s()
        return {key: life.standing for key, life in self._lives.items() if life.ends_s >= now_s}


AGAIN_AFTER_S = 0.02
"""A broker that is being killed may still have its port for a moment."""

AGAIN_AFTER_MAX_S = 1.0


class LostConnections:
    """Finds out whether a broker whose connection has ended is dead; ``run`` is a task.

    It may have been killed: then its machine refuses connections to its port. Or a proxy, a translated address or a
    reset has ended the connection, and the broker lives, and acts as the master while its lease lasts. So only a
    refusal counts as its death. No answer, a frozen broker, or another program on its port prove nothing: its next
    heartbeat, or the heartbeat time-out, decides."""

    def __init__(self) -> None:
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        """Never returns."""
        try:
            async with trio.open_nursery() as self._nursery:
                await trio.sleep_forever()
        finally:
            self._nursery = None

    def look_after(self, where: Callable[[], str | None], on_dead: Callable[[], None]) -> None:
        """Starts probing the broker. ``where`` returns its address, or None once it is known in another way whether it
        lives. ``on_dead`` is called if its machine refuses the connection."""
        if self._nursery is not None:
            self._nursery.start_soon(self._look_after, where, on_dead)

    async def _look_after(self, where: Callable[[], str | None], on_dead: Callable[[], None]) -> None:
        pause_s = AGAIN_AFTER_S
        while (address := where()) is not None:
            if await is_refused(address) and where() == address:
                on_dead()
                return
            await trio.sleep(pause_s)
            pause_s = min(pause_s * 2, AGAIN_AFTER_MAX_S)


async def is_refused(address: str) -> bool:
    """Whether the machine refuses connections to that address. False if it is silent or cannot be reached."""
    try:
        stream = await open_stream(address)
    except OSError as error:
        return _is_refusal(error) or (error.__cause__ is not None and _is_refusal(error.__cause__))
    await stream.aclose()
    return False


def _is_refusal(error: BaseException) -> bool:
    """Whether this is a refusal, from every address of the name if there are several."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_refusal, error.exceptions))
    return isinstance(error, ConnectionRefusedError)
