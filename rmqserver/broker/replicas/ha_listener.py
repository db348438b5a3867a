"""The port where slaves connect. What is sent there is plain, and neither side says who it is, as between Apache's
brokers: it belongs into a network of brokers only."""

from __future__ import annotations

import socket

from rmqproto.errors import UsageError
from rmqserver.remoting.listening import open_listener

BACKLOG = 16


def open_ha_listener(host: str, port: int | None, usual_port: int) -> socket.socket:
    """A listener on ``port``; UsageError if it cannot be had. None: on ``usual_port``, or any free one. The caller
    closes it."""
    if port is not None:
        return _listener(host, port)
    try:
        return _listener(host, usual_port)
    except UsageError:
        return _listener(host, 0)


def _listener(host: str, port: int) -> socket.socket:
    hint = "choose another haListenPort, or leave it out"
    return open_listener(host, port, BACKLOG, what_for=" for slaves", hint=hint)
