"""What is asked of etcd (its API v3), whoever answers it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from rmqproto.errors import RocketMQError


class EtcdError(RocketMQError):
    """etcd did not answer, or refused. Whether it has acted is not known."""


class KeyValue(NamedTuple):
    """Both revisions are of the whole etcd, which counts its changes: when this key was made, and last written."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int


class Revision(Enum):
    CREATE = "CREATE"
    MOD = "MOD"


class KeyCondition(NamedTuple):
    """That revision of the key is this one; 0 for a key that is not there."""

    key: str
    target: Revision
    revision: int


class KeyPut(NamedTuple):
    """With a ``lease``, the key goes when the lease ends. 0: it stays."""

    key: str
    value: bytes
    lease: int = 0


class TxnResult(NamedTuple):
    """``is_done``: all conditions held, and everything is written, at ``revision``. If not, nothing is, and ``found``
    has the keys that were to be read then; None for one that is not there."""

    is_done: bool
    revision: int
    found: tuple[KeyValue | None, ...] = ()


class Etcd(Protocol):
    """Every call may raise EtcdError, and answers for the majority, not for one member."""

    async def grant(self, ttl_s: int) -> int:
        """A new lease."""
        ...

    async def keep_alive(self, lease: int) -> int:
        """For how many seconds more; 0 if the lease has ended."""
        ...

    async def revoke(self, lease: int) -> None:
        """Its keys go at once."""
        ...

    async def get(self, key: str) -> KeyValue | None: ...

    async def get_all(self, prefix: str) -> list[KeyValue]:
        """In the order of their keys, all as of one moment."""
        ...

    async def txn(
        self,
        conditions: Sequence[KeyCondition],
        puts: Sequence[KeyPut],
        deletes: Sequence[str] = (),
        otherwise: Sequence[str] = (),
    ) -> TxnResult:
        """All or nothing. ``otherwise``: keys that are read if a condition does not hold."""
        ...

    async def changed(self, key: str, revision: int, most_s: float) -> None:
        """Returns as soon as that key was written, or has gone, since that revision; after so many seconds in any case.
        A member that is cut off from the others says nothing."""
        ...
