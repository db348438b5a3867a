"""What a connection is at, as one value, and every way in which that changes. What epoll waits for follows from the
value alone, so no two places can disagree about it, and none can forget it. Also the limits for one connection, and
for all connections from one address."""

from __future__ import annotations

import select
from enum import Enum, auto
from typing import Protocol

UNREAD_MAX_BYTES = 64 << 20
"""Default if no setting says otherwise: four frames of the largest size."""


class ConnectionLimits(Protocol):
    """A server's settings; they may change while it runs. 0 means no limit."""

    @property
    def max_connections_per_address(self) -> int:
        """A connection past the limit is closed as soon as it comes."""
        ...

    @property
    def max_requests_in_flight_per_connection(self) -> int:
        """Requests without an answer yet. Only connections made while this was not 0 are counted."""
        ...

    @property
    def max_received_bytes_per_connection(self) -> int:
        """Bytes of requests that are not served yet: the start of one, or several that must wait. Past it, the
        connection is closed."""
        ...

    @property
    def max_unread_bytes_per_connection(self) -> int:
        """Bytes of answers that the peer does not read; never 0. Past it, the connection is closed."""
        ...


class NoLimits:
    """The default of a service that sets no limits."""

    max_connections_per_address = 0
    max_requests_in_flight_per_connection = 0
    max_received_bytes_per_connection = 0
    max_unread_bytes_per_connection = UNREAD_MAX_BYTES


class State(Enum):
    READING = auto()
    """Requests are read and handled as they come."""
    STOPPED = auto()
    """Enough is queued: what it holds is handled in the next turn, and only then is it read again."""
    RESTING = auto()
    """It wants too much: nothing is read and nothing handled until its rest ends."""
    UNREAD = auto()
    """The peer does not read its answers: nothing is read or handled until it has got all of them."""
    UNREAD_STOPPED = auto()
    UNREAD_RESTING = auto()
    CLOSED = auto()


class Event(Enum):
    STOP = auto()
    """Enough is queued for one turn."""
    GO_ON = auto()
    """Its next turn has come."""
    REST = auto()
    REST_ENDED = auto()
    BLOCKED = auto()
    """The kernel takes no more bytes for the peer."""
    DRAINED = auto()
    """The kernel has taken all bytes for the peer."""


CHANGES: dict[State, dict[Event, State]] = {
    State.READING: {
        Event.STOP: State.STOPPED,
        Event.REST: State.RESTING,
        Event.BLOCKED: State.UNREAD,
    },
    State.STOPPED: {
        Event.STOP: State.STOPPED,
        Event.GO_ON: State.READING,
        Event.REST: State.RESTING,
        Event.BLOCKED: State.UNREAD_STOPPED,
    },
    State.RESTING: {
        Event.STOP: State.RESTING,
        Event.REST: State.RESTING,
        Event.REST_ENDED: State.STOPPED,
        Event.BLOCKED: State.UNREAD_RESTING,
    },
    State.UNREAD: {
        Event.STOP: State.UNREAD_STOPPED,
        Event.REST: State.UNREAD_RESTING,
        Event.DRAINED: State.READING,
    },
    State.UNREAD_STOPPED: {
        Event.STOP: State.UNREAD_STOPPED,
        Event.REST: State.UNREAD_RESTING,
        Event.DRAINED: State.STOPPED,
    },
    State.UNREAD_RESTING: {
        Event.STOP: State.UNREAD_RESTING,
        Event.REST: State.UNREAD_RESTING,
        Event.REST_ENDED: State.UNREAD_STOPPED,
        Event.DRAINED: State.RESTING,
    },
    State.CLOSED: dict.fromkeys(Event, State.CLOSED),
}
"""An event that a state does not have here would be a mistake of ours."""

RESTS = frozenset({State.RESTING, State.UNREAD_RESTING})
UNREADS = frozenset({State.UNREAD, State.UNREAD_STOPPED, State.UNREAD_RESTING})
HOLDS = RESTS | {State.STOPPED, State.UNREAD_STOPPED}
"""It may hold whole frames, and handles none."""

NOTHING = select.EPOLLET
"""Events of a connection that is not served for now. The end of its peer is always an event, and comes only once by
this: as a level, it would be there in each round."""


def mask(state: State, *, is_paused: bool) -> int:
    """The events that epoll waits for. ``is_paused``: its service reads nothing for now."""
    if state in UNREADS:
        return select.EPOLLOUT
    return NOTHING if is_paused or state in RESTS else select.EPOLLIN
