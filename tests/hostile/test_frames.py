"""Bytes that are no frame, and frames that never end, at both sockets. The connection is closed or waits within the
limits, and no other client notices."""

import contextlib
import random
import socket
from collections.abc import Iterator

import pytest

from rmqproto.wire.command import Command, HeaderCodec, encode_frame
from rmqproto.wire.frames import FRAME_SIZE_MAX_BYTES, frame
from tests.hostile.conftest import Victim
from tests.support.wire import TIMEOUT_S, Wire

FRAMES = [
    encode_frame(Command(code=38, opaque=1, ext={"consumerGroup": "g"}, body=b"body", codec=codec))
    for codec in HeaderCodec
]
FRAME = FRAMES[HeaderCodec.JSON]


@contextlib.contextmanager
def connected(address: str) -> Iterator[socket.socket]:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), TIMEOUT_S) as sock:
        yield sock


def is_closed(sock: socket.socket) -> bool:
    """Reads to the end of the connection. TimeoutError if it stays open."""
    with contextlib.suppress(ConnectionError):
        while sock.recv(1 << 16):
            pass
    return True


@pytest.fixture(params=["broker", "namesrv"])
def address(request: pytest.FixtureRequest, victim: Victim) -> str:
    return victim.broker_addr if request.param == "broker" else victim.namesrv_addr


@pytest.mark.parametrize("good", FRAMES, ids=[codec.name for codec in HeaderCodec])
def test_frames_cut_at_every_byte(address: str, good: bytes) -> None:
    for cut in range(len(good)):
        with connected(address) as sock:
            sock.sendall(good[:cut])
            sock.shutdown(socket.SHUT_WR)
            assert is_closed(sock)


@pytest.mark.parametrize(
    "junk",
    [
        (FRAME_SIZE_MAX_BYTES + 1).to_bytes(4, "big") + bytes(4),
        b"\xff" * 8,
        b"\0\0\0\0" + bytes(8),
        b"\0\0\0\4" + b"\0\0\0\1" + b"x",
        frame(b"{}"),
        frame(b"[]"),
        frame(b'{"code":1e999}'),
        frame(b'{"code":1,"opaque":99999999999}'),
        frame(b'{"code":10,"extFields":' + b'{"a":' * 100_000),
        frame(b"[" * 1_000_000),
        frame(b'{"code":38,"extFields":{"consumerGroup":' + b"[" * 50_000 + b"]" * 50_000 + b"}}"),
        frame(b"\0" * 20, codec=1),
        frame(b"\0\x26\0\0\0\0\0\0\0\0\0\0\0\x7f\xff\xff\xff" + bytes(10), codec=1),
        frame(b"{}", codec=255),
        frame(b"\xc0", codec=2),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x00\x04\x02\x00\x00\x00",
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", marks=pytest.mark.slow),  # for ten seconds
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n" * 2,
        b"\r\n\r\n\0\r\nQUIT\n" + bytes(16),
    ],
    ids=range(20),
)
def test_what_is_no_frame_closes_the_connection(address: str, junk: bytes) -> None:
    with connected(address) as sock:
        with contextlib.suppress(ConnectionError):  # closed while we still send
            sock.sendall(junk)
        assert is_closed(sock)


def test_right_frames_with_random_damage(address: str) -> None:
    """The server answers a damaged frame, closes its connection, or waits for more bytes."""
    rng = random.Random(8)
    for number in range(300):
        damaged = bytearray(FRAMES[number % len(FRAMES)])
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(4, len(damaged))] = rng.randrange(256)
        with connected(address) as sock:
            with contextlib.suppress(ConnectionError):
                sock.sendall(damaged)
                sock.shutdown(socket.SHUT_WR)
            assert is_closed(sock)


def test_endless_frames_are_held_within_the_limit(victim: Victim) -> None:
    """Forty connections send all but the last byte of a 16 MiB frame: 640 MiB, of which 256 MiB are kept. Before and
    after, clients that send small frames in two pieces are served."""
    head = (FRAME_SIZE_MAX_BYTES - 4).to_bytes(4, "big") + bytes(4)
    piece = bytes(1 << 20)
    with contextlib.ExitStack() as stack:
        slow = stack.enter_context(Wire(victim.broker_addr))
        slow.send(FRAME[:20])
        for number in range(40):
            sock = stack.enter_context(connected((victim.broker_addr, victim.namesrv_addr)[number % 2]))
            with contextlib.suppress(ConnectionError):
                sock.sendall(head)
                for _ in range(15):
                    sock.sendall(piece)
            if number % 8 == 0:
                victim.check()
        assert slow.exchange(FRAME[20:]).opaque == 1
        late = stack.enter_context(Wire(victim.broker_addr))
        late.send(FRAME[:20])
        assert late.exchange(FRAME[20:]).opaque == 1
        victim.check()


def test_connections_that_end_abruptly(address: str) -> None:
    """Connections end with RST instead of FIN while answers are under way."""
    for _ in range(200):
        with connected(address) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            sock.sendall(FRAME * 20 + FRAME[:30])
