"""Addresses as users write them: ``host:port``, several joined by semicolons, IPv6 hosts in brackets."""

from __future__ import annotations

import re

from rmqproto.errors import UsageError

_LABEL_MAX_CHARS = 63
_PORT_MAX = 65535
_SEPARATOR = re.compile(r"[\s,;]")
"""Stands in no host's name, but between addresses."""


def parse_addresses(text: str) -> list[str]:
    """``host:port[;host:port…]`` as a list of addresses that ``split_address`` takes. A leading ``http://`` is ignored,
    as in ``NameServerAddressUtils`` (5.5.0). UsageError for anything else."""
    addresses = [part.strip().removeprefix("http://") for part in text.split(";") if part.strip()]
    if not addresses:
        raise UsageError(f"{text!r} holds no address", hint="Write host:port, several joined by semicolons.")
    for address in addresses:
        split_address(address)
    return addresses


def split_address(address: str) -> tuple[str, int]:
    """Host and port; the brackets of an IPv6 host are taken off. UsageError for anything else."""
    host, colon, port = address.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or "/" in host or not _is_host(host) or not _is_port(port):
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


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(_PORT_MAX)) and 0 < int(text) <= _PORT_MAX
