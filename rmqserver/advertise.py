"""Listening sockets, and where peers find the broker: the address that is registered with nameservers and stored with
messages."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass

from rmqproto.errors import UsageError
from rmqproto.hosts import join
from rmqproto.message.record import host_bytes

_WILDCARDS = ("", "0.0.0.0", "::")
_ELSEWHERE = ("192.0.2.1", 9)
"""An address reserved for documentation. "Connecting" a datagram socket to it sends nothing, and shows which of our
addresses reaches the outside world."""


def local_host(listen: str) -> str:
    """Where a process on this machine reaches a listener."""
    if listen not in _WILDCARDS:
        return listen
    return "::1" if ":" in listen else "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Advertise:
    """``host`` None: the address on which a peer reached us. ``port`` is the listener's, or the one mapped to it."""

    listen: str
    port: int
    host: str | None = None

    def addr(self, local: str) -> str:
        """The address to register. ``local`` is our end of the connection to the nameserver.

        A nameserver on this machine is reached by loopback. Clients elsewhere, which a wildcard listener admits, could
        not use that address.
        """
        if self.host is not None:
            return join(self.host, self.port)
        if self.listen not in _WILDCARDS:
            return join(self.listen, self.port)
        return join(_outward_host(local) if ipaddress.ip_address(local).is_loopback else local, self.port)

    @property
    def is_each_peers_own(self) -> bool:
        """Whether a peer should be told the address on which it reached us: we listen on all of them."""
        return self.host is None and self.listen in _WILDCARDS

    def record_host(self) -> bytes | None:
        """The store host of all messages, or None if it depends on the connection. UsageError for a name without an
        address."""
        if self.host is None:
            return None
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise UsageError(f"--advertise {self.host}: {error.strerror or error}") from None
        by_family = {family: sockaddr[0] for family, _, _, _, sockaddr in reversed(found)}
        address = by_family.get(socket.AF_INET) or next(iter(by_family.values()))  # every client can read IPv4
        return host_bytes(str(address), self.port)


def _outward_host(fallback: str) -> str:
    family = socket.AF_INET6 if ":" in fallback else socket.AF_INET
    if family == socket.AF_INET6:
        return fallback  # no IPv6 block is routed everywhere: --advertise must name the address
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ELSEWHERE)
        except OSError:  # there is no network but loopback
            return fallback
        return str(probe.getsockname()[0])


def open_listener(host: str, port: int, backlog: int, *, what_for: str = "", hint: str) -> socket.socket:
    """A listener, which the caller closes; port 0 takes any free one. UsageError if the port is not available."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=backlog)
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        reason, *_ = reason.partition(" (while ")  # the address is not told twice
        raise UsageError(f"cannot listen{what_for} on {host}:{port}: {reason}", hint=hint) from None
