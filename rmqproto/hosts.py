"""Hosts of addresses: what can be said of one by itself."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether only its own machine reaches it. A name that is no address is taken for one that others reach, but for
    localhost."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
