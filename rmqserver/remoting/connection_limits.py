"""Limits of a service for one connection, and for all connections from one address."""

from __future__ import annotations

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
