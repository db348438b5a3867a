"""Properties of the hosts and ports in addresses that follow from the text alone."""

from __future__ import annotations

import re

from rmqproto.errors import UsageError

NAMESRV_PORT, BROKER_PORT = 9876, 10911
"""Where Apache's servers listen if nothing else is set."""

PORT_MAX = 65_535
SEPARATOR = re.compile(r"[\s,;]")
"""Stands in no host's name, but between addresses."""
_LABEL_MAX_CHARS = 63
_SHOWN_MAX_CHARS = 16


def is_port(text: str) -> bool:
    """Whether the text is a port that can be connected to."""
    return text.isascii() and text.isdigit() and len(text) <= len(str(PORT_MAX)) and 0 < int(text) <= PORT_MAX


def not_a_port(text: str) -> str:
    """What is said of any other text that stands in the place of a port."""
    shown = text if len(text) <= _SHOWN_MAX_CHARS else f"{text[:_SHOWN_MAX_CHARS]}..."
    return f"{shown!r} is not a port from 1 to {PORT_MAX}"


def split_address(address: str) -> tuple[str, int]:
    """Host and port; the brackets of an IPv6 host are taken off. UsageError for anything else."""
    host, colon, port = address.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or "/" in host or not is_host(host) or not is_port(port):
        if port.isdecimal() and not is_port(port) and is_host(host):
            raise UsageError(f"{address!r} is not an address: {not_a_port(port)}")
        hint = "Several addresses are joined by semicolons, where an option takes several."
        if SEPARATOR.search(host) is None:
            hint = "Write host:port, for example 127.0.0.1:9876."
        raise UsageError(f"{address!r} is not an address", hint=hint)
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Whether only its own machine reaches the host. Any name other than localhost counts as reachable from other
    machines."""
    import ipaddress  # commands that only check a port start without it

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def join(host: str, port: int) -> str:
    """``host:port``, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def with_port(address: str, port: int) -> str:
    """The address, with this port if it has none: ``host``, ``10.0.0.1``, ``[::1]``, ``fe80::1``. Any other text is
    returned as it is."""
    if address.startswith("[") and address.endswith("]"):
        return f"{address}:{port}"
    if ":" not in address:
        return f"{address}:{port}" if address and "/" not in address and is_host(address) else address
    if address.count(":") > 1 and _is_ipv6(address) and not _has_port(address):
        return join(address, port)
    return address


def _has_port(address: str) -> bool:
    """Whether an IPv6 address without brackets ends with four or five decimal digits, as of a port."""
    return re.search(r":\d{4,5}$", address) is not None


def _is_ipv6(text: str) -> bool:
    from ipaddress import AddressValueError, IPv6Address  # rarely needed

    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return True


def is_host(text: str) -> bool:
    """Whether the host can be looked up. The lookup uses the codec "idna", which has errors of its own."""
    if SEPARATOR.search(text):
        return False
    if not text.isprintable():  # the codec leaves out what is invisible: pasted text would become another host
        return False
    if text.isascii():  # without the codec, whose tables take 25 ms to load
        return all(0 < len(label) <= _LABEL_MAX_CHARS for label in text.removesuffix(".").split("."))
    try:
        return b":" not in (text.encode("idna") or b":")  # it makes a plain colon of a wide one
    except UnicodeError:
        return False
