"""The interface to etcd (its API v3), independent of the transport."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from rmqproto.errors import RocketMQError


class EtcdError(RocketMQError):
    """etcd did not answer, or refused. It may have acted or not."""


class KeyValue(NamedTuple):
    """A revision counts the changes of the whole etcd. The two say when this key was made, and when it was last
    written."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int


class Revision(Enum):
    CREATE = "CREATE"
    MOD = "MOD"


class KeyCondition(NamedTuple):
    """Holds if the key's ``target`` revision is ``revision``; 0 stands for a key that does not exist."""

    key: str
    target: Revision
    revision: int


class KeyPut(NamedTuple):
    """With a ``lease``, the key is deleted when the lease ends. With 0 it stays."""

    key: str
    value: bytes
    lease: int = 0


class TxnResult(NamedTuple):
    """If ``is_done``, all conditions held, and everything was written at ``revision``. If not, nothing was, and
    ``found`` has the keys to read in that case; None for one that does not exist."""

    is_done: bool
    revision: int
    found: tuple[KeyValue | None, ...] = ()


class Etcd(Protocol):
    """Every call may raise EtcdError. Answers are those of the majority, not of one member."""

    async def grant(self, ttl_s: int) -> int:
        """Returns a new lease."""
        ...

    async def keep_alive(self, lease: int) -> int:
        """Renews the lease; returns how many seconds it lasts from now, 0 if it has ended."""
        ...

    async def revoke(self, lease: int) -> None:
        """Ends the lease; its keys are deleted at once."""
        ...

    async def get(self, key: str) -> KeyValue | None: ...

    async def get_all(self, prefix: str) -> list[KeyValue]:
        """Sorted by key, all as of one moment."""
        ...

    async def txn(
        self,
        conditions: Sequence[KeyCondition],
        puts: Sequence[KeyPut],
        deletes: Sequence[str] = (),
        otherwise: Sequence[str] = (),
    ) -> TxnResult:
        """Writes all or nothing. The keys in ``otherwise`` are read if a condition does not hold."""
        ...

    async def changed(self, key: str, revision: int, most_s: float) -> None:
        """Returns once the key was written or deleted after that revision, and after ``most_s`` seconds in any case. A
        member that is cut off from the others reports nothing."""
        ...
