"""Clients behind a load balancer that sends PROXY headers."""

import gc
import socket
import weakref

import pytest

from rmqproto.bodies.groups import Heartbeat, ProducerConnection, ProducerData
from rmqproto.codes import RequestCode as R
from rmqproto.wire import fastjson
from rmqproto.wire.proxy_header import SIGNATURE
from rmqserver.remoting.pump import PLAIN, ProxyPump
from tests.support.servers import Server
from tests.support.wire import Wire

LINE = b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 10911\r\n"
LOCAL = SIGNATURE + b"\x20\0\0\0"


@pytest.mark.parametrize("start", [LINE, LOCAL, b""])
@pytest.mark.parametrize("step", [1, 1000])
def test_the_bytes_behind_the_header_go_on_in_any_pieces(start: bytes, step: int) -> None:
    sources: list[str | None] = []
    pump = ProxyPump(PLAIN, sources.append)
    data, passed = start + b"\0\0\0\1frame", b""
    while data and not sources:
        passed += pump.received(memoryview(data[:step]))
        data = data[step:]
    assert sources == ["192.0.2.1:56324" if start == LINE else None]
    assert passed + data == b"\0\0\0\1frame"


def test_what_has_been_passed_through_is_freed_at_once() -> None:
    """A connection that was over stayed, with its socket and buffers, until the garbage collector looked for cycles,
    which the broker makes it do seldom."""
    pump = ProxyPump(PLAIN, lambda source: None)
    pump.received(memoryview(b"\0\0\0\1"))
    seen = weakref.ref(pump)
    gc.disable()
    try:
        del pump
        assert seen() is None
    finally:
        gc.enable()


def test_the_address_in_the_header_is_the_client_s(server: Server) -> None:
    with Wire(server.broker_addr) as client:
        client.send(LINE)
        body = Heartbeat(client_id="C", producer_data_set=[ProducerData(group_name="Behind")])
        assert client.ask(R.HEART_BEAT, body=fastjson.dumps(body)).code == 0
        answer = client.ask(R.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "Behind"})
    (found,) = fastjson.loads_untrusted(answer.body, ProducerConnection).connection_set
    assert found.client_addr == "192.0.2.1:56324"


@pytest.mark.parametrize("start", [b"PROXY ZZZ\r\n", LINE * 2])
def test_a_bad_header_closes_the_connection(server: Server, start: bytes) -> None:
    host, _, port = server.broker_addr.rpartition(":")
    with socket.create_connection((host, int(port)), 20) as client:
        client.sendall(start)
        assert client.recv(1) == b""
