"""Request signatures of ACL 1.0 and of 5.x authentication (``AclUtils``, ``AclClientRPCHook``, and for the check
``DefaultAuthenticationContextBuilder``, 5.5.0).

A signature is the Base64 of HMAC-SHA1 over the values of all ext fields but ``Signature``, in the order of their names,
then the body.
"""

from __future__ import annotations

import hashlib
from binascii import b2a_base64
from collections.abc import Iterable, Mapping
from hmac import compare_digest

from rmqproto.wire.credentials import Credentials

ACCESS_KEY = "AccessKey"
SIGNATURE = "Signature"
SECURITY_TOKEN = "SecurityToken"

_ADDED_LATER = frozenset({"__ZONE_NAME", "__ZONE_MODE", SECURITY_TOKEN})
"""Ext fields that clients add after signing: the Java client the zone, the Go client the token. Changing them gives
nobody more rights."""

_UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
_UNIQUE_KEY_UNSIGNED_UP_TO = 399
"""Peers up to this version (4.9.3) add that field after signing."""

_ORDERS_MAX = 1000
_BLOCK_BYTES = 64
"""The block size of SHA-1."""


class SigningKey:
    """One secret key, prepared for signatures: half of the work of HMAC depends only on the key."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, secret_key: str):
        key = secret_key.encode(errors="replace")
        if len(key) > _BLOCK_BYTES:
            key = hashlib.sha1(key).digest()
        key = key.ljust(_BLOCK_BYTES, b"\0")
        self._inner = hashlib.sha1(bytes(byte ^ 0x36 for byte in key))
        self._outer = hashlib.sha1(bytes(byte ^ 0x5C for byte in key))

    def signature(self, values: str, body: bytes | memoryview) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(values.encode("utf-8", "replace"))
        inner.update(body)
        outer.update(inner.digest())
        return b2a_base64(outer.digest(), newline=False)

    def has_signed(self, ext: Mapping[str, str], body: bytes | memoryview, version: int) -> bool:
        """Whether the request carries the signature that its sender's ``version`` of RocketMQ makes with this key. The
        time does not depend on where a wrong signature differs."""
        given = ext.get(SIGNATURE, "").encode("utf-8", "replace")
        names = _orders.get(tuple(ext)) or _order(ext)
        if version <= _UNIQUE_KEY_UNSIGNED_UP_TO and _UNIQUE_KEY_QUERY in ext:
            names = tuple(name for name in names if name != _UNIQUE_KEY_QUERY)
        if compare_digest(self.signature("".join(map(ext.__getitem__, names)), body), given):
            return True
        if _ADDED_LATER.isdisjoint(names):
            return False
        values = "".join(ext[name] for name in names if name not in _ADDED_LATER)
        return compare_digest(self.signature(values, body), given)

    def has_signed_content(self, content: bytes, given: bytes, body: bytes | None = None) -> bool:
        """As ``has_signed``. ``content`` are the signed values in order, followed by the body unless ``body`` is
        given."""
        inner, outer = self._inner.copy(), self._outer.copy()  # ``signature`` without a call, because this runs often
        inner.update(content)
        if body is not None:
            inner.update(body)
        outer.update(inner.digest())
        return compare_digest(b2a_base64(outer.digest(), newline=False), given)


def is_left_out_by_some(names: Iterable[str]) -> bool:
    """Whether some clients do not sign one of these ext fields."""
    return not (_ADDED_LATER | {_UNIQUE_KEY_QUERY}).isdisjoint(names)


_orders: dict[tuple[str, ...], tuple[str, ...]] = {}
"""The signed names in the order of signing, by the names of ext fields as they come: a client's requests of one code
all have the same."""


def _order(ext: Mapping[str, str]) -> tuple[str, ...]:
    if len(_orders) >= _ORDERS_MAX:
        _orders.clear()
    order = _orders[tuple(ext)] = tuple(sorted(name for name in ext if name != SIGNATURE))
    return order


def signature(ext: Mapping[str, str], body: bytes, secret_key: str) -> str:
    values = "".join(ext[name] for name in sorted(ext) if name != SIGNATURE)
    return SigningKey(secret_key).signature(values, body).decode()


def sign(ext: dict[str, str], body: bytes, credentials: Credentials) -> None:
    """Adds the access key, the token if there is one, and the signature to ``ext``."""
    ext[ACCESS_KEY] = credentials.access_key
    if credentials.security_token:
        ext[SECURITY_TOKEN] = credentials.security_token
    ext[SIGNATURE] = signature(ext, body, credentials.secret_key)
