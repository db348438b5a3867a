"""The turn of the loop over real sockets: whatever comes and whatever a handler does, the core's leaves what Python's
does."""

import random
import select
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

import pytest

from rmqproto.wire.frames import frame
from rmqserver import core
from rmqserver.core import simple
from rmqserver.remoting.connection import READING, Connection
from rmqserver.remoting.connection_state import Event, NoLimits, State
from rmqserver.remoting.pump import PLAIN, FirstBytePump

MODULES = [simple] if core.serve_ready is simple.serve_ready else [simple, core]
BIG = 8 << 20
"""More than two sockets hold."""


class Scene:
    """A loop and a service in one: what a connection needs of both, and what they were told."""

    name, idle_max_s, limits, takers = "scene", 0, NoLimits(), []  # type: ignore[var-annotated]

    def __init__(self, module: ModuleType, deeds: list[str]):
        self.module = module
        self.deeds = deeds
        self.dirty: list[Connection] = []
        self.told: list[object] = []
        self.connections: dict[int, Connection] = {}
        self.buffer = memoryview(bytearray(64 << 10))
        self.mark_dirty = self.dirty.append

    def turn(self, ends_s: float = float("inf")) -> int:
        events = [(fd, select.EPOLLIN) for fd in self.connections]
        done: int = self.module.serve_ready(events, 0, self.connections, READING, PLAIN, self.buffer, ends_s)
        dirty = self.dirty.copy()
        self.dirty.clear()
        self.module.flush_dirty(dirty, READING, PLAIN)
        return done

    # of the loop

    def state_changed(self, connection: Connection, before: State) -> None:
        self.told.append((before, connection.state))

    def held_changed(self, by_bytes: int) -> None:
        self.told.append(("held", by_bytes))

    def unsent_changed(self, by_bytes: int) -> None:
        self.told.append(("unsent", by_bytes > 0))

    def drop(self, connection: Connection) -> None:
        self.told.append("dropped")
        self.connections.pop(connection.fd, None)
        connection.sock.close()

    # of the service

    def handle_untrusted(self, connection: Connection, codec: int, peeked: int, header: bytes, body: bytes) -> None:
        deed = self.deeds.pop(0) if self.deeds else "echo"
        self.told.append((deed, header, body))
        if deed == "close":
            connection.close("asked to")
        elif deed == "fail":
            raise ZeroDivisionError("a bug")
        elif deed in ("stop", "rest"):
            getattr(connection, deed)()
        elif deed == "large":
            connection.send(bytes(5000) + header)
        else:
            connection.send(header)
            connection.send(body)

    def other_door(self, connection: Connection, protocol: str) -> None:
        self.told.append(protocol)

    def turned_away(self, connection: Connection, protocol: str, reason: str | None = None) -> None: ...

    def connection_closed(self, connection: Connection) -> None:
        self.told.append("closed")


@contextmanager
def connected(scene: Any) -> Iterator[tuple[Connection, socket.socket]]:
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        client = stack.enter_context(socket.create_connection(listener.getsockname(), timeout=30))
        sock = stack.enter_context(listener.accept()[0])
        sock.setblocking(False)
        connection = scene.connections[sock.fileno()] = Connection(sock, scene, scene, 10911)
        yield connection, client


def come(connection: Connection) -> None:
    """Waits until there is something to read."""
    answers = select.poll()  # unlike select, it takes any number
    answers.register(connection.sock, select.POLLIN)
    assert answers.poll(30_000)


def received(client: socket.socket) -> bytes:
    client.setblocking(False)
    try:
        return client.recv(1 << 20)
    except OSError as error:
        return type(error).__name__.encode()
    finally:
        client.settimeout(30)


@pytest.mark.parametrize("seed", range(20))
def test_any_bytes_and_any_deeds(seed: int) -> None:
    seen = []
    for module in MODULES:
        randomly = random.Random(seed)
        stream = b"".join(frame(randomly.randbytes(randomly.randrange(30)), b"body") for _ in range(12))
        if seed % 3 == 0:
            stream += b"GET / HTTP/1.1\r\n"
        deeds = randomly.choices(("echo", "large", "stop", "rest", "close", "fail"), (12, 4, 3, 2, 1, 1), k=12)
        scene = Scene(module, deeds)
        with connected(scene) as (connection, client):
            while stream and not connection.closed:
                size = randomly.randrange(1, 90)
                client.sendall(stream[:size])
                stream = stream[size:]
                come(connection)
                scene.turn()
                scene.told.append((connection.state, connection.held_bytes, received(client)))
                if connection.state is State.RESTING:
                    connection.end_rest()
                while connection.state is State.STOPPED:
                    scene.turn()
            if not connection.closed:
                client.shutdown(socket.SHUT_WR)
                come(connection)
                scene.turn()
        seen.append(scene.told)
    assert seen[0] == seen[-1]
    assert "closed" in seen[0]


