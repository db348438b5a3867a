"""The header that a load balancer puts before a client's bytes to say whose they are: HAProxy's PROXY protocol,
versions 1 and 2 (``HandshakeHandler``, 5.5.0).

Version 1 is a line of text that ends with CR LF: ``PROXY TCP4 192.0.2.1 198.51.100.1 56324 10911``, or
``PROXY UNKNOWN``.

Version 2, all numbers big-endian:
    0  signature   12 bytes
   12  version u4: 2 | command u4: 0 LOCAL (the balancer's own connection), 1 PROXY
   13  family u4: 1 IPv4, 2 IPv6 | transport u4: 1 stream
   14  length      u16   bytes that follow
   16  source address, destination address, source port u16, destination port u16, then fields of any kind
"""

from __future__ import annotations

import ipaddress
import struct
from typing import NamedTuple

from rmqproto.errors import ProtocolError

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
_LINE_START = b"PROXY "

FIRST_BYTES = (SIGNATURE[0], _LINE_START[0])
"""A frame or a TLS record does not begin with one of these."""

LINE_MAX_BYTES = 107
HEADER_MAX_BYTES = 4096
"""For version 2, which may carry a client's certificate."""

_HEAD_SIZE = 16
_LENGTH = struct.Struct(">H")
_PROXIED = 0x21
_LOCAL = 0x20
_ADDRESSES = {0x11: struct.Struct(">4s4xH2x"), 0x21: struct.Struct(">16s16xH2x")}


class ProxyHeader(NamedTuple):
    """``source`` is the client's ``ip:port``; None if the balancer does not say it. The header ends at ``size``."""

    source: str | None
    size: int


def line_of(source: str, destination: str) -> bytes:
    """The header, of version 1, of a client's connection from one ``ip:port`` to another."""
    (host, _, port), (to_host, _, to_port) = source.rpartition(":"), destination.rpartition(":")
    return f"PROXY TCP{6 if ':' in host else 4} {host} {to_host} {port} {to_port}\r\n".encode()


def parse_untrusted(data: bytes) -> ProxyHeader | None:
    """The header at the start of the bytes; its size is 0 if there is none. None if more bytes are needed to tell.
    ProtocolError if it is not as it must be."""
    if data.startswith(_LINE_START):
        return _line_untrusted(data)
    if data.startswith(SIGNATURE):
        return _binary_untrusted(data)
    may_be_cut = _LINE_START.startswith(data) or SIGNATURE.startswith(data)
    return None if may_be_cut else ProxyHeader(None, 0)


def _line_untrusted(data: bytes) -> ProxyHeader | None:
    line, end, _ = data[:LINE_MAX_BYTES].partition(b"\r\n")
    if not end:
        if len(data) >= LINE_MAX_BYTES:
            raise ProtocolError(f"a PROXY header has no end within {LINE_MAX_BYTES} bytes")
        return None
    size = len(line) + len(end)
    _, kind, *addresses = line.split(b" ")
    if kind == b"UNKNOWN":
        return ProxyHeader(None, size)
    try:
        host, _, port, _ = (each.decode("ascii") for each in addresses)
        source = ipaddress.ip_address(host)
        if kind != b"TCP%d" % source.version or not port.isdecimal() or int(port) > 0xFFFF:
            raise ValueError
    except ValueError:
        raise ProtocolError(f"not a PROXY header: {line!r}") from None
    return ProxyHeader(f"{source}:{int(port)}", size)


def _binary_untrusted(data: bytes) -> ProxyHeader | None:
    if len(data) < _HEAD_SIZE:
        return None
    command, kind = data[12], data[13]
    (length,) = _LENGTH.unpack_from(data, 14)
    size = _HEAD_SIZE + length
    addresses = _ADDRESSES.get(kind)
    if command not in (_PROXIED, _LOCAL) or size > HEADER_MAX_BYTES or (addresses and length < addresses.size):
        raise ProtocolError(f"not a PROXY header: {data[:_HEAD_SIZE].hex()}")
    if len(data) < size:
        return None
    if command == _LOCAL or addresses is None:  # a family without IP addresses says nothing to us
        return ProxyHeader(None, size)
    host, port = addresses.unpack_from(data, _HEAD_SIZE)
    return ProxyHeader(f"{ipaddress.ip_address(host)}:{port}", size)
