"""Listening sockets, and the error if a port is not available."""

from __future__ import annotations

import socket

from rmqproto.errors import UsageError


def open_listener(host: str, port: int, backlog: int, *, what_for: str = "", hint: str) -> socket.socket:
    """A listener, which the caller closes; port 0 takes any free one. UsageError if the port is not available."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=backlog)
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"cannot listen{what_for} on {host}:{port}: {reason}", hint=hint) from None