@pytest.mark.parametrize("module", MODULES)
def test_what_the_kernel_does_not_take_waits_for_the_peer(module: ModuleType) -> None:
    scene: Any = Scene(module, [])
    with connected(scene) as (connection, client):
        pieces = [b"begin", bytes(BIG), b"end"]
        for piece in pieces:
            connection.out.append(piece)
        connection.queued_bytes = BIG
        scene.dirty.append(connection)
        scene.turn()
        assert (connection.state, connection.queued_bytes, connection.out) == (State.UNREAD, 0, [])
        assert connection.unsent.endswith(b"end")
        got = bytearray()
        while len(got) < sum(map(len, pieces)):
            got += client.recv(1 << 20)
            connection.serve(True, scene.buffer)
        assert got == b"".join(pieces)
        assert connection.state is READING


@pytest.mark.parametrize("module", MODULES)
def test_a_broken_connection_is_closed(module: ModuleType) -> None:
    for deed in ("read", "write"):
        scene = Scene(module, [])
        with connected(scene) as (connection, client):
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
            come(connection)
            if deed == "write":
                connection.send(b"data")
                scene.connections.clear()
            scene.turn()
            assert connection.closed, deed


@pytest.mark.parametrize("module", MODULES)
def test_the_time_and_the_order(module: ModuleType) -> None:
    """Of several events one is served at least; those of other descriptors are left to the loop."""
    scene: Any = Scene(module, [])
    with connected(scene), connected(scene), connected(scene):
        before_s = time.monotonic()
        first, second, third = scene.connections.values()
        first.last_active_s = second.last_active_s = third.last_active_s = 0
        assert scene.turn(ends_s=0) == 1
        assert [each.last_active_s >= before_s for each in (first, second, third)] == [True, False, False]
        events = [(first.fd, 1), (second.fd, 1), (0, 1), (third.fd, 1)]
        rest = scene.connections, READING, PLAIN, scene.buffer
        assert module.serve_ready(events, 1, *rest, float("inf")) == 2
        assert module.serve_ready(events, 2, *rest, float("inf")) == 2
        assert module.serve_ready(events, 3, *rest, 0) == 3
        assert module.serve_ready(events, 3, *rest, float("inf")) == 4


@pytest.mark.parametrize("module", MODULES)
def test_pumps_and_other_doors_get_their_bytes(module: ModuleType) -> None:
    scene = Scene(module, [])
    hello: list[bytes] = []
    with connected(scene) as (connection, client):
        connection.pump = FirstBytePump(lambda begin: hello.append(b"begun"))
        client.sendall(b"\x16\x03")
        come(connection)
        scene.turn()
        assert hello == [b"begun"]
    with connected(scene) as (connection, client):
        first: Any = FirstBytePump(lambda begin: hello.append(b"begun again"))
        first.change, connection.pump = connection.change_pump, first
        client.sendall(frame(b"{}", b" is plain"))
        come(connection)
        scene.turn()
        assert (connection.pump, received(client)) == (PLAIN, b"{} is plain")
    fed: list[bytes] = []

    class Door:
        is_stopped, held_bytes = False, 0
        feed_untrusted = fed.append

        def close(self) -> None: ...

    with connected(scene) as (connection, client):
        door: Any = Door()
        connection.go_through(door, b"first ")
        client.sendall(b"second")
        come(connection)
        scene.turn()
        assert b"".join(fed) == b"first second"


def test_an_unread_connection_is_not_read() -> None:
    for module in MODULES:
        scene = Scene(module, [])
        with connected(scene) as (connection, client):
            connection._become(Event.BLOCKED)
            client.sendall(frame(b"{}"))
            come(connection)
            scene.turn()
            assert not any(isinstance(told, tuple) and told[0] == "echo" for told in scene.told)


def test_the_native_one_says_what_is_wrong_with_its_arguments() -> None:
    made: Any = pytest.importorskip("rmqserver.core._core")
    rest = {1: None}, None, None, memoryview(bytearray(8)), 1.0
    with pytest.raises(TypeError, match="a descriptor and what it is ready for"):
        made.serve_ready([1], 0, *rest)
    with pytest.raises(TypeError):
        made.serve_ready([("fd", 1)], 0, {"fd": Scene(simple, [])}, *rest[1:])
    with pytest.raises(ValueError, match="below 0"):
        made.serve_ready([], -1, *rest)
    with pytest.raises(AttributeError):
        made.serve_ready([(1, 1)], 0, *rest)
    with pytest.raises(BufferError):
        made.serve_ready([], 0, {}, None, None, b"fixed", 1.0)
    with pytest.raises(AttributeError):
        made.flush_dirty([None], None, None)
