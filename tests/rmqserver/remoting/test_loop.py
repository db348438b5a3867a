"""The hot loop over real sockets: frames cut anywhere, order, back-pressure, limits, and notices of closed
connections."""

import errno
import logging
import math
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from rmqproto.codes import ONEWAY_FLAG, RESPONSE_FLAG, RequestCode, ResponseCode
from rmqproto.errors import UsageError
from rmqproto.headers.consuming import ConsumerGroupHeader
from rmqproto.wire.command import Command, FrameReader, HeaderCodec, encode_frame
from rmqserver.operation import Refused
from rmqserver.remoting import loop as loop_module
from rmqserver.remoting.answer import Request, success
from rmqserver.remoting.connection import Connection
from rmqserver.remoting.connection_state import NoLimits
from rmqserver.remoting.gate import GatePlace
from rmqserver.remoting.loop import Loop
from rmqserver.remoting.service import Service

GROUP = RequestCode.GET_CONSUMER_LIST_BY_GROUP
HEARTBEAT = RequestCode.HEART_BEAT
LIMIT_S = 120
"""One test moves 700 MiB."""


class Echo(Service):
    """38 answers with the request's body, 34 raises, and 40 asks the client back."""

    def __init__(self) -> None:
        super().__init__("echo", {GROUP: self.echo, HEARTBEAT: self.fail, RequestCode.GET_CONSUME_STATS: self.big})
        self.closed: list[Connection] = []
        self.last: Connection | None = None
        self.rounds = 0
        self.big_count = 0

    def echo(self, request: Request[ConsumerGroupHeader], connection: Connection) -> bytes:
        self.last = connection
        return success(request, request.header, request.body)

    def fail(self, request: Request[ConsumerGroupHeader], connection: Connection) -> bytes:
        raise ZeroDivisionError("a bug")

    def big(self, request: Request[ConsumerGroupHeader], connection: Connection) -> bytes:
        self.big_count += 1
        return success(request, None, bytes(1 << 20))

    def end_round(self) -> None:
        self.rounds += 1

    def connection_closed(self, connection: Connection) -> None:
        self.closed.append(connection)


