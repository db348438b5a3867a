"""Real handshakes with the loop: modes, client certificates, changed files, large frames, and hostile first bytes."""

import contextlib
import dataclasses
import gc
import logging
import math
import os
import socket
import ssl
import subprocess
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqproto.codes import RequestCode
from rmqproto.errors import UsageError
from rmqproto.headers.consuming import ConsumerGroupHeader
from rmqproto.wire.command import Command, FrameReader, encode_frame
from rmqserver.remoting.answer import Request, success
from rmqserver.remoting.connection import Connection
from rmqserver.remoting.loop import Loop
from rmqserver.remoting.pump import PLAIN, PumpError
from rmqserver.remoting.service import Service
from rmqserver.tls import contexts
from rmqserver.tls import door as door_module
from rmqserver.tls import tls_pump as pump_module
from rmqserver.tls.contexts import door_context
from rmqserver.tls.door import TlsDoor, TlsLink
from rmqserver.tls.late_door import LateDoor
from rmqserver.tls.settings import ClientAuth, DoorSettings, KeyPair, LinkSettings, TlsMode, tls_settings
from rmqserver.tls.tls_pump import TlsPump
from tests.support.certificates import Authority, Signed

LIMIT_S = 60
CODE = RequestCode.GET_CONSUMER_LIST_BY_GROUP


class Echo(Service):
    def __init__(self) -> None:
        super().__init__("echo", {CODE: self.echo})
        self.closed_count = 0

    def echo(self, request: Request[ConsumerGroupHeader], connection: Connection) -> bytes:
        return success(request, request.header, request.body)

    def connection_closed(self, connection: Connection) -> None:
        self.closed_count += 1


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Signed:
    return authority.sign("server")


def door_of(
    signed: Signed, mode: TlsMode = TlsMode.PERMISSIVE, trust: Path | None = None, password: str = ""
) -> DoorSettings:
    return DoorSettings(
        mode=mode,
        key_pair=KeyPair(cert_path=str(signed.cert), key_path=str(signed.key), key_password=password),
        client_auth=ClientAuth.REQUIRE if trust else ClientAuth.NONE,
        trust_path=str(trust or ""),
    )


def client_context(authority: Authority, own: Signed | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.cert))
    if own is not None:
        context.load_cert_chain(own.cert, own.key)
    return context


