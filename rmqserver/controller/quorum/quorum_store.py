"""The state of several controllers in one etcd, which stores it on a majority of its members. The controller that holds
the leader key decides. The key is bound to a lease, and goes when its holder falls silent.

A decision is one transaction: it is written only if the leader key is still the one that this controller made, and
nothing was written since the previous decision. So no two controllers can decide from the same state, whatever their
clocks say; and a controller that does not know the outcome of a transaction may send it again.

Keys, below ``/rmqserver/GROUP/``; values are JSON:

    leader              the leading controller: its id, its address, and its lease
    head                number of the last decision, and the version of this layout
    sets/BROKER_NAME    the set as the decisions up to the head have left it
    events/NUMBER       the events of a decision, tagged by type, in 20 digits; the last HISTORY_DECISIONS of them

A start reads only the sets, so it is as quick after a million decisions as after one. The events are for people, who
can see which broker became master, and when.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
import trio

from rmqproto.errors import StorageError
from rmqserver.controller.controller_state import BrokerSet, BrokerSets, ControllerEvent, StateSnapshot
from rmqserver.controller.controller_store import ControllerName, Kept, LeadershipLost
from rmqserver.controller.quorum.etcd import Etcd, EtcdError, KeyCondition, KeyPut, Revision
from rmqserver.logs import Seldom
from rmqserver.system import boot_ms

log = logging.getLogger(__name__)

T = TypeVar("T")

LAYOUT = 1
HISTORY_DECISIONS = 1000
AGAIN_S = 0.1
"""How long to wait before a transaction without an answer is sent again."""

LOOKS_PER_LEASE = 5
"""How often within a lease's duration the leader renews it, and the other controllers look for a leader, although etcd
tells them at once when there is none."""


class _Leader(msgspec.Struct, frozen=True):
    id: str
    address: str
    lease: int


class _Head(msgspec.Struct, frozen=True):
    number: int = 0
    layout: int = LAYOUT


class QuorumStore:
    """A ``ControllerStore``."""

    def __init__(
        self,
        etcd: Etcd,
        group: str,
        lease_ttl_s: int,
        history_decisions: int = HISTORY_DECISIONS,
        clock_ms: Callable[[], int] = boot_ms,
    ):
        """``clock_ms`` is the clock for the lease."""
        self._etcd = etcd
        self._clock_ms = clock_ms
        self._ttl_s = lease_ttl_s
        self._history_decisions = history_decisions
        self._look_s = lease_ttl_s / LOOKS_PER_LEASE
        self._root = f"/rmqserver/{group}/"
        self._leader_key = f"{self._root}leader"
        self._head_key = f"{self._root}head"
        self._seldom = Seldom()
        self._term: _Term | None = None
        self.leader: ControllerName | None = None

    @property
    def is_leading(self) -> bool:
        """Also checks the clock: a process that was frozen, or whose machine slept, may run on before the end of its
        term is handled."""
        return self._term is not None and self._term.is_running

    def open(self) -> None:
        """Does nothing: ``run`` finds the leader."""

    def close(self) -> None:
        """Does nothing: ``run`` has given the lease back."""

    async def run(self, me: ControllerName, lead: Callable[[BrokerSets], None], follow: Callable[[], None]) -> None:
        while True:
            try:
                await self._look(me, lead, follow)
            except (EtcdError, StorageError) as error:
                self.leader = None
                if self._seldom.is_due(str(error)):
                    hint = f" hint={error.hint!r}" if error.hint else ""
                    log.error("event=etcd-failed reason=%r%s", str(error), hint)
                await trio.sleep(self._look_s)

    async def _look(self, me: ControllerName, lead: Callable[[BrokerSets], None], follow: Callable[[], None]) -> None:
        """Looks for a leader. If another controller leads, returns when that may have changed. If none does, tries to
        lead, and leads as long as it may."""
        nobody = KeyCondition(self._leader_key, Revision.CREATE, 0)
        seen = await self._etcd.txn([nobody], [], otherwise=[self._leader_key])
        if seen.found and seen.found[0] is not None:
            self._follow(_read(seen.found[0].value, _Leader, self._leader_key), me)
            await self._until_changed(seen.revision)
            return
        self.leader = None
        asked_ms = self._clock_ms()
        lease = await self._etcd.grant(self._ttl_s)
        try:
            revision = await self._take_lead(me, lease)
            if revision:
                await self._lead(lease, revision, asked_ms, lead, follow)
        finally:
            with trio.move_on_after(self._look_s, shield=True):
                await self._give_back(lease)
        if revision:
            await trio.sleep(self._look_s)  # gives another controller a turn

    def _follow(self, other: _Leader, me: ControllerName) -> None:
        name = ControllerName(other.id, other.address)
        if name != me:  # that would be this controller's last run, whose lease has not ended yet
            if name != self.leader:
                log.info("event=controller-follows id=%s addr=%s", *name)
            self.leader = name

    async def _until_changed(self, revision: int) -> None:
        """Waits until the leader key has changed or it is time to look again, since a watch may stay silent forever."""
        try:
            await self._etcd.changed(self._leader_key, revision, self._look_s)
        except EtcdError as error:
            log.debug("event=leader-not-watched reason=%r", str(error))
            await trio.sleep(self._look_s)

    async def _take_lead(self, me: ControllerName, lease: int) -> int:
        """Returns the revision at which the leader key became this controller's; 0 if another was first."""
        value = msgspec.json.encode(_Leader(me.id, me.address, lease))
        result = await self._etcd.txn(
            [KeyCondition(self._leader_key, Revision.CREATE, 0)], [KeyPut(self._leader_key, value, lease)]
        )
        return result.revision if result.is_done else 0

    async def _lead(
        self, lease: int, revision: int, asked_ms: int, lead: Callable[[BrokerSets], None], follow: Callable[[], None]
    ) -> None:
        """Leads until the lease ends. The lease was requested at ``asked_ms``."""
        term = _Term(self._etcd, self._root, lease, revision, self._ttl_s, self._history_decisions, self._clock_ms)
        failure: EtcdError | StorageError | None = None
        try:
            with trio.CancelScope() as term.scope:
                term.lasts(asked_ms, self._ttl_s)
                async with trio.open_nursery() as term.nursery:
                    term.nursery.start_soon(term.keep_alive, self._look_s)
                    try:
                        sets = await self._read_state(term)
                    except (EtcdError, StorageError) as error:  # raised here, it would leave in an exception group
                        failure = error
                        term.scope.cancel()
                    else:
                        log.info("event=controller-leads revision=%d decisions=%d", revision, term.head_number)
                        self._term = term
                        lead(sets)
        finally:
            self._term = None
            follow()
            log.warning("event=controller-leads-no-more revision=%d", revision)
        if failure is not None:
            raise failure

    async def _give_back(self, lease: int) -> None:
        """Revokes the lease, so that another controller can lead at once. If that fails, the lease ends by itself."""
        try:
            await self._etcd.revoke(lease)
        except EtcdError as error:
            log.debug("event=lease-not-revoked reason=%r", str(error))

    async def _read_state(self, term: _Term) -> BrokerSets:
        """Reads all that was decided. This controller holds the leader key, so the former leader can add nothing
        more."""
        head = await self._etcd.get(self._head_key)
        rows = await self._etcd.get_all(f"{self._root}sets/")
        sets = {}
        for row in rows:
            each = _read(row.value, BrokerSet, row.key)
            if row.key != f"{self._root}sets/{each.broker_name}":
                raise _damage(row.key, f"it holds the set {each.broker_name}")
            sets[each.broker_name] = each
        if head is None:
            if sets:
                raise _damage(self._head_key, "there is none, but there are sets")
            return {}
        found = _read(head.value, _Head, self._head_key)
        if found.layout != LAYOUT:
            raise _damage(self._head_key, f"layout {found.layout}; this release knows {LAYOUT}")
        term.head_number, term.head_revision = found.number, head.mod_revision
        return sets

    def append(self, events: Sequence[ControllerEvent], after: BrokerSets, kept: Kept) -> None:
        if self._term is None or not self._term.is_running:
            kept(LeadershipLost("this controller does not lead any more"))
        else:
            self._term.nursery.start_soon(self._term.append, events, after, kept)