@asynccontextmanager
async def echo_loop(service: Echo | None = None) -> AsyncIterator[tuple[Loop, Echo, int]]:
    """A loop that runs, with its service and port."""
    loop, service = Loop(), service or Echo()
    port = loop.listen("127.0.0.1", 0, service)
    try:
        with trio.fail_after(LIMIT_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(loop.run)
                yield loop, service, port
                nursery.cancel_scope.cancel()
    finally:
        loop.close()


async def talk(port: int, data: bytes, count: int) -> list[Command]:
    """Sends ``data`` and waits for ``count`` answers."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        return await talk_on(stream, data, count)


async def talk_on(stream: trio.SocketStream, data: bytes, count: int) -> list[Command]:
    reader, answers = FrameReader(), []
    await stream.send_all(data)
    while len(answers) < count:
        more = await stream.receive_some()
        if not more:
            break
        answers += reader.feed(more)
    return answers


def echo_frame(opaque: int, body: bytes = b"", codec: HeaderCodec = HeaderCodec.JSON, flag: int = 0) -> bytes:
    command = Command(code=GROUP, opaque=opaque, ext={"consumerGroup": "g"}, body=body, codec=codec, flag=flag)
    return encode_frame(command)


BIG_FRAME = encode_frame(Command(code=RequestCode.GET_CONSUME_STATS, opaque=1, ext={"consumerGroup": "g"}))


@pytest.mark.parametrize("codec", HeaderCodec)
async def test_answers_come_in_the_requests_own_codec_and_order(codec: HeaderCodec) -> None:
    async with echo_loop() as (_, _, port):
        answers = await talk(port, b"".join(echo_frame(i, b"x" * i, codec) for i in range(200)), 200)
        assert [a.opaque for a in answers] == list(range(200))
        assert [len(a.body) for a in answers] == list(range(200))
        assert {a.codec for a in answers} == {codec}
        assert answers[0].ext == {"consumerGroup": "g"}
        assert answers[0].flag == RESPONSE_FLAG


async def test_a_frame_in_single_bytes_and_one_larger_than_a_read() -> None:
    async with echo_loop() as (_, _, port), await trio.open_tcp_stream("127.0.0.1", port) as stream:
        for byte in echo_frame(1, b"slow"):
            await stream.send_all(bytes([byte]))
        (answer,) = await talk_on(stream, b"", 1)
        assert answer.body == b"slow"
        large = bytes(range(256)) * 20_000
        assert len(large) > 10 * loop_module.READ_SIZE_BYTES
        answers = await talk_on(stream, echo_frame(2, large) + echo_frame(3, b"after"), 2)
        assert [a.body for a in answers] == [large, b"after"]


async def test_oneway_gets_nothing_back_not_even_an_error() -> None:
    async with echo_loop() as (_, _, port):
        silent = echo_frame(1, flag=ONEWAY_FLAG) + encode_frame(Command(code=9999, opaque=2, flag=ONEWAY_FLAG))
        answers = await talk(port, silent + echo_frame(3), 1)
        assert [a.opaque for a in answers] == [3]


async def test_unknown_codes_missing_fields_and_bugs_are_answered_in_words(caplog: pytest.LogCaptureFixture) -> None:
    async with echo_loop() as (_, _, port):
        commands = (Command(code=9999, opaque=1), Command(code=GROUP, opaque=2), Command(code=HEARTBEAT, opaque=3))
        answers = await talk(port, b"".join(map(encode_frame, commands)), 3)
        assert [a.code for a in answers] == [ResponseCode.REQUEST_CODE_NOT_SUPPORTED, 1, 1]
        assert answers[0].remark == " request type 9999 not supported"
        assert "consumerGroup" in (answers[1].remark or "")
        assert answers[2].remark == "ZeroDivisionError: a bug"
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize(
    "junk",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\n",
        b"\0\0\0\x06\x07\0\0\x02{}",
        b"\0\0\0\x06\0\0\0\x02[]",
        b"\xff" * 64,
    ],
)
async def test_what_is_no_frame_closes_that_connection_and_no_other(junk: bytes) -> None:
    async with echo_loop() as (_, service, port):
        good = await trio.open_tcp_stream("127.0.0.1", port)
        assert await talk(port, junk, 1) == []
        assert len(service.closed) == 1
        assert len(await talk_on(good, echo_frame(1), 1)) == 1
        await good.aclose()


CLIENT_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(194)


async def test_a_tls_client_gets_an_alert_and_the_log_says_what_to_switch(caplog: pytest.LogCaptureFixture) -> None:
    """The connection used to be closed without a byte, and without a line at the default log level."""
    caplog.set_level(logging.INFO)
    async with echo_loop() as (_, service, port):
        for _ in range(3):
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                await stream.send_all(CLIENT_HELLO)
                assert await stream.receive_some() == bytes.fromhex("15030300020228")
                assert await stream.receive_some() == b""
        plain = await trio.open_tcp_stream("127.0.0.1", port)
        secured = trio.SSLStream(plain, ssl.create_default_context(), server_hostname="localhost")
        with pytest.raises(trio.BrokenResourceError) as caught:
            await secured.do_handshake()
        assert "alert handshake failure" in str(caught.value.__cause__)
        await trio.aclose_forcefully(secured)
    assert len(service.closed) == 4
    (line,) = [record.getMessage() for record in caplog.records]  # one line, however many clients come
    assert f"protocol=TLS service=echo port={port} peer=127.0.0.1:" in line
    assert "switch it off in the client" in line


@pytest.mark.parametrize(
    ("request_line", "answer", "logged"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 400 Bad Request\r\n", "protocol=HTTP service=echo"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"", "protocol=HTTP/2 service=echo"),
    ],
)
async def test_an_http_request_is_told_where_to_go(
    request_line: bytes, answer: bytes, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says it, and a client of HTTP/1 also gets an answer in its own protocol."""
    caplog.set_level(logging.INFO)
    async with echo_loop() as (_, service, port), await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(request_line)
        answered = b"".join([data async for data in stream])
    assert answered.startswith(answer)
    assert bool(answered) == bool(answer)
    assert not answered or b"--metrics-port" in answered
    assert len(service.closed) == 1
    (line,) = [record.getMessage() for record in caplog.records]
    assert logged in line


class Cipher:
    """A pump that inverts every byte, and has a greeting to send before any frame."""

    def __init__(self) -> None:
        self.wants_to_write = False
        self.opens_by_s = math.inf
        self.came = 0

    def received(self, data: memoryview) -> bytes:
        self.wants_to_write = not self.came
        self.came += len(data)
        return bytes(255 - byte for byte in data)

    def to_send(self, frames: Sequence[bytes]) -> bytes:
        greeting, self.wants_to_write = b"hello" if self.wants_to_write else b"", False
        return greeting + bytes(255 - byte for byte in b"".join(frames))


async def test_another_pump_stands_between_socket_and_frames() -> None:
    """Like TLS, the pump writes by itself, and received bytes become frames only after it has decoded them."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as peer:
        async with echo_loop() as (loop, service, _):
            connection = loop.adopt(listener.accept()[0], service, pump=Cipher())
            frame = bytes(255 - byte for byte in echo_frame(1, b"the body"))
            for piece in (frame[:3], frame[3:20], frame[20:]):
                await trio.to_thread.run_sync(peer.sendall, piece)
            assert await trio.to_thread.run_sync(peer.recv, 5, socket.MSG_WAITALL) == b"hello"
            reader = FrameReader()
            while not (answers := reader.feed(bytes(255 - b for b in await trio.to_thread.run_sync(peer.recv, 1000)))):
                pass
            assert [answer.body for answer in answers] == [b"the body"]
            assert connection.held_bytes == 0


async def test_a_peer_that_does_not_read_is_not_read_from_and_gets_all_in_the_end() -> None:
    async with echo_loop() as (_, _, port):
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            await stream.send_all(BIG_FRAME * 20)
            assert len(await talk(port, echo_frame(1), 1)) == 1  # others are served meanwhile
            answers = await talk_on(stream, b"", 20)
            assert [len(a.body) for a in answers] == [1 << 20] * 20


async def test_a_peer_that_never_reads_is_closed_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NoLimits, "max_unread_bytes_per_connection", 1 << 20)
    async with echo_loop() as (_, service, port):
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        await stream.send_all(echo_frame(1))
        while service.last is None:
            await trio.sleep(0)
        while not service.last.closed:
            service.last.send(bytes(1 << 20))
            await trio.sleep(0)
        await stream.aclose()
        assert service.closed == [service.last]


@pytest.mark.slow
async def test_many_large_answers_are_made_only_as_fast_as_the_peer_reads_them() -> None:
    """64 KiB of small requests asked for 700 answers of 1 MiB. All of them used to be made in one round, before any was
    sent."""
    async with echo_loop() as (_, service, port):
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        count = loop_module.READ_SIZE_BYTES // len(BIG_FRAME)
        async with stream:
            await stream.send_all(BIG_FRAME * count)
            assert len(await talk(port, echo_frame(1), 1)) == 1  # others have their turn meanwhile
            assert service.big_count < 20
            reader, found = FrameReader(), 0
            while found < count:
                answers = reader.feed(await stream.receive_some())
                assert all(len(answer.body) == 1 << 20 for answer in answers)
                found += len(answers)
            assert service.big_count == count
            assert len(await talk_on(stream, echo_frame(2), 1)) == 1


async def test_who_is_refused_rests_and_others_come_between() -> None:
    """Two connections are ready before the first turn: one with 10 requests past its limit, the other with one
    request."""
    served: list[tuple[Connection, int]] = []

    class Limiter:
        wants_ext = False

        def admit(self, request: Request[Any], ext: Mapping[str, str], connection: Connection) -> None:
            served.append((connection, request.opaque))
            if request.opaque:
                connection.rest()
                raise Refused(ResponseCode.SYSTEM_BUSY, "too many")

    with ExitStack() as stack, socket.create_server(("127.0.0.1", 0)) as listener:
        async with echo_loop() as (loop, service, _):
            service.use_gate(GatePlace.RATES, Limiter())
            connections = []
            for data in (b"".join(echo_frame(1 + number) for number in range(10)), echo_frame(0)):
                peer = stack.enter_context(socket.create_connection(listener.getsockname()))
                connections.append(loop.adopt(listener.accept()[0], service))
                peer.sendall(data)
            while len(served) < 11:
                await trio.sleep(0)
    flood, other = connections
    assert [opaque for connection, opaque in served if connection is flood] == list(range(1, 11))  # none is lost
    assert served.index((other, 0)) < 3


class Tired(Echo):
    """Answers with so many bytes what Echo answers with many, and its connection rests then."""

    def __init__(self, answer_bytes: int):
        super().__init__()
        self._answer_bytes = answer_bytes

    def big(self, request: Request[ConsumerGroupHeader], connection: Connection) -> bytes:
        connection.rest()
        return success(request, None, bytes(self._answer_bytes))


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Connection]:
    """The connections that the loop serves, one entry each time."""
    served: list[Connection] = []
    serve = Connection.serve
    monkeypatch.setattr(Connection, "serve", lambda self, *how: (served.append(self), serve(self, *how))[1])
    return served


async def test_who_rests_is_not_read_again_once_the_peer_has_read_its_answer(
    served: list[Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop went round as fast as it could until the rest ended: the socket had input that nobody took."""
    monkeypatch.setattr(loop_module, "REST_S", LIMIT_S)
    async with echo_loop(Tired(15 << 20)) as (_, _, port), await trio.open_tcp_stream("127.0.0.1", port) as stream:
        assert len(await talk_on(stream, BIG_FRAME, 1)) == 1
        await stream.send_all(echo_frame(2))
        served.clear()
        for _ in range(200):
            await trio.sleep(0)
        assert len(served) < 5


async def test_who_rests_while_its_peer_goes_is_closed_when_its_rest_ends(
    served: list[Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Epoll always tells of the peer's end, in each round."""
    monkeypatch.setattr(loop_module, "REST_S", 0.3)
    async with echo_loop(Tired(0)) as (loop, _, port):
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        assert len(await talk_on(stream, BIG_FRAME, 1)) == 1
        served.clear()
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
        await stream.aclose()
        while loop.connections:
            await trio.sleep(0.01)
        assert len(served) < 5


async def test_a_mistake_of_ours_closes_one_connection_and_not_the_server(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: Connection, answer: Command) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(Connection, "answered", fail)
    async with echo_loop() as (_, service, port):
        assert await talk(port, encode_frame(Command(code=0, flag=RESPONSE_FLAG)), 1) == []
        assert len(await talk(port, echo_frame(1), 1)) == 1
        while len(service.closed) < 2:
            await trio.sleep(0.001)
    assert "ZeroDivisionError" in caplog.text


async def test_a_service_that_is_paused_accepts_nobody_when_there_are_descriptors_again() -> None:
    """A broker that was closed because its role changed used to get requests."""
    other, after, is_out = Echo(), Echo(), trio.Event()

    def accept(self: socket.socket) -> tuple[socket.socket, Any]:
        is_out.set()
        raise OSError(errno.EMFILE, "out of descriptors")

    async with echo_loop() as (loop, before, port):
        other_port = loop.listen("127.0.0.1", 0, other)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(socket.socket, "accept", accept)
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            await stream.send_all(echo_frame(1))
            await is_out.wait()
            loop.pause(before, lambda connection: True)
        for _ in range(2):
            assert len(await talk(other_port, echo_frame(1), 1)) == 1  # it accepts again
        assert before.last is None
        loop.hand_over(before, after)
        async with stream:
            assert len(await talk_on(stream, b"", 1)) == 1
        assert after.last is not None


async def test_who_goes_on_is_read_while_its_service_is_paused() -> None:
    """A slave copies the tables of a master that lets its clients wait."""
    async with echo_loop() as (loop, before, port):
        client, slave = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(2)]
        async with client, slave:
            await talk_on(client, echo_frame(1), 1)
            await talk_on(slave, echo_frame(1), 1)
            goes_on = before.last
            loop.pause(before, lambda connection: True, lambda connection: connection is goes_on)
            await client.send_all(echo_frame(1))
            for _ in range(3):
                assert len(await talk_on(slave, echo_frame(1), 1)) == 1
            assert before.last is goes_on
            loop.resume(before)
            assert len(await talk_on(client, b"", 1)) == 1


async def connected(service: Echo, port: int) -> tuple[trio.SocketStream, Connection]:
    """Both ends of a new connection."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    await talk_on(stream, echo_frame(1), 1)
    assert service.last is not None
    return stream, service.last


async def test_unread_answers_are_bounded_over_all_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection that holds the most is closed, not the latest one."""
    monkeypatch.setattr(loop_module, "UNSENT_TOTAL_MAX_BYTES", 24 << 20)
    async with echo_loop() as (_, service, port):
        (large, large_end), (small, small_end) = [await connected(service, port) for _ in range(2)]
        large_end.send(bytes(20 << 20))
        small_end.send(bytes(16 << 20))
        while not large_end.closed:
            await trio.sleep(0.001)
        assert not small_end.closed
        await large.aclose()
        await small.aclose()


async def test_answers_that_other_doors_keep_are_bounded_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "UNSENT_TOTAL_MAX_BYTES", 24 << 20)
    async with echo_loop() as (_, service, port):
        (large, large_end), (small, small_end) = [await connected(service, port) for _ in range(2)]
        large_end.keeps(20 << 20)
        small_end.keeps(3 << 20)
        assert not large_end.closed
        small_end.keeps(16 << 20)
        assert large_end.closed, "it keeps most"
        small_end.keeps(23 << 20)
        assert not small_end.closed, "what the other kept is gone"
        await large.aclose()
        await small.aclose()


async def test_a_peer_that_has_left_is_known_before_all_is_read() -> None:
    async with echo_loop() as (_, service, port):
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        await talk_on(stream, echo_frame(1), 1)
        end = service.last
        assert not end.has_peer_left()
        await stream.send_all(echo_frame(2)[:10])
        await stream.aclose()
        assert end.has_peer_left()
        while not end.closed:
            await trio.sleep(0.001)
        assert end.has_peer_left()


async def test_incomplete_frames_are_bounded_over_all_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that held just under the limit used to make the server close every other connection that sent a frame in
    two pieces."""
    monkeypatch.setattr(loop_module, "HELD_TOTAL_MAX_BYTES", 1000)
    async with echo_loop() as (_, service, port):
        hoarder = await trio.open_tcp_stream("127.0.0.1", port)
        assert len(await talk_on(hoarder, echo_frame(1) + echo_frame(2, bytes(5000))[:990], 1)) == 1
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        frame = echo_frame(3, bytes(100))
        await stream.send_all(frame[:150])
        assert await hoarder.receive_some() == b""
        assert len(await talk_on(stream, frame[150:], 1)) == 1
        assert len(service.closed) == 1
        await stream.aclose()
        await hoarder.aclose()


async def test_requests_to_a_client_are_answered_or_end_with_none() -> None:
    async with echo_loop() as (_, service, port):
        answers: list[bytes | None] = []

        def on_answer(answer: Command | None) -> None:
            answers.append(answer.body if answer else None)

        stream = await trio.open_tcp_stream("127.0.0.1", port)
        await talk_on(stream, echo_frame(1), 1)
        assert service.last is not None
        for timeout_s in (30, 30, 0):
            service.last.ask(307, ConsumerGroupHeader(consumer_group="g"), b"", on_answer, timeout_s)
        asked = await talk_on(stream, b"", 3)
        await talk_on(stream, encode_frame(Command(code=0, opaque=asked[0].opaque, flag=RESPONSE_FLAG, body=b"a")), 0)
        while len(answers) < 2:  # one is answered, one is late
            await trio.sleep(0.01)
        await stream.aclose()
        while len(answers) < 3:  # and one loses its connection
            await trio.sleep(0.01)
        assert sorted(answers, key=str) == [None, None, b"a"]


async def test_posted_calls_from_other_threads_run_in_the_loop() -> None:
    async with echo_loop() as (loop, _, _port):
        done = trio.Event()
        await trio.to_thread.run_sync(loop.post, done.set)
        await done.wait()


async def test_a_port_in_use_is_a_usage_error_with_a_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        async with echo_loop() as (loop, service, _):
            with pytest.raises(UsageError, match="cannot listen") as caught:
                loop.listen("127.0.0.1", taken.getsockname()[1], service)
        assert "port 0" in (caught.value.hint or "")


async def test_a_connection_that_the_system_does_not_watch_is_let_go() -> None:
    """It stayed among the connections with a closed socket, and the next sweep of idle ones ended the server."""

    class Full:
        def register(self, fd: int, events: int) -> None:
            raise OSError(errno.ENOSPC, "no room for another watch")

    async with echo_loop() as (loop, _, port):
        epoll, loop._epoll = loop._epoll, Full()  # type: ignore[assignment]
        with socket.create_connection(("127.0.0.1", port)) as refused:
            loop._accept(next(iter(loop._listeners)))
            loop._epoll = epoll
            assert refused.recv(1) == b""
        assert (loop.connections, loop._counts, loop._origins) == ([], {}, {})


async def test_what_is_queued_at_the_end_is_still_sent() -> None:
    """At its end the broker acknowledges what its last flush covered. Clients without an answer would send again."""
    loop, service = Loop(), Echo()
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as peer:
        accepted, _ = listener.accept()
        loop.adopt(accepted, service).send(b"the last answer")
        loop.close()
        assert peer.recv(100) == b"the last answer"
    assert len(service.closed) == 1
