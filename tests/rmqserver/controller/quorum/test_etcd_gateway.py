"""Members of etcd that do not answer, or answer nonsense: the error names them, and the next one is asked."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from rmqproto.errors import UsageError
from rmqserver.controller.quorum.etcd import EtcdError
from rmqserver.controller.quorum.etcd_gateway import EtcdAccess, EtcdGateway
from tests.support.quick import in_one_test

TIMEOUT_S = 60
_REFUSED = (
    b'{"error":"etcdserver: requested lease not found","message":"etcdserver: requested lease not found","code":5}'
    b"Grpc-Trailer-Content-Type: application/grpc\r\n"
)
_CHUNK = b"%x\r\n%s\r\n0\r\n\r\n" % (len(_REFUSED), _REFUSED)
REFUSAL = b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n" + _CHUNK
"""As etcd 3.4 writes it, with the trailer in the body."""


def ok(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


GOOD = ok(b'{"header":{"revision":"7"},"ID":"12","TTL":"5"}')


@asynccontextmanager
async def member(answer: bytes | Callable[[bytes], bytes] | None) -> AsyncIterator[str]:
    """The URL of a member that always answers ``answer``, or what that returns for a request; with None it never
    answers."""

    async def serve(stream: trio.SocketStream) -> None:
        request = b""
        while not request.endswith(b"}"):
            request += await stream.receive_some()
        if answer is None:
            await trio.sleep_forever()
        else:
            await stream.send_all(answer(request) if callable(answer) else answer)

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


@in_one_test(
    ("10.0.0.1:2379", "http://HOST:2379"),
    ("http://", "http://HOST:2379"),
    ("ftp://h:1", "http://HOST:2379"),
    ("http://h:70000", "0-65535"),
    ("http://h:0", "'0' is not a port"),
    ("http://h:2379/v3", "http://HOST:2379"),
    ("http://root:secret@h:2379", "a user of etcd stands in settings"),
)
def test_what_is_no_url(url: str, what: str) -> None:
    with pytest.raises(UsageError, match=what) as caught:
        EtcdGateway([url], 1)
    assert "secret" not in str(caught.value)


UNKNOWN_TOKEN = b'{"error":"etcdserver: invalid auth token","code":16}'


@pytest.mark.trio
@pytest.mark.parametrize("refusal", [UNKNOWN_TOKEN, b'{"message":"etcdserver: revision of auth store is old"}'])
async def test_a_user_gets_another_token_when_one_ends(tmp_path: Path, refusal: bytes) -> None:
    password = tmp_path / "password"
    password.write_text("first\n")
    taken, seen = {b"first": b"t1", b"second": b"t2"}, list[bytes]()
    valid = b"t1"

    def answer(request: bytes) -> bytes:
        head, _, body = request.partition(b"\r\n\r\n")
        if b"/v3/auth/authenticate" in head:
            seen.append(body)
            token = next(token for word, token in taken.items() if b'"password":"%s"' % word in body)
            return ok(b'{"token":"%s"}' % token)
        if b"Authorization: " + valid in head:
            return GOOD
        return b"HTTP/1.1 401 Unauthorized\r\nContent-Length: %d\r\n\r\n%s" % (len(refusal), refusal)

    async with member(answer) as url:
        gateway = EtcdGateway([url], TIMEOUT_S, EtcdAccess("controller", str(password)))
        assert [await gateway.grant(5) for _ in range(2)] == [12, 12]
        assert len(seen) == 1
        valid = b"t2"
        password.write_text("second\n")
        assert await gateway.grant(5) == 12
        assert len(seen) == 2
        valid = b"none"
        with pytest.raises(EtcdError, match=r"401 .*auth"):
            await gateway.grant(5)
        assert len(seen) == 3, "it does not ask for ever"
        password.unlink()
        with pytest.raises(EtcdError, match="etcdPasswordPath="):
            await gateway.grant(5)


@in_one_test(
    (EtcdAccess(user_name="a"), "belong together"),
    (EtcdAccess(password_path="/p"), "belong together"),
    (EtcdAccess(user_name="a", password_path="/nowhere/p"), "etcdPasswordPath=/nowhere/p: .*No such file"),
    (EtcdAccess(key_path="/k"), "no etcdCertPath"),
    (EtcdAccess(ca_path="/nowhere/ca"), "etcdCaPath=/nowhere/ca: .*No such file"),
    (EtcdAccess(cert_path="/nowhere/c", key_path="/k"), "etcdCertPath=/nowhere/c, etcdKeyPath=/k: .*No such file"),
)
def test_what_lets_nobody_in(access: EtcdAccess, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        EtcdGateway(["https://127.0.0.1:2379"], 1, access)


def test_certificates_are_of_no_use_without_https() -> None:
    with pytest.raises(UsageError, match="https:// URLs alone"):
        EtcdGateway(["https://127.0.0.1:2379", "http://127.0.0.1:2379"], 1, EtcdAccess(ca_path="/ca"))