class _Term:
    """Lasts from when this controller got the leader key until the lease ends. Then ``scope`` is cancelled, and
    everything still under way with it."""

    scope: trio.CancelScope
    nursery: trio.Nursery

    def __init__(
        self,
        etcd: Etcd,
        root: str,
        lease: int,
        revision: int,
        ttl_s: int,
        history_decisions: int,
        clock_ms: Callable[[], int],
    ):
        self._etcd = etcd
        self._clock_ms = clock_ms
        self._root = root
        self._lease = lease
        self._revision = revision
        self._ttl_s = ttl_s
        self._history_decisions = history_decisions
        self.head_number = 0
        self.head_revision = 0

    @property
    def is_running(self) -> bool:
        return not self.scope.cancel_called and self._clock_ms() < self._ends_ms

    def lasts(self, asked_ms: int, seconds: int) -> None:
        """Makes the term last ``seconds`` from ``asked_ms``, when the lease was requested or renewed. The scope ends
        later if the machine sleeps meanwhile, since trio's clock then stands still."""
        self._ends_ms = asked_ms + seconds * 1000
        self.scope.deadline = trio.current_time() + (self._ends_ms - self._clock_ms()) / 1000

    async def keep_alive(self, interval_s: float) -> None:
        """Renews the lease. Counts its duration from before etcd was asked, so that the term never outlasts etcd's
        lease."""
        await trio.sleep(interval_s)
        while True:
            asked_ms = self._clock_ms()
            try:
                left_s = await self._etcd.keep_alive(self._lease)
            except EtcdError as error:
                log.warning("event=lease-not-renewed reason=%r", str(error))
                await trio.sleep(AGAIN_S)
                continue
            if not left_s:
                log.warning("event=lease-lost reason='etcd does not know it any more'")
                self.scope.cancel()
            self.lasts(asked_ms, left_s)
            await trio.sleep(interval_s)

    async def append(self, events: Sequence[ControllerEvent], after: BrokerSets, kept: Kept) -> None:
        error: LeadershipLost | None = LeadershipLost(
            "this controller ceased to lead while it kept a decision; whether it is kept is not known"
        )
        try:
            with trio.move_on_after(self._ttl_s):  # etcd may refuse every decision, and still renew the lease
                if await self._is_kept(events, after):
                    error = None
            if error is not None:
                self.scope.cancel()
        finally:
            kept(error)

    async def _is_kept(self, events: Sequence[ControllerEvent], after: BrokerSets) -> bool:
        """Returns False if another controller may decide. Tries until the outcome is known."""
        number = self.head_number + 1
        leader, head = f"{self._root}leader", f"{self._root}head"
        conditions = [
            KeyCondition(leader, Revision.CREATE, self._revision),
            KeyCondition(head, Revision.MOD, self.head_revision),
        ]
        puts = [
            KeyPut(head, msgspec.json.encode(_Head(number))),
            KeyPut(self._event_key(number), msgspec.json.encode(list(events))),
        ]
        deletes = [self._event_key(number - self._history_decisions)] if number > self._history_decisions else []
        for name in _touched(events, after):
            if name in after:
                puts.append(KeyPut(f"{self._root}sets/{name}", msgspec.json.encode(after[name])))
            else:
                deletes.append(f"{self._root}sets/{name}")
        while True:
            try:
                result = await self._etcd.txn(conditions, puts, deletes, otherwise=(leader, head))
            except EtcdError as error:
                log.warning("event=decision-sent-again number=%d reason=%r", number, str(error))
                await trio.sleep(AGAIN_S)
                continue
            if result.is_done:
                self.head_number, self.head_revision = number, result.revision
                return True
            found_leader, found_head = result.found
            if found_leader is None or found_leader.create_revision != self._revision:
                return False
            # No other controller writes while this one has the key: an earlier try has arrived.
            if found_head is None or found_head.mod_revision == self.head_revision:
                return False
            self.head_number, self.head_revision = number, found_head.mod_revision
            return True

    def _event_key(self, number: int) -> str:
        return f"{self._root}events/{number:020d}"


def _touched(events: Sequence[ControllerEvent], after: BrokerSets) -> list[str]:
    """The names of the sets that may have changed."""
    names: dict[str, None] = {}
    for event in events:
        names |= dict.fromkeys(after if isinstance(event, StateSnapshot) else [event.broker_name])
    return list(names)


def _read(value: bytes, kind: type[T], key: str) -> T:
    try:
        return msgspec.json.decode(value, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _damage(key, str(error)) from None


def _damage(key: str, what: str) -> StorageError:
    return StorageError(
        f"etcd, {key}: {what}",
        hint="restore a snapshot of etcd; or delete the keys below /rmqserver/, and the brokers' brokerIdentity before "
        "they start",
    )
