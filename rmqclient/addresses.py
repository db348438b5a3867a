"""Addresses as users write them: ``host:port``, several joined by semicolons, IPv6 hosts in brackets."""

from __future__ import annotations

from rmqproto.errors import UsageError
from rmqproto.hosts import NAMESRV_PORT, SEPARATOR, is_host, is_port, not_a_port, with_port


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


def split_address(address: str) -> tuple[str, int]:
    """Host and port; the brackets of an IPv6 host are taken off. UsageError for anything else."""
    host, colon, port = address.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or "/" in host or not is_host(host) or not is_port(port):
        if port.isdecimal() and is_host(host):
            raise UsageError(f"{address!r} is not an address: {not_a_port(port)}")
        hint = "Several addresses are joined by semicolons, where an option takes several."
        if SEPARATOR.search(host) is None:
            hint = "Write host:port, for example 127.0.0.1:9876."
        raise UsageError(f"{address!r} is not an address", hint=hint)
    return host, int(port)
