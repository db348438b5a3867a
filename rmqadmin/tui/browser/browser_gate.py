"""Who may speak to the server of dashboards: somebody with the token, from a page of the server's own.

The token keeps out other users of the machine and other pages in the user's browser. The Host is checked as well: a
page elsewhere may have its own name lead to this machine (DNS rebinding), and its browser then takes it and the server
for one place. It still says the name.
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
    """``token``: what a browser must know. ``names``: what the server may be called beside its addresses and
    localhost."""

    def __init__(self, names: Collection[str] = ()):
        self.token = secrets.token_urlsafe(_TOKEN_BYTES)
        self._names = _LOOPBACK_NAMES | {name.lower() for name in names if name}

    def refusal(self, host: str | None, origin: str | None) -> str | None:
        """Why a request with these headers is refused; None if it is not. A browser always says the origin of a
        websocket, so one without any is no browser's."""
        if not self._is_own(host):
            return f"This server is not called {host!r}."
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            return f"A page of {origin!r} may not speak to this server."
        return None

    def knows(self, token: str | None) -> bool:
        """Takes as long for any token of a length."""
        return token is not None and hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())

    def _is_own(self, host: str | None) -> bool:
        """An address needs no look-up, so nobody can lead it elsewhere."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in self._names or _is_address(name)


def machine_names() -> set[str]:
    """What others may call this machine."""
    name = socket.gethostname()
    return {name, socket.getfqdn(name)}


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
