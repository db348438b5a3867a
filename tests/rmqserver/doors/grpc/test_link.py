"""What peers of HTTP/2 may do that no good client does."""

from __future__ import annotations

import gc
import gzip
import socket
import ssl
import struct
import weakref
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import h2.config
import h2.connection
import h2.events
import h2.settings
import pytest

from rmqproto.codes import RequestCode
from rmqserver.core.header_blocks import encode_block
from rmqserver.doors.grpc.call_bytes import MESSAGE_SIZE_MAX_BYTES
from rmqserver.doors.grpc.codes import Code, GrpcStatus
from rmqserver.doors.grpc.http2 import FRAMES_AT_ONCE_MIN
from rmqserver.doors.grpc.link import LEFT_MAX, CallKind, GrpcCall, Link
from rmqserver.doors.grpc.messages import CLASSES
from rmqserver.remoting.connection import Connection
from tests.rmqserver.doors.grpc.calls import Connect, TopicAndGroup, receive, receive_request, send
from tests.support.grpc_client import GrpcClient, GrpcError
from tests.support.servers import Server

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
GRPC = (b"content-type", b"application/grpc")


def whole_call(stream: int, headers: list[tuple[bytes, bytes]]) -> bytes:
    block = encode_block(headers)
    return b"".join((
        struct.pack(">IBI", len(block) << 8 | 1, 4, stream), block, struct.pack(">IBI", 5 << 8, 1, stream), bytes(5),
    ))  # fmt: skip


def _route(client: GrpcClient) -> int:
    return int(client.call("QueryRoute", {"topic": {"name": "Golden_Normal"}}).status.code)


def test_both_generations_come_by_one_port(typed_server: Server, wire: object, client: GrpcClient) -> None:
    assert _route(client) == Code.OK


