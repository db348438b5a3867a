"""What one connection, and all connections of one address, may take of a service."""

from __future__ import annotations

from typing import Protocol

UNREAD_MAX_BYTES = 64 << 20
"""Unless a setting says something else: four frames of the largest size."""


class ConnectionLimits(Protocol):
    """A server's settings; they may change while it runs. 0 is no limit."""

    @property
    def max_connections_per_address(self) -> int:
        """One more is closed as soon as it has come."""
        ...

    @property
    def max_requests_in_flight_per_connection(self) -> int:
        """Of which no answer was given yet. Connections are counted that were made while it was not 0."""
        ...

    @property
    def max_received_bytes_per_connection(self) -> int:
        """Of requests that are not served yet: the beginning of one, or several that must wait. With more the
        connection is closed."""
        ...

    @property
    def max_unread_bytes_per_connection(self) -> int:
        """Of answers that the peer does not read; never 0. With more the connection is closed."""
        ...


class NoLimits:
    """Of a service that says nothing else."""

    max_connections_per_address = 0
    max_requests_in_flight_per_connection = 0
    max_received_bytes_per_connection = 0
    max_unread_bytes_per_connection = UNREAD_MAX_BYTES