@asynccontextmanager
async def running(door: TlsDoor | LateDoor, *, is_watched: bool = False) -> AsyncIterator[tuple[Loop, Echo, int]]:
    """A loop behind the door, which looks after its certificate if it ``is_watched``."""
    loop, service = Loop(), Echo()
    port = loop.listen("127.0.0.1", 0, service, make_pump=door.pump)
    try:
        with trio.fail_after(LIMIT_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(loop.run)
                if is_watched:
                    nursery.start_soon(door.watch)
                yield loop, service, port
                nursery.cancel_scope.cancel()
    finally:
        loop.close()


async def ask(stream: trio.abc.Stream, body: bytes = b"") -> bytes:
    """Sends a request; returns the body of the answer."""
    await stream.send_all(encode_frame(Command(code=CODE, opaque=1, ext={"consumerGroup": "g"}, body=body)))
    reader = FrameReader()
    while not (answers := reader.feed(await stream.receive_some())):
        pass
    return answers[0].body


async def tls_stream(port: int, context: ssl.SSLContext) -> trio.SSLStream[trio.SocketStream]:
    return trio.SSLStream(await trio.open_tcp_stream("127.0.0.1", port), context, server_hostname="localhost")


@contextmanager
def turned_away(caplog: pytest.LogCaptureFixture, words: str) -> Iterator[None]:
    with caplog.at_level(logging.WARNING):
        yield
    assert any("event=turned-away" in line and words in line for line in caplog.messages), caplog.messages


@pytest.mark.trio
async def test_permissive_serves_both_and_frames_of_any_size(authority: Authority, server: Signed) -> None:
    body = os.urandom(3 << 20)
    async with running(TlsDoor(door_of(server))) as (loop, _, port):
        async with await trio.open_tcp_stream("127.0.0.1", port) as plain:
            assert await ask(plain, b"plain") == b"plain"
            assert loop.connections[0].pump is PLAIN  # which the core's short ways need
        async with await tls_stream(port, client_context(authority)) as stream:
            for sent in (b"", b"small", body):
                assert await ask(stream, sent) == sent


@pytest.mark.trio
async def test_enforcing_turns_plain_clients_away(
    authority: Authority, server: Signed, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(TlsDoor(door_of(server, TlsMode.ENFORCING))) as (_, _, port):
        with turned_away(caplog, "switch TLS on in the client"):
            async with await trio.open_tcp_stream("127.0.0.1", port) as plain:
                await plain.send_all(encode_frame(Command(code=CODE, opaque=1)))
                assert await plain.receive_some() == b""
        async with await tls_stream(port, client_context(authority)) as stream:
            assert await ask(stream, b"x") == b"x"


@pytest.mark.trio
async def test_tls_may_follow_the_header_of_a_load_balancer(authority: Authority, server: Signed) -> None:
    async with running(TlsDoor(door_of(server, TlsMode.ENFORCING))) as (_, _, port):
        inner = await trio.open_tcp_stream("127.0.0.1", port)
        await inner.send_all(b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 10911\r\n")
        async with trio.SSLStream(inner, client_context(authority), server_hostname="localhost") as stream:
            assert await ask(stream, b"x") == b"x"


@pytest.mark.trio
async def test_only_clients_with_a_trusted_certificate_come_in(
    authority: Authority, server: Signed, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = Authority(tmp_path, "stranger").sign("other")
    door = TlsDoor(door_of(server, TlsMode.ENFORCING, trust=authority.cert))
    async with running(door) as (_, _, port):
        async with await tls_stream(port, client_context(authority, authority.sign("client"))) as stream:
            assert await ask(stream, b"x") == b"x"
        for own, words in ((None, "showed no certificate"), (stranger, "not signed by one that is trusted")):
            with turned_away(caplog, words):
                stream = await tls_stream(port, client_context(authority, own))
                with pytest.raises(trio.BrokenResourceError):
                    await ask(stream)
                await trio.aclose_forcefully(stream)
            caplog.clear()


@pytest.mark.trio
async def test_a_client_that_does_not_trust_us_is_named(
    server: Signed, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(TlsDoor(door_of(server))) as (_, service, port):
        with turned_away(caplog, "give it the one that signed it"):
            await trio.to_thread.run_sync(refuse, port, client_context(Authority(tmp_path)))
            while not service.closed_count:
                await trio.sleep(0)


def refuse(port: int, context: ssl.SSLContext) -> None:
    """A client that refuses the server's certificate. Trio's stream would send no alert."""
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        pytest.raises(ssl.SSLCertVerificationError),
        context.wrap_socket(plain, server_hostname="localhost"),
    ):
        pass


@pytest.mark.trio
async def test_changed_files_are_for_new_connections(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqserver.tls.door.WATCH_INTERVAL_S", 0.01)
    first, second = Authority(tmp_path, "first"), Authority(tmp_path, "second")
    used, fresh = first.sign("used"), second.sign("fresh")
    door = TlsDoor(door_of(used))

    async def logged(words: str) -> None:
        while not any(words in line for line in caplog.messages):
            await trio.sleep(0.01)

    with caplog.at_level(logging.INFO):
        async with (
            running(door, is_watched=True) as (_, _, port),
            await tls_stream(port, client_context(first)) as before,
        ):
            assert await ask(before, b"1") == b"1"
            fresh.cert.replace(used.cert)
            await logged("event=certificates-not-loaded")  # the key is not replaced yet
            async with await tls_stream(port, client_context(first)) as stream:
                assert await ask(stream, b"2") == b"2"
            fresh.key.replace(used.key)
            await logged("event=certificates-loaded")
            async with await tls_stream(port, client_context(second)) as stream:
                assert await ask(stream, b"3") == b"3"
            assert await ask(before, b"4") == b"4"


@pytest.mark.trio
async def test_half_a_handshake_is_closed_and_an_idle_connection_is_not(
    server: Signed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pump_module, "HANDSHAKE_MAX_S", 0.0)
    async with (
        running(TlsDoor(door_of(server))) as (_, service, port),
        await trio.open_tcp_stream("127.0.0.1", port) as idle,
        await trio.open_tcp_stream("127.0.0.1", port) as half,
    ):
        await half.send_all(bytes.fromhex("16030100"))
        assert await half.receive_some() == b""
        assert service.closed_count == 1
        assert await ask(idle, b"x") == b"x"


def hello(context: ssl.SSLContext) -> bytes:
    return bytes(TlsPump(context, is_server=False).to_send(()))


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_garbage_behind_or_in_a_hello_ends_in_words(server_context: ssl.SSLContext, data: st.DataObject) -> None:
    """Only PumpError may come out of the pump, and no byte for the frame cutter."""
    sent = bytearray(hello(_ANY))
    where = data.draw(st.integers(1, len(sent) - 1))
    sent[where:] = data.draw(st.binary(max_size=600))
    pump = TlsPump(server_context, is_server=True)
    with contextlib.suppress(PumpError):
        assert pump.received(memoryview(bytes(sent))) == b""
    assert pump.opens_by_s != math.inf


def test_a_pump_is_freed_with_its_connection(server_context: ssl.SSLContext) -> None:
    """It stayed until the garbage collector looked for cycles, with 35 KB of OpenSSL: a broker grew by 36 MB with each
    thousand clients that came over TLS and left."""
    pump = TlsPump(server_context, is_server=True)
    pump.received(memoryview(hello(_ANY)))
    seen = weakref.ref(pump)
    gc.disable()
    try:
        del pump
        assert seen() is None
    finally:
        gc.enable()


@pytest.fixture(scope="module")
def server_context(server: Signed) -> ssl.SSLContext:
    return door_context(door_of(server))


_ANY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
_ANY.check_hostname = False
_ANY.verify_mode = ssl.CERT_NONE


@pytest.mark.trio
async def test_a_connection_of_ours_may_send_before_the_handshake_has_ended(
    authority: Authority, server: Signed
) -> None:
    """The registration with a nameserver does this."""
    link = TlsLink(LinkSettings(key_pair=None, checks_server=True, trust_path=str(authority.cert)))
    answered: list[Command | None] = []
    async with running(TlsDoor(door_of(server, TlsMode.ENFORCING))) as (loop, service, port):
        sock = await trio.to_thread.run_sync(socket.create_connection, ("127.0.0.1", port))
        ours = loop.adopt(sock, service, pump=link.pump())
        ours.ask(CODE, ConsumerGroupHeader(consumer_group="g"), b"early", answered.append, LIMIT_S)
        while not answered:
            await trio.sleep(0.01)
    assert answered[0] is not None
    assert answered[0].body == b"early"


def unasked() -> DoorSettings:
    door = tls_settings({}).door
    assert door is not None
    return door


@pytest.mark.trio
async def test_clients_that_speak_tls_unasked_are_served_beside_plain_ones(caplog: pytest.LogCaptureFixture) -> None:
    """As by Apache's servers. All hellos that come while the certificate is made wait for it, and no plain client
    does."""
    caplog.set_level(logging.INFO)
    answered: list[bytes] = []

    async def by_tls(number: int) -> None:
        async with await tls_stream(port, _ANY) as stream:
            answered.append(await ask(stream, b"%d" % number))

    async with running(LateDoor(unasked()), is_watched=True) as (_, _, port):
        async with await trio.open_tcp_stream("127.0.0.1", port) as plain:
            assert await ask(plain, b"before") == b"before"
            async with trio.open_nursery() as clients:
                for number in range(50):
                    clients.start_soon(by_tls, number)
                assert await ask(plain, b"meanwhile") == b"meanwhile"
            assert await ask(plain, b"after") == b"after"
        await by_tls(50)
    assert sorted(map(int, answered)) == list(range(51))
    assert [line for line in caplog.messages if "tls-opened" in line] != []
    assert caplog.text.count("certificate=self-made") == 1


@pytest.mark.trio
async def test_a_hello_that_comes_in_pieces_or_ends_early_while_the_certificate_is_made() -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    hello = _ANY.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        hello.do_handshake()
    data = outgoing.read()
    door = LateDoor(unasked())
    async with running(door) as (_, service, port), trio.open_nursery() as nursery:
        gone = await trio.open_tcp_stream("127.0.0.1", port)
        await gone.send_all(data)
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        for at in range(0, len(data), 50):
            await stream.send_all(data[at : at + 50])
            await trio.sleep(0)
        await gone.aclose()
        while service.closed_count == 0:
            await trio.sleep(0.01)
        nursery.start_soon(door.watch)
        incoming.write(await stream.receive_some())
        assert incoming.pending
        await stream.aclose()
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_a_server_that_cannot_make_a_certificate_says_so_and_serves_plain_clients(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    async with running(LateDoor(unasked()), is_watched=True) as (_, _, port):
        for _ in range(2):
            stream = await tls_stream(port, _ANY)
            with turned_away(caplog, "cryptography"), pytest.raises(trio.BrokenResourceError):
                await stream.do_handshake()
            await trio.aclose_forcefully(stream)
        async with await trio.open_tcp_stream("127.0.0.1", port) as plain:
            assert await ask(plain, b"x") == b"x"
    assert "event=tls-failed" in caplog.text


@pytest.mark.trio
async def test_a_server_that_ends_does_not_wait_for_a_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that made it told a loop that was closed: a traceback, after a client's hello and a signal."""
    begun, may_end = trio.Event(), threading.Event()
    ended: list[threading.Thread] = []

    def slow_door(settings: DoorSettings) -> None:
        trio.from_thread.run_sync(begun.set)
        may_end.wait(LIMIT_S)
        ended.append(threading.current_thread())

    monkeypatch.setattr(door_module, "TlsDoor", slow_door)
    async with (
        running(LateDoor(unasked()), is_watched=True) as (_, _, port),
        await trio.open_tcp_stream("127.0.0.1", port) as stream,
    ):
        await stream.send_all(b"\x16")
        await begun.wait()
    assert not ended
    may_end.set()
    while not ended:
        await trio.sleep(0.01)


def test_a_server_that_nobody_speaks_tls_to_loads_nothing_of_it() -> None:
    program = (
        "import sys\n"
        "from rmqserver.process import server\n"
        "from rmqserver.process.entrance import Entrance\n"
        "from rmqserver.command_line import Options, plan\n"
        "from rmqserver.remoting.loop import Loop\n"
        "before = 'ssl' in sys.modules\n"  # trio may import it
        "loop = Loop()\n"
        "entrance = Entrance(plan(Options(has_namesrv=True, has_broker=False)), loop)\n"
        "entrance.open_tls()\n"
        "entrance._make_pump()\n"
        "assert ('ssl' in sys.modules) == before and not entrance.is_guarded\n"
        "assert 'cryptography' not in sys.modules and 'rmqserver.tls.door' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.trio
async def test_a_certificate_of_our_own_making_serves_tests() -> None:
    made = DoorSettings(mode=TlsMode.PERMISSIVE, key_pair=None, client_auth=ClientAuth.NONE, trust_path="")
    async with running(TlsDoor(made)) as (_, _, port), await tls_stream(port, _ANY) as stream:
        assert await ask(stream, b"x") == b"x"


def test_a_key_that_cannot_be_used_is_named(authority: Authority, server: Signed, tmp_path: Path) -> None:
    other, hidden = authority.sign("mixed"), authority.sign("hidden", password="hunter2")
    door_context(door_of(hidden, password="hunter2"))
    for signed, words in (
        (Signed(server.cert, other.key), r"mixed\.key: this is not the key of .*server\.pem"),
        (Signed(server.cert, tmp_path / "none"), "none: No such file"),
        (Signed(server.key, server.key), "in PEM"),
        (hidden, r"hidden\.key: certificate and key in PEM, and the key's password"),
    ):
        with pytest.raises(UsageError, match=words):
            door_context(door_of(signed))


@pytest.mark.parametrize("gone", ["certificate", "key", "trusted"])
def test_files_that_go_while_they_are_loaded_are_named(
    authority: Authority, server: Signed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    """The task that follows a server's files ended the server."""
    monkeypatch.setattr(contexts, "_check_readable", lambda path: None)
    missing = tmp_path / "missing.pem"
    signed = Signed(missing if gone == "certificate" else server.cert, missing if gone == "key" else server.key)
    settings = dataclasses.replace(door_of(signed), trust_path=str(missing) if gone == "trusted" else "")
    with pytest.raises(UsageError, match=r"missing\.pem.*: No such file"):
        door_context(settings)