def test_tls_agrees_on_http_2_by_one_port_with_plain_connections(typed_server: Server) -> None:
    """grpc-java ends a connection on which the server does not choose a protocol."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2", "http/1.1"])
    with GrpcClient(typed_server.broker_addr, tls=context) as client:
        assert isinstance(client.socket, ssl.SSLSocket)
        assert client.socket.selected_alpn_protocol() == "h2"
        assert _route(client) == Code.OK


def test_a_body_of_four_megabytes_passes_and_one_more_byte_does_not(
    client: GrpcClient, topic_and_group: TopicAndGroup
) -> None:
    topic, group = topic_and_group()
    body = b"x" * (4 << 20)
    assert send(client, topic, body).status.code == Code.OK
    assert send(client, topic, body + b"x").status.code == Code.MESSAGE_BODY_TOO_LARGE
    assert [len(each.body) for each in receive(client, topic, group)] == [4 << 20]


def test_a_message_without_end_is_refused(client: GrpcClient) -> None:
    call = client.open("SendMessage")
    client.h2.send_data(call.number, struct.pack(">BI", 0, MESSAGE_SIZE_MAX_BYTES + 1))
    client.flush()
    assert next(call).status.code == Code.MESSAGE_BODY_TOO_LARGE
    assert _route(client) == Code.OK, "the connection goes on"


def _call_compressed(client: GrpcClient, packed: bytes, encoding: str) -> Any:
    call = client.open("QueryRoute", grpc_encoding=encoding)
    client.h2.send_data(call.number, struct.pack(">BI", 1, len(packed)) + packed, end_stream=True)
    client.flush()
    return next(call)


def test_a_message_may_be_compressed_by_gzip(client: GrpcClient) -> None:
    request = CLASSES["QueryRouteRequest"](topic={"name": "Golden_Normal"}).SerializeToString()
    assert _call_compressed(client, gzip.compress(request), "gzip").status.code == Code.OK


def test_what_unpacks_to_very_much_is_refused(client: GrpcClient) -> None:
    packed = gzip.compress(bytes(MESSAGE_SIZE_MAX_BYTES + 1))
    assert len(packed) < 1 << 14, "a frame"
    assert _call_compressed(client, packed, "gzip").status.code == Code.MESSAGE_BODY_TOO_LARGE


@pytest.mark.parametrize(
    ("packed", "encoding", "status"),
    [
        pytest.param(b"abc", "gzip", GrpcStatus.INVALID_ARGUMENT, id="not gzip"),
        pytest.param(gzip.compress(b"")[:-1], "gzip", GrpcStatus.INVALID_ARGUMENT, id="cut off"),
        pytest.param(b"abc", "deflate", GrpcStatus.UNIMPLEMENTED, id="otherwise"),
    ],
)
def test_a_message_that_cannot_be_unpacked_is_refused(
    client: GrpcClient, packed: bytes, encoding: str, status: GrpcStatus
) -> None:
    with pytest.raises(GrpcError) as failed:
        _call_compressed(client, packed, encoding)
    assert failed.value.status == status


@pytest.mark.parametrize("data", [b"", b"\0\0", struct.pack(">BI", 0, 9) + b"half"])
def test_a_call_that_ends_without_a_whole_message_is_refused(client: GrpcClient, data: bytes) -> None:
    call = client.open("SendMessage")
    client.h2.send_data(call.number, data, end_stream=True)
    client.flush()
    with pytest.raises(GrpcError) as failed:
        next(call)
    assert failed.value.status == GrpcStatus.INVALID_ARGUMENT


def test_what_is_no_grpc_is_told_so(client: GrpcClient) -> None:
    stream = client.h2.get_next_available_stream_id()
    headers = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "x")]
    client.h2.send_headers(stream, headers, end_stream=True)
    client.flush()
    answer: Any = client.next_event(stream)
    assert dict(answer.headers)[b":status"] == b"415"


def test_a_flood_of_cancelled_calls_harms_nobody(client: GrpcClient, connect: Connect) -> None:
    for _ in range(500):
        client.open("ReceiveMessage").cancel()
    assert _route(client) == Code.OK
    assert _route(connect("other")) == Code.OK


def test_pings_are_answered(client: GrpcClient) -> None:
    client.h2.ping(b"12345678")
    client.flush()
    assert _route(client) == Code.OK
    assert any(type(event).__name__ == "PingAckReceived" for event in client.events)


def test_a_flood_that_asks_nothing_is_read_again_after_a_rest() -> None:
    connection = Mock(closed=False)
    ping = struct.pack(">IBI", 8 << 8 | 6, 0, 0) + bytes(8)
    Link(connection, Mock()).feed_untrusted(PREFACE + struct.pack(">IBI", 4, 0, 0) + ping * FRAMES_AT_ONCE_MIN)
    connection.rest.assert_called_once_with()
    connection.stop.assert_not_called()


def test_a_plain_call_does_not_outlive_the_role() -> None:
    """Its message waits to be safe, which another broker decides from now on."""
    connection, service = Mock(closed=False, waiting_bytes=0), Mock()
    service.plain_calls.return_value.take.return_value = True
    link = Link(connection, service)
    headers = [
        (b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/x"), (b":authority", b"a"), GRPC,
    ]  # fmt: skip
    link.feed_untrusted(PREFACE + struct.pack(">IBI", 4, 0, 0))
    link.feed_untrusted(whole_call(1, headers))
    link.hand_to(None, [])
    told = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding=None))
    told.initiate_connection()
    told.send_headers(1, headers, end_stream=True)
    events = told.receive_data(b"".join(call.args[0] for call in connection.put_out.call_args_list))
    (ended,) = [event for event in events if isinstance(event, h2.events.ResponseReceived)]
    assert (b"grpc-status", b"14") in ended.headers
    connection.put_out.reset_mock()
    link.answer(1, b"late")
    connection.put_out.assert_not_called()


class Kept:
    """What a call holds until its answer has left."""


def answers_routes(kept: list[weakref.ref[Kept]]) -> CallKind:
    def take(call: GrpcCall, message: Any) -> None:
        held = Kept()
        kept.append(weakref.ref(held))
        call.on_lost = partial(print, call, held)
        call.answer(CLASSES["QueryRouteResponse"]())

    return CallKind("QueryRoute", RequestCode.GET_ROUTEINFO_BY_TOPIC, take)


@pytest.fixture
def without_gc() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def test_a_client_that_has_gone_leaves_nothing_for_the_garbage_collector(without_gc: None) -> None:
    kept: list[weakref.ref[Kept]] = []
    kind = answers_routes(kept)
    service: Any = SimpleNamespace(
        name="broker", plain_calls=lambda: None, kind_of=lambda path: kind, take=kind.take, takers=[],
        handle_untrusted=print, connection_closed=lambda connection: None,
        limits=SimpleNamespace(max_received_bytes_per_connection=0, max_unread_bytes_per_connection=1 << 20),
    )  # fmt: skip
    names = ("mark_dirty", "state_changed", "held_changed", "unsent_changed", "drop")
    loop: Any = SimpleNamespace(**dict.fromkeys(names, lambda *told: None))
    headers = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/x"), GRPC]
    calls = [whole_call(2 * number + 1, headers) for number in range(LEFT_MAX + 2)]
    with (
        socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):  # fmt: skip
        connection = Connection(accepted, loop, service, 1)
        link = Link(connection, service)
        connection.go_through(link, PREFACE + struct.pack(">IBI", 4, 0, 0))
        for call in calls:
            link.feed_untrusted(call)
        alive = [each() is not None for each in kept]
        assert alive == [False, False] + [True] * LEFT_MAX, "a cancel may still cross the last answers"
        connection.close("its client is gone")
        gone = weakref.ref(link)
        del link, connection
    assert gone() is None
    assert {each() for each in kept} == {None}


def test_pings_whose_answers_nobody_reads_come_to_an_end(typed_server: Server, client: GrpcClient) -> None:
    """The broker stops to read, or ends the connection, long before 64 MiB are in its memory or the kernel's."""
    host, _, port = typed_server.broker_addr.rpartition(":")
    pings = (struct.pack(">IBI", 8 << 8 | 6, 0, 0) + bytes(8)) * 10
    with socket.create_connection((host, int(port)), 2) as raw:
        raw.sendall(PREFACE + struct.pack(">IBI", 4, 0, 0))
        with pytest.raises((TimeoutError, ConnectionError)):
            raw.sendall(pings * ((64 << 20) // len(pings)))
    assert _route(client) == Code.OK


@pytest.mark.parametrize("rest", [b"x" * 64, struct.pack(">I", 0xFFFFFF) * 9, PREFACE])
def test_what_breaks_http_2_ends_only_its_connection(typed_server: Server, client: GrpcClient, rest: bytes) -> None:
    host, _, port = typed_server.broker_addr.rpartition(":")
    with socket.create_connection((host, int(port)), 20) as raw:
        raw.sendall(PREFACE + rest)
        said = b""
        while data := raw.recv(1 << 16):
            said += data
    assert said[-17:-8] == b"\0\0\x08\x07\0\0\0\0\0", "the last is a GOAWAY"
    assert _route(client) == Code.OK


def test_headers_without_end_are_refused(typed_server: Server, client: GrpcClient) -> None:
    greedy = GrpcClient(typed_server.broker_addr)
    with pytest.raises((EOFError, ConnectionError)):
        greedy.call("QueryRoute", {"topic": {"name": "Golden_Normal"}}, **{f"x-{n}": "y" * 4000 for n in range(20)})
    greedy.close()
    assert _route(client) == Code.OK


@pytest.mark.slow
def test_a_peer_that_does_not_read_keeps_what_it_may_leave_unread_and_others_get_the_rest(
    client: GrpcClient, topic_and_group: TopicAndGroup, connect: Connect
) -> None:
    topic, group = topic_and_group()
    for _ in range(10):
        send(client, topic, b"x" * (4 << 20))
    deaf = connect("deaf")
    deaf.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
    deaf.flush()
    for _ in range(10):
        deaf.open("ReceiveMessage").send(receive_request(topic, group), is_last=True)
    got_count = 0
    while messages := receive(client, topic, group, wait_s=3):
        got_count += len(messages)
    assert 0 < got_count < 10


def test_a_call_that_is_cancelled_at_once_leaves_the_others_alone(client: GrpcClient) -> None:
    """Question and cancellation come with the same bytes."""
    flush, client.flush = client.flush, lambda: None  # type: ignore[method-assign]
    call = client.open("QueryRoute")
    raw = CLASSES["QueryRouteRequest"](topic={"name": "Golden_Normal"}).SerializeToString()
    call.send(raw, is_last=True)
    call.cancel()
    client.flush = flush  # type: ignore[method-assign]
    client.flush()
    assert _route(client) == Code.OK
