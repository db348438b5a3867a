"""Addresses of name servers as contexts and options have them, in a form that can be compared."""

from __future__ import annotations


def addresses_of(namesrv_addr: str) -> list[str]:
    """The addresses in ``host[:port][;host[:port]…]``, in a form that can be compared."""
    from rmqproto.hosts import NAMESRV_PORT, with_port  # only for changes, and commands about contexts

    parts = (part.strip().lower().removeprefix("http://") for part in namesrv_addr.split(";"))
    return [with_port(part, NAMESRV_PORT) for part in parts if part]
