"""Request signatures of ACL 1.0 and of 5.x authentication (``AclUtils``, ``AclClientRPCHook``, 5.5.0).

Base64 of HMAC-SHA1 over the values of all ext fields but ``Signature``, in the order of their names, then the body.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass

ACCESS_KEY = "AccessKey"
SIGNATURE = "Signature"
SECURITY_TOKEN = "SecurityToken"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The user for whom a client speaks. ``secret_key`` is never sent and never shown in a representation."""

    access_key: str
    secret_key: str
    security_token: str | None = None

    def __repr__(self) -> str:
        return f"Credentials(access_key={self.access_key!r})"


def signature(ext: Mapping[str, str], body: bytes, secret_key: str) -> str:
    content = "".join(ext[name] for name in sorted(ext) if name != SIGNATURE).encode() + body
    return base64.b64encode(hmac.new(secret_key.encode(), content, hashlib.sha1).digest()).decode()


def sign(ext: dict[str, str], body: bytes, credentials: Credentials) -> None:
    """Adds the access key, the token if there is one, and the signature to ``ext``."""
    ext[ACCESS_KEY] = credentials.access_key
    if credentials.security_token:
        ext[SECURITY_TOKEN] = credentials.security_token
    ext[SIGNATURE] = signature(ext, body, credentials.secret_key)
