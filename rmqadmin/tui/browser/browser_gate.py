"""Decides which requests the dashboard server accepts: those with the token, from a page of this server.

The token keeps out other users of the machine and other pages in the user's browser. The Host header is also checked: a
foreign page may point its own name at this machine (DNS rebinding), so that the browser treats both as one origin. The
header still has the foreign name.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from collections.abc import Collection
from urllib.parse import urlsplit

_TOKEN_BYTES = 24
_LOOPBACK_NAMES = frozenset({"localhost", "localhost."})


class BrowserGate:
    """``token`` is the secret that a browser must send. ``names`` are the server's names, apart from addresses and
    localhost."""

    def __init__(self, names: Collection[str] = ()):
        self.token = secrets.token_urlsafe(_TOKEN_BYTES)
        self._names = _LOOPBACK_NAMES | {name.lower() for name in names if name}

    def refusal(self, host: str | None, origin: str | None) -> str | None:
        """Why a request with these headers is refused; None if it is not. Browsers always send the origin of a
        websocket, so a request without one is not from a browser."""
        if not self._is_own(host):
            return f"This server is not called {host!r}."
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            return f"A page of {origin!r} may not speak to this server."
        return None

    def knows(self, token: str | None) -> bool:
        """Whether this is the token. Compares in constant time for tokens of one length."""
        return token is not None and hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())

    def _is_own(self, host: str | None) -> bool:
        """Whether ``host`` is this server. Addresses are accepted, because DNS cannot redirect them."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in self._names or _is_address(name)


def machine_names() -> set[str]:
    """The names of this machine."""
    name = socket.gethostname()
    return {name, socket.getfqdn(name)}


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
