"""Members of etcd that do not answer, or answer nonsense: an error that names them, and the next one is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from rmqproto.errors import UsageError
from rmqserver.controller.quorum.etcd import EtcdError
from rmqserver.controller.quorum.etcd_gateway import EtcdGateway

TIMEOUT_S = 60
_REFUSED = (
    b'{"error":"etcdserver: requested lease not found","message":"etcdserver: requested lease not found","code":5}'
    b"Grpc-Trailer-Content-Type: application/grpc\r\n"
)
_CHUNK = b"%x\r\n%s\r\n0\r\n\r\n" % (len(_REFUSED), _REFUSED)
REFUSAL = b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n" + _CHUNK
"""As 3.4 writes it, with the trailer in the body."""


def ok(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


GOOD = ok(b'{"header":{"revision":"7"},"ID":"12","TTL":"5"}')


@asynccontextmanager
async def member(answer: bytes | None) -> AsyncIterator[str]:
    """The URL of one that always says this; None: nothing."""

    async def serve(stream: trio.SocketStream) -> None:
        request = b""
        while not request.endswith(b"}"):
            request += await stream.receive_some()
        if answer is None:
            await trio.sleep_forever()
        else:
            await stream.send_all(answer)

    async with trio.open_nursery() as nursery:
        listeners: list[trio.SocketListener] = await nursery.start(
            lambda task_status: trio.serve_tcp(serve, 0, host="127.0.0.1", task_status=task_status)
        )
        yield f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        nursery.cancel_scope.cancel()


@pytest.mark.trio
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (REFUSAL, "404 etcdserver: requested lease not found$"),
        (b"HTTP/1.1 502 Bad\x00 Gateway\r\n\r\n<html>\x1b[2J", r"502 <html>\?\[2J$"),
        (b"\x15\x03\x01\x00\x02", r"grant: \?+$"),
        (b"", "closed connection"),
        (ok(b""), "truncated"),
        (ok(b'{"TTL":"5"}'), "missing required field `ID`"),
        (ok(b'{"ID":"x"}'), "Expected `int`"),
        (ok(b'{"ID":"99999999999999999999"}'), "Expected `int`"),
        (ok(b'{"ID":"1\xff"}'), "Expected `int`"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", "truncated"),
    ],
)
async def test_an_answer_that_is_none(answer: bytes, said: str) -> None:
    async with member(answer) as bad, member(GOOD) as good:
        gateway = EtcdGateway([bad, good], TIMEOUT_S)
        with pytest.raises(EtcdError, match=said) as caught:
            await gateway.grant(5)
        assert bad in str(caught.value)
        assert await gateway.grant(5) == 12, "the next one was asked"
        assert await gateway.grant(5) == 12, "and is asked again"


@pytest.mark.trio
async def test_a_member_that_says_nothing_or_is_not_there() -> None:
    async with member(None) as silent, member(GOOD) as good:
        gateway = EtcdGateway([silent, "http://127.0.0.1:1", good], 0.2)
        with pytest.raises(EtcdError, match=r"no answer in 0\.2 s|timed out"):
            await gateway.grant(5)
        with pytest.raises(EtcdError, match=r"127\.0\.0\.1:1/v3/lease/grant"):
            await gateway.grant(5)


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("10.0.0.1:2379", "http://HOST:2379"),
        ("http://", "http://HOST:2379"),
        ("ftp://h:1", "http://HOST:2379"),
        ("http://h:70000", "0-65535"),
        ("http://h:2379/v3", "http://HOST:2379"),
        ("http://root:secret@h:2379", "users of etcd are not known here"),
    ],
)
def test_what_is_no_url(url: str, what: str) -> None:
    with pytest.raises(UsageError, match=what) as caught:
        EtcdGateway([url], 1)
    assert "secret" not in str(caught.value)
