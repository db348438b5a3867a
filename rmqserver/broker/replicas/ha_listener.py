"""The port where slaves connect. As with Apache's brokers, the traffic is neither encrypted nor authenticated, so the
port must be reachable only by brokers."""

from __future__ import annotations

import socket

from rmqproto.errors import UsageError
from rmqserver.remoting.listening import open_listener

BACKLOG = 16


def open_ha_listener(host: str, port: int | None, usual_port: int) -> socket.socket:
    """A listener on ``port``, or, if that is None, on ``usual_port`` or any free port. Raises UsageError if the port
    cannot be used. The caller closes the listener."""
    if port is not None:
        return _listener(host, port)
    try:
        return _listener(host, usual_port)
    except UsageError:
        return _listener(host, 0)


def _listener(host: str, port: int) -> socket.socket:
    hint = "choose another haListenPort, or leave it out"
    return open_listener(host, port, BACKLOG, what_for=" for slaves", hint=hint)
