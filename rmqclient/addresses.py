"""Addresses as users write them: ``host:port``, several joined by semicolons, IPv6 hosts in brackets."""

from __future__ import annotations

import re

from rmqproto.errors import UsageError
from rmqproto.hosts import is_port, not_a_port

_LABEL_MAX_CHARS = 63
_SEPARATOR = re.compile(r"[\s,;]")
"""Stands in no host's name, but between addresses."""


NAMESRV_PORT, BROKER_PORT = 9876, 10911
"""Where Apache's servers listen if nothing else is set."""


def parse_addresses(text: str, default_port: int | None = None) -> list[str]:
    """``host:port[;host:port…]`` as a list of addresses that ``split_address`` takes. An address without a port gets
    ``default_port``, if there is one. A leading ``http://`` is ignored, as in ``NameServerAddressUtils`` (5.5.0).
    UsageError for anything else."""
    addresses = [part.strip().removeprefix("http://") for part in text.split(";") if part.strip()]
    if default_port is not None:
        addresses = [with_port(address, default_port) for address in addresses]
    if not addresses:
        raise UsageError(f"{text!r} holds no address", hint="Write host:port, several joined by semicolons.")
    for address in addresses:
        split_address(address)
    return addresses


def parse_namesrvs(text: str) -> list[str]:
    """Addresses of name servers, which may lack their port."""
    return parse_addresses(text, NAMESRV_PORT)


def with_port(address: str, port: int) -> str:
    """The address, with this port if it has none: ``host``, ``10.0.0.1``, ``[::1]``, ``fe80::1``. Any other text is
    returned as it is."""
    if address.startswith("[") and address.endswith("]"):
        return f"{address}:{port}"
    if ":" not in address:
        return f"{address}:{port}" if address and "/" not in address and _is_host(address) else address
    if address.count(":") > 1 and _is_ipv6(address) and not _has_port(address):
        return f"[{address}]:{port}"
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


def split_address(address: str) -> tuple[str, int]:
    """Host and port; the brackets of an IPv6 host are taken off. UsageError for anything else."""
    host, colon, port = address.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or "/" in host or not _is_host(host) or not is_port(port):
        if port.isdecimal() and _is_host(host):
            raise UsageError(f"{address!r} is not an address: {not_a_port(port)}")
        hint = "Several addresses are joined by semicolons, where an option takes several."
        if _SEPARATOR.search(host) is None:
            hint = "Write host:port, for example 127.0.0.1:9876."
        raise UsageError(f"{address!r} is not an address", hint=hint)
    return host, int(port)


def _is_host(text: str) -> bool:
    """Whether the host can be looked up. The lookup uses the codec "idna", which has errors of its own."""
    if _SEPARATOR.search(text):
        return False
    if text.isascii():  # without the codec, whose tables take 25 ms to load
        return all(0 < len(label) <= _LABEL_MAX_CHARS for label in text.removesuffix(".").split("."))
    try:
        return bool(text.encode("idna"))
    except UnicodeError:
        return False
