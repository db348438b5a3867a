"""etcd over its JSON gateway (``/v3/...``, 3.4 and newer): POST requests whose bodies are its messages as JSON, with
keys and values in base64 and 64-bit numbers as text. Each call is one connection in its own thread, because the HTTP
client of the standard library blocks; there are about two a second."""

from __future__ import annotations

import base64
import binascii
import contextlib
import http.client
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
import trio

from rmqproto.errors import UsageError
from rmqproto.java.java_numbers import Int64
from rmqserver.controller.quorum.etcd import EtcdError, KeyCondition, KeyPut, KeyValue, TxnResult
from rmqserver.controller.quorum.etcd_access import EtcdAccess
from rmqserver.controller.quorum.etcd_member import EtcdMember

PAGE_KEYS = 500
"""Keys in one page of a range. A key's value may take half a megabyte."""

_REASON_CHARS_MAX = 200
_TOKEN_REFUSED = re.compile(rb"invalid auth token|auth store is old")


class _Header(msgspec.Struct):
    revision: Int64 = 0


class _KeyValue(msgspec.Struct):
    """etcd leaves out fields that are 0 or empty, here and below."""

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


class _Watched(msgspec.Struct):
    canceled: bool = False
    cancel_reason: str = ""


class _News(msgspec.Struct):
    result: _Watched


class _Token(msgspec.Struct):
    token: str


class _Refusal(msgspec.Struct):
    message: str = ""


A = TypeVar("A")
Ask = Callable[[EtcdMember, str, bytes, str, float], tuple[int, bytes]]


class EtcdGateway:
    """The members of one etcd, by their client URLs. The same member is asked until it fails."""

    def __init__(self, urls: Sequence[str], timeout_s: float, access: EtcdAccess | None = None):
        """Raises UsageError for an invalid URL, and for files of ``access`` that cannot be used."""
        access = access or EtcdAccess()
        access.check(tuple(urls))
        self._members = [EtcdMember(url, access) for url in urls]
        self._at = 0
        self._timeout_s = timeout_s
        self._access = access
        self._token = ""
        """The user's token, until etcd refuses it."""

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

    async def changed(self, key: str, revision: int, most_s: float) -> None:
        body = {"create_request": {"key": _packed(key), "start_revision": str(revision + 1)}}
        with trio.move_on_after(most_s):
            news = await self._call("/v3/watch", body, _News, EtcdMember.watch, most_s)
            if news.result.canceled:
                raise EtcdError(f"etcd: a watch ended: {_shown(news.result.cancel_reason)}")

    async def _call(
        self,
        path: str,
        body: dict[str, Any],
        answer: type[A],
        ask: Ask = EtcdMember.post,
        timeout_s: float | None = None,
    ) -> A:
        if self._access.user_name and not self._token:
            await self._authenticate()
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        status, data = await self._post(path, body, ask, timeout_s)
        if status != http.client.OK and self._token and _TOKEN_REFUSED.search(data):
            await self._authenticate()
            status, data = await self._post(path, body, ask, timeout_s)
        return self._decoded(path, status, data, answer)

    async def _authenticate(self) -> None:
        """Gets a new token. Tokens expire after some minutes without a call, when etcd starts, and when its users
        change."""
        self._token = ""
        path = "/v3/auth/authenticate"
        try:
            body = {"name": self._access.user_name, "password": self._access.password()}
        except UsageError as error:
            raise EtcdError(str(error)) from None
        status, data = await self._post(path, body, EtcdMember.post, self._timeout_s)
        self._token = self._decoded(path, status, data, _Token).token

    async def _post(self, path: str, body: dict[str, Any], ask: Ask, timeout_s: float) -> tuple[int, bytes]:
        member, data, token = self._members[self._at], msgspec.json.encode(body), self._token
        try:
            with trio.fail_after(timeout_s):
                return await trio.to_thread.run_sync(ask, member, path, data, token, timeout_s, abandon_on_cancel=True)
        except (OSError, http.client.HTTPException) as error:
            self._next_member()
            raise EtcdError(f"{member.url}{path}: {_shown(str(error) or type(error).__name__)}") from error
        except trio.TooSlowError:
            self._next_member()
            raise EtcdError(f"{member.url}{path}: no answer in {timeout_s:g} s") from None

    def _decoded(self, path: str, status: int, data: bytes, answer: type[A]) -> A:
        url = self._members[self._at].url
        try:
            if status != http.client.OK:
                raise EtcdError(f"{url}{path}: {status} {_reason(data)}")
            return msgspec.json.decode(data, type=answer, strict=False)
        except EtcdError:
            self._next_member()
            raise
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._next_member()
            raise EtcdError(f"{url}{path}: {_shown(str(error))}") from error

    def _next_member(self) -> None:
        self._at = (self._at + 1) % len(self._members)


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
    """The message of a refusal, which is JSON, maybe followed by a gRPC trailer."""
    text = data.decode(errors="replace").strip()
    body, brace, _ = text.rpartition("}")
    with contextlib.suppress(msgspec.MsgspecError):
        text = msgspec.json.decode(body + brace, type=_Refusal).message or text
    return _shown(text)


def _shown(text: str) -> str:
    return "".join(one if one.isprintable() else "?" for one in text[:_REASON_CHARS_MAX])
