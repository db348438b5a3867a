"""A second implementation of the etcd calls that we use: revisions, conditions and leases, in memory and on trio's
clock. ``test_etcd.py`` holds it to what a real etcd does. Each client has a line of its own, which can be cut, lose
requests, lose answers, and deliver requests late."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, TypeVar

import trio

from rmqserver.controller.quorum.etcd import EtcdError, KeyCondition, KeyPut, KeyValue, Revision, TxnResult

A = TypeVar("A")

TIMEOUT_S = 1.0


def trio_ms() -> int:
    """The clock of a store's lease in tests where trio's clock jumps."""
    return int(trio.current_time() * 1000)


@dataclass
class EtcdInMemory:
    revision: int = 1
    rows: dict[str, tuple[KeyValue, int]] = field(default_factory=dict)
    """Each key's value, and its lease; 0 for none."""
    lease_ends_s: dict[int, tuple[float, int]] = field(default_factory=dict)
    """Each lease's end, and its time to live in seconds."""
    last_lease: int = 0
    watches: list[tuple[str, Callable[[], None]]] = field(default_factory=list)
    """Keys, and the function to call once when the key changes."""
    changed_at: dict[str, int] = field(default_factory=dict)
    """The revision of each key's last change."""
    clock_s: Callable[[], float] = trio.current_time

    def end_leases(self) -> None:
        for lease, (ends_s, _) in list(self.lease_ends_s.items()):
            if ends_s <= self.clock_s():
                self.revoke(lease)

    def grant(self, ttl_s: int) -> int:
        self.last_lease += 1
        self.lease_ends_s[self.last_lease] = self.clock_s() + ttl_s, ttl_s
        return self.last_lease

    def keep_alive(self, lease: int) -> int:
        if lease not in self.lease_ends_s:
            return 0
        ttl_s = self.lease_ends_s[lease][1]
        self.lease_ends_s[lease] = self.clock_s() + ttl_s, ttl_s
        return ttl_s

    def revoke(self, lease: int) -> None:
        if self.lease_ends_s.pop(lease, None) is None:
            raise EtcdError("requested lease not found")
        gone = [key for key, (_, its_lease) in self.rows.items() if its_lease == lease]
        for key in gone:
            del self.rows[key]
        self._changed(gone)

    def get(self, key: str) -> KeyValue | None:
        return self.rows[key][0] if key in self.rows else None

    def get_all(self, prefix: str) -> list[KeyValue]:
        return [found for key, (found, _) in sorted(self.rows.items()) if key.startswith(prefix)]

    def txn(
        self,
        conditions: Sequence[KeyCondition],
        puts: Sequence[KeyPut],
        deletes: Sequence[str],
        otherwise: Sequence[str],
    ) -> TxnResult:
        if not all(self._holds(each) for each in conditions):
            return TxnResult(False, self.revision, tuple(map(self.get, otherwise)))
        if any(put.lease and put.lease not in self.lease_ends_s for put in puts):
            raise EtcdError("requested lease not found")
        revision = self.revision + 1
        for put in puts:
            before = self.get(put.key)
            created = before.create_revision if before else revision
            self.rows[put.key] = KeyValue(put.key, put.value, created, revision), put.lease
        gone = [key for key in deletes if self.rows.pop(key, None) is not None]
        self._changed([*(put.key for put in puts), *gone])
        return TxnResult(True, self.revision)

    def watch(self, key: str, revision: int, tell: Callable[[], None]) -> None:
        """Calls ``tell`` once, when the key has changed since that revision; maybe at once."""
        if self.changed_at.get(key, 0) > revision:
            tell()
        else:
            self.watches.append((key, tell))

    def _changed(self, keys: Sequence[str]) -> None:
        self.revision += bool(keys)
        self.changed_at |= dict.fromkeys(keys, self.revision)
        due = [tell for key, tell in self.watches if key in keys]
        self.watches = [each for each in self.watches if each[0] not in keys]
        for tell in due:
            tell()

    def _holds(self, condition: KeyCondition) -> bool:
        found = self.get(condition.key)
        if found is None:
            return condition.revision == 0
        is_create = condition.target is Revision.CREATE
        return condition.revision == (found.create_revision if is_create else found.mod_revision)


class Mishap(Enum):
    NONE = auto()
    REQUEST_LOST = auto()
    ANSWER_LOST = auto()
    REQUEST_LATE = auto()
    """The request arrives long after its sender has given up."""


class Line:
    """The ``Etcd`` of one controller."""

    def __init__(self, etcd: EtcdInMemory, nursery: trio.Nursery):
        self.is_cut = False
        self.next_mishap: Callable[[str], Mishap] = lambda call: Mishap.NONE
        """Takes the name of the call."""
        self.late_s = 3 * TIMEOUT_S
        self._etcd = etcd
        self._nursery = nursery

    async def grant(self, ttl_s: int) -> int:
        return await self._call(self._etcd.grant, ttl_s)

    async def keep_alive(self, lease: int) -> int:
        return await self._call(self._etcd.keep_alive, lease)

    async def revoke(self, lease: int) -> None:
        await self._call(self._etcd.revoke, lease)

    async def get(self, key: str) -> KeyValue | None:
        return await self._call(self._etcd.get, key)

    async def get_all(self, prefix: str) -> list[KeyValue]:
        return await self._call(self._etcd.get_all, prefix)

    async def txn(
        self,
        conditions: Sequence[KeyCondition],
        puts: Sequence[KeyPut],
        deletes: Sequence[str] = (),
        otherwise: Sequence[str] = (),
    ) -> TxnResult:
        return await self._call(self._etcd.txn, conditions, puts, deletes, otherwise)

    async def changed(self, key: str, revision: int, most_s: float) -> None:
        told = trio.Event()
        if self.next_mishap("changed") is Mishap.NONE:
            self._etcd.watch(key, revision, lambda: None if self.is_cut else told.set())
        with trio.move_on_after(most_s):
            await told.wait()

    async def _call(self, serve: Callable[..., A], *args: Any) -> A:
        mishap = self.next_mishap(serve.__name__)
        await trio.sleep(0.01)
        if self.is_cut or mishap is Mishap.REQUEST_LOST:
            await self._time_out()
        if mishap is Mishap.REQUEST_LATE:
            self._nursery.start_soon(self._serve_late, serve, *args)
            await self._time_out()
        self._etcd.end_leases()
        answer = serve(*args)
        await trio.sleep(0.01)
        if self.is_cut or mishap is Mishap.ANSWER_LOST:
            await self._time_out()
        return answer

    async def _time_out(self) -> None:
        await trio.sleep(TIMEOUT_S)
        raise EtcdError("no answer")

    async def _serve_late(self, serve: Callable[..., object], *args: Any) -> None:
        await trio.sleep(self.late_s)
        self._etcd.end_leases()
        with contextlib.suppress(EtcdError):
            serve(*args)
