"""etcd over its JSON gateway (``/v3/...``, 3.4 and newer): POST requests whose bodies are its messages as JSON, with
keys and values in base64 and 64-bit numbers as text. Each call is one connection in its own thread, because the HTTP
client of the standard library blocks; there are about two a second."""

from __future__ import annotations

import base64
import binascii
import contextlib
import http.client
import re
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec
import trio

from rmqproto.errors import UsageError
from rmqproto.hosts import not_a_port
from rmqproto.java.java_numbers import Int64
from rmqserver.controller.quorum.etcd import EtcdError, KeyCondition, KeyPut, KeyValue, TxnResult

ANSWER_MAX_BYTES = 64 << 20
PAGE_KEYS = 500
"""Keys in one page of a range. A key's value may take half a megabyte."""

_REASON_CHARS_MAX = 200
_TOKEN_REFUSED = re.compile(rb"invalid auth token|auth store is old")


class EtcdAccess(NamedTuple):
    """Each field may be empty. The password is in a file, so that no list of settings or processes shows it."""

    user_name: str = ""
    password_path: str = ""
    ca_path: str = ""
    """A PEM file; if empty, the system's certificates are trusted."""
    cert_path: str = ""
    key_path: str = ""

    def password(self) -> str:
        """Reads the password each time, since it may change. Raises UsageError."""
        try:
            return Path(self.password_path).read_text("utf-8").removesuffix("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"etcdPasswordPath={self.password_path}: {error}") from None

    def context(self) -> ssl.SSLContext:
        """Raises UsageError for files that cannot be used."""
        try:
            context = ssl.create_default_context(cafile=self.ca_path or None)
        except (OSError, ValueError) as error:
            raise UsageError(f"etcdCaPath={self.ca_path}: {error}") from None
        if self.cert_path:
            try:
                context.load_cert_chain(self.cert_path, self.key_path or None)
            except (OSError, ValueError) as error:
                raise UsageError(f"etcdCertPath={self.cert_path}, etcdKeyPath={self.key_path}: {error}") from None
        return context

    def check(self, urls: tuple[str, ...]) -> None:
        """Raises UsageError for settings without effect, and for files that cannot be used."""
        if bool(self.user_name) is not bool(self.password_path):
            raise UsageError(
                "etcdUserName and etcdPasswordPath belong together: the latter is a file with its password"
            )
        if self.key_path and not self.cert_path:
            raise UsageError("etcdKeyPath is given, and no etcdCertPath to which it belongs")
        if (self.ca_path or self.cert_path) and not all(url.startswith("https://") for url in urls):
            raise UsageError("etcdCaPath and etcdCertPath have an effect on https:// URLs alone; some are http://")
        if self.user_name:
            self.password()


Read = Callable[[http.client.HTTPResponse], bytes]


class EtcdMember:
    def __init__(self, url: str, access: EtcdAccess):
        """Raises UsageError for an invalid URL, and for files of ``access`` that cannot be used."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise UsageError(f"{url}: {error}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
            raise UsageError(f"{url}: must be http://HOST:2379 or https://HOST:2379")
        if port == 0:
            raise UsageError(f"{url}: {not_a_port('0')}")
        if parts.username is not None:
            raise UsageError(
                f"{parts.hostname}: a user of etcd stands in settings, not in a URL",
                hint="--set etcdUserName=NAME --set etcdPasswordPath=FILE",
            )
        self.url = url.rstrip("/")
        self._host, self._port = parts.hostname, port or 2379
        self._context = access.context() if parts.scheme == "https" else None

    def post(self, path: str, body: bytes, token: str, timeout_s: float, read: Read) -> tuple[int, bytes]:
        """Status of the answer, and what ``read`` takes of it. Blocks. Raises OSError or HTTPException if there is no
        answer."""
        connection = (
            http.client.HTTPSConnection(self._host, self._port, timeout=timeout_s, context=self._context)
            if self._context is not None
            else http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)
        )
        headers = {"Content-Type": "application/json"} | ({"Authorization": token} if token else {})
        try:
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            return answer.status, read(answer)
        finally:
            connection.close()


def _whole(answer: http.client.HTTPResponse) -> bytes:
    """Its body."""
    data = answer.read(ANSWER_MAX_BYTES)
    if not answer.isclosed() and answer.read(1):
        raise http.client.HTTPException(f"more than {ANSWER_MAX_BYTES} bytes")
    return data


def _first_news(answer: http.client.HTTPResponse) -> bytes:
    """The first line of an endless answer that says more than that a watch was created."""
    while True:
        line = answer.readline(ANSWER_MAX_BYTES)
        if b'"created":true' not in line or b'"canceled":true' in line:
            return line


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
            news = await self._call("/v3/watch", body, _News, _first_news, most_s)
            if news.result.canceled:
                raise EtcdError(f"etcd: a watch ended: {_shown(news.result.cancel_reason)}")

    async def _call(
        self,
        path: str,
        body: dict[str, Any],
        answer: type[A],
        read: Read = _whole,
        timeout_s: float | None = None,
    ) -> A:
        if self._access.user_name and not self._token:
            await self._authenticate()
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        status, data = await self._post(path, body, read, timeout_s)
        if status != http.client.OK and self._token and _TOKEN_REFUSED.search(data):
            await self._authenticate()
            status, data = await self._post(path, body, read, timeout_s)
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
        status, data = await self._post(path, body, _whole, self._timeout_s)
        self._token = self._decoded(path, status, data, _Token).token

    async def _post(self, path: str, body: dict[str, Any], read: Read, timeout_s: float) -> tuple[int, bytes]:
        member, data, token = self._members[self._at], msgspec.json.encode(body), self._token
        try:
            with trio.fail_after(timeout_s):
                asked = path, data, token, timeout_s, read
                return await trio.to_thread.run_sync(member.post, *asked, abandon_on_cancel=True)
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
