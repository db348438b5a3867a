"""Properties of hosts in addresses that follow from the text alone."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether only its own machine reaches the host. Any name other than localhost counts as reachable from other
    machines."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
