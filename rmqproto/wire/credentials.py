"""The user of a client. ``signing`` is separate, because most programs sign nothing and need not load its hashes."""

from __future__ import annotations

import msgspec


class Credentials(msgspec.Struct, frozen=True):
    """The user of a client. ``secret_key`` is never sent and never shown in a representation."""

    access_key: str
    secret_key: str
    security_token: str | None = None

    def __repr__(self) -> str:
        return f"Credentials(access_key={self.access_key!r})"
