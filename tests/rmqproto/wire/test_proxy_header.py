"""PROXY headers: what they say, however they are cut, and what is none."""

import pytest

from rmqproto.errors import ProtocolError
from rmqproto.wire.proxy_header import HEADER_MAX_BYTES, SIGNATURE, ProxyHeader, parse_untrusted

V4 = bytes([192, 0, 2, 1, 198, 51, 100, 1]) + (56324).to_bytes(2, "big") + (10911).to_bytes(2, "big")
V6 = b"\x20\x01\x0d\xb8" + bytes(11) + b"\1" + bytes(16) + (1).to_bytes(2, "big") + (2).to_bytes(2, "big")


def binary(command: int, kind: int, content: bytes) -> bytes:
    return SIGNATURE + bytes([command, kind]) + len(content).to_bytes(2, "big") + content


SAID = {
    b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 10911\r\n": "192.0.2.1:56324",
    b"PROXY TCP6 2001:db8::1 2001:db8::2 1 2\r\n": "2001:db8::1:1",
    b"PROXY UNKNOWN\r\n": None,
    b"PROXY UNKNOWN ffff:f...f:ffff 65535 65535\r\n": None,
    binary(0x21, 0x11, V4): "192.0.2.1:56324",
    binary(0x21, 0x11, V4 + b"\xea\0\3abc"): "192.0.2.1:56324",
    binary(0x21, 0x21, V6): "2001:db8::1:1",
    binary(0x20, 0, b""): None,
    binary(0x20, 0x11, V4): None,
    binary(0x21, 0x31, bytes(216)): None,  # a UNIX socket
}


@pytest.mark.parametrize("header", SAID)
def test_says_whose_the_bytes_are(header: bytes) -> None:
    assert parse_untrusted(header + b"rest") == ProxyHeader(SAID[header], len(header))
    for end in range(len(header)):
        assert parse_untrusted(header[:end]) is None


@pytest.mark.parametrize(
    "header",
    [
        b"PROXY TCP4 192.0.2.1 198.51.100.1 56324\r\n",
        b"PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.1 70000 1\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.1 -1 1\r\n",
        b"PROXY TCP4 name 198.51.100.1 1 1\r\n",
        b"PROXY ZZZ\r\n",
        b"PROXY \xff\r\n",
        b"PROXY " + b"x" * 200,
        binary(0x11, 0x11, V4),
        binary(0x22, 0x11, V4),
        binary(0x21, 0x11, V4[:-1]),
        binary(0x21, 0x11, V4 + bytes(HEADER_MAX_BYTES)),
    ],
)
def test_is_not_as_it_must_be(header: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_untrusted(header)


@pytest.mark.parametrize("data", [b"\0\0\1\0", b"POST / HTTP/1.1\r\n", b"PROXYZ", b"\r\n\r\nxxxxxxxx", b"\x16\x03\x01"])
def test_is_none(data: bytes) -> None:
    assert parse_untrusted(data) == ProxyHeader(None, 0)
