"""etcd over its JSON gateway: POST requests whose bodies are its messages as JSON, with keys and values in base64 and
64-bit numbers as text (``/v3/...``, 3.4 and newer). A call is one connection, in a thread of its own, because the
standard library's client for HTTP blocks; there is about one a second."""

from __future__ import annotations

import base64
import binascii
import contextlib
import http.client
import ssl
from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
import trio

from rmqproto.errors import UsageError
from rmqproto.java_numbers import Int64
from rmqserver.controller.quorum.etcd import EtcdError, KeyCondition, KeyPut, KeyValue, TxnResult

ANSWER_MAX_BYTES = 64 << 20
PAGE_KEYS = 500
"""Of a range. A key holds up to half a megabyte."""

_HEADERS = {"Content-Type": "application/json"}
_REASON_CHARS_MAX = 200


class _Header(msgspec.Struct):
    revision: Int64 = 0


class _KeyValue(msgspec.Struct):
    """What is 0 or empty is left out, here and below."""

    key: str = ""
    value: str = ""
    create_revision: Int64 = 0
    mod_revision: Int64 = 0


class _Range(msgspec.Struct):
    header: _Header = msgspec.field(default_factory=_Header)
    kvs: list[_KeyValue] = []
    more: bool = False


class _Operation(msgspec.Struct):
    response_range: _Range = msgspec.field(default_factory=_Range)


class _Txn(msgspec.Struct):
    header: _Header = msgspec.field(default_factory=_Header)
    succeeded: bool = False
    responses: list[_Operation] = []


class _Lease(msgspec.Struct, rename="upper"):
    id: Int64
    ttl: Int64 = 0


class _KeptAlive(msgspec.Struct):
    result: _Lease


class _Refusal(msgspec.Struct):
    message: str = ""


A = TypeVar("A")


class EtcdGateway:
    """The members of one etcd, by the URLs of their clients' ports. The one that answered last is asked next, until it
    fails."""

    def __init__(self, urls: Sequence[str], timeout_s: float):
        """UsageError for what is no such URL."""
        self._members = [_member(url) for url in urls]
        self._at = 0
        self._timeout_s = timeout_s

    async def grant(self, ttl_s: int) -> int:
        return (await self._call("/v3/lease/grant", {"TTL": ttl_s}, _Lease)).id

    async def keep_alive(self, lease: int) -> int:
        return (await self._call("/v3/lease/keepalive", {"ID": str(lease)}, _KeptAlive)).result.ttl

    async def revoke(self, lease: int) -> None:
        await self._call("/v3/lease/revoke", {"ID": str(lease)}, _Header)

    async def get(self, key: str) -> KeyValue | None:
        return _only(await self._call("/v3/kv/range", {"key": _packed(key)}, _Range))

    async def get_all(self, prefix: str) -> list[KeyValue]:
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        found: list[KeyValue] = []
        start, revision = prefix, 0
        while True:
            page = await self._call(
                "/v3/kv/range",
                {"key": _packed(start), "range_end": _packed(end), "limit": PAGE_KEYS, "revision": str(revision)},
                _Range,
            )
            found += map(_unpacked, page.kvs)
            if not page.more:
                return found
            start, revision = found[-1].key + "\0", revision or page.header.revision

    async def txn(
        self,
        conditions: Sequence[KeyCondition],
        puts: Sequence[KeyPut],
        deletes: Sequence[str] = (),
        otherwise: Sequence[str] = (),
    ) -> TxnResult:
        body = {
            "compare": [
                {
                    "key": _packed(each.key),
                    "target": each.target.value,
                    "result": "EQUAL",
                    f"{each.target.value.lower()}_revision": str(each.revision),
                }
                for each in conditions
            ],
            "success": [
                *(
                    {"requestPut": {"key": _packed(put.key), "value": _packed(put.value), "lease": str(put.lease)}}
                    for put in puts
                ),
                *({"requestDeleteRange": {"key": _packed(key)}} for key in deletes),
            ],
            "failure": [{"requestRange": {"key": _packed(key)}} for key in otherwise],
        }
        answer = await self._call("/v3/kv/txn", body, _Txn)
        found = () if answer.succeeded else tuple(_only(each.response_range) for each in answer.responses)
        return TxnResult(answer.succeeded, answer.header.revision, found)

    async def _call(self, path: str, body: dict[str, Any], answer: type[A]) -> A:
        member = self._members[self._at]
        try:
            with trio.fail_after(self._timeout_s):
                status, data = await trio.to_thread.run_sync(
                    member.post, path, msgspec.json.encode(body), self._timeout_s, abandon_on_cancel=True
                )
            if status != http.client.OK:
                raise EtcdError(f"{member.url}{path}: {status} {_reason(data)}")
            return msgspec.json.decode(data, type=answer, strict=False)
        except EtcdError:
            self._next_member()
            raise
        except (OSError, http.client.HTTPException, msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._next_member()
            raise EtcdError(f"{member.url}{path}: {_shown(str(error) or type(error).__name__)}") from error
        except trio.TooSlowError:
            self._next_member()
            raise EtcdError(f"{member.url}{path}: no answer in {self._timeout_s:g} s") from None

    def _next_member(self) -> None:
        self._at = (self._at + 1) % len(self._members)


class _Member:
    def __init__(self, url: str, host: str, port: int, context: ssl.SSLContext | None):
        self.url = url
        self._host = host
        self._port = port
        self._context = context

    def post(self, path: str, body: bytes, timeout_s: float) -> tuple[int, bytes]:
        """Status and body of the answer. Blocks; OSError or HTTPException without one."""
        connection = (
            http.client.HTTPSConnection(self._host, self._port, timeout=timeout_s, context=self._context)
            if self._context is not None
            else http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)
        )
        try:
            connection.request("POST", path, body, _HEADERS)
            answer = connection.getresponse()
            data = answer.read(ANSWER_MAX_BYTES)
            if not answer.isclosed() and answer.read(1):
                raise http.client.HTTPException(f"more than {ANSWER_MAX_BYTES} bytes")
            return answer.status, data
        finally:
            connection.close()


def _member(url: str) -> _Member:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{url}: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
        raise UsageError(f"{url}: http://HOST:2379 or https://HOST:2379 is needed")
    if parts.username is not None:
        raise UsageError(f"{parts.hostname}: users of etcd are not known here", hint="guard its port by TLS or network")
    # The certificates that the system trusts, or those that SSL_CERT_FILE names.
    context = ssl.create_default_context() if parts.scheme == "https" else None
    return _Member(url.rstrip("/"), parts.hostname, port or 2379, context)


def _packed(data: str | bytes) -> str:
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode()


def _unpacked(found: _KeyValue) -> KeyValue:
    try:
        key = base64.b64decode(found.key, validate=True).decode()
        value = base64.b64decode(found.value, validate=True)
    except (binascii.Error, UnicodeDecodeError) as error:
        raise EtcdError(f"etcd: a key or value that cannot be read: {error}") from None
    return KeyValue(key, value, found.create_revision, found.mod_revision)


def _only(found: _Range) -> KeyValue | None:
    return _unpacked(found.kvs[0]) if found.kvs else None


def _reason(data: bytes) -> str:
    """What a refusal says: JSON, and behind it maybe a trailer of gRPC."""
    text = data.decode(errors="replace").strip()
    body, brace, _ = text.rpartition("}")
    with contextlib.suppress(msgspec.MsgspecError):
        text = msgspec.json.decode(body + brace, type=_Refusal).message or text
    return _shown(text)


def _shown(text: str) -> str:
    return "".join(one if one.isprintable() else "?" for one in text[:_REASON_CHARS_MAX])
