"""Properties of the hosts and ports in addresses that follow from the text alone."""

from __future__ import annotations

PORT_MAX = 65_535
_SHOWN_MAX_CHARS = 16


def is_port(text: str) -> bool:
    """Whether the text is a port that can be connected to."""
    return text.isascii() and text.isdigit() and len(text) <= len(str(PORT_MAX)) and 0 < int(text) <= PORT_MAX


def not_a_port(text: str) -> str:
    """What is said of any other text that stands in the place of a port."""
    shown = text if len(text) <= _SHOWN_MAX_CHARS else f"{text[:_SHOWN_MAX_CHARS]}..."
    return f"{shown!r} is not a port from 1 to {PORT_MAX}"


def is_loopback(host: str) -> bool:
    """Whether only its own machine reaches the host. Any name other than localhost counts as reachable from other
    machines."""
    import ipaddress  # commands that only check a port start without it

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
