"""Addresses as users write them: ``host:port``, several joined by semicolons, IPv6 hosts in brackets. And connections
that go elsewhere than to the address that a server advertises.

Brokers in containers advertise addresses that only their own network reaches. What is shown, asked for and compared
stays the advertised address; only the connection goes to the other one.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from rmqproto.errors import UsageError
from rmqproto.hosts import NAMESRV_PORT, split_address, with_port


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


# --- another way to an address --------------------------------------------------------------------------------------

_FORM = "HOST[:PORT]=HOST[:PORT]"
_EXAMPLE = "For example 10.1.2.3:10911=127.0.0.1:10911, or 10.1.2.3=127.0.0.1 for every port."


class AddressMap(msgspec.Struct, frozen=True):
    """Plain data, for a command line and for tasks on other machines. ``rules`` holds pairs from
    ``parse_address_map``: the advertised address, or host, and where to connect."""

    rules: tuple[tuple[str, str], ...] = ()

    def endpoint(self, address: str) -> tuple[str, int]:
        """Host and port to connect to. UsageError as from ``split_address``."""
        return self.target(*split_address(address))

    def target(self, host: str, port: int) -> tuple[str, int]:
        """Host and port to connect to. A rule for the address comes before one for its host, and a result is not mapped
        again."""
        for asked in ((host.lower(), port), (host.lower(), None)) if self.rules else ():
            for advertised, wanted in self.rules:
                if _place(advertised) == asked:
                    to_host, to_port = _place(wanted)
                    return to_host, port if to_port is None else to_port
        return host, port

    def text(self) -> str:
        """The rules joined by commas, as ``split_rules`` takes them."""
        return ",".join(map("=".join, self.rules))

    def by_way(self, address: str) -> str:
        """Words for an error about the address: `` (mapped to 127.0.0.1:10911)``. Empty if no rule has it."""
        host, port = self.endpoint(address)
        if (host, port) == split_address(address):
            return ""
        return f" (mapped to {f'[{host}]' if ':' in host else host}:{port})"


NO_MAP = AddressMap()


def parse_address_map(texts: Iterable[str]) -> AddressMap:
    """The map of rules such as ``10.1.2.3:10911=localhost:10911``. Without a port, the left side means every port of
    the host, and the right side keeps the port. UsageError for anything else, and for two rules about one address."""
    rules: list[tuple[str, str]] = []
    seen = set()
    for text in texts:
        advertised, equals, target = (part.strip() for part in text.partition("="))
        try:
            place = _place(advertised)
            _place(target)
        except UsageError as error:
            why = str(error) if equals else "it has no ="
            raise UsageError(f"{text!r} maps no address: {why}", hint=f"Write {_FORM}. {_EXAMPLE}") from None
        if place in seen:
            raise UsageError(f"two rules map the address {advertised}", hint="Leave out one of them.")
        seen.add(place)
        rules.append((advertised, target))
    return AddressMap(tuple(rules))


def split_rules(text: str) -> tuple[str, ...]:
    """The rules in a text that joins them by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _place(text: str) -> tuple[str, int | None]:
    """The host in lower case, and the port if there is one. UsageError for anything else."""
    is_host = ":" not in text or text.endswith("]")
    try:
        host, port = split_address(f"{text}:1" if is_host else text)
    except UsageError:
        raise UsageError(f"{text!r} is neither host nor host:port") from None
    if (":" in host) != text.startswith("[") or any(mark in host for mark in "[=, "):
        raise UsageError(f"{text!r} is neither host nor host:port, with an IPv6 host in brackets")
    return host.lower(), None if is_host else port
