"""Which slaves watch this master's tables. A slave of ours says with 906 which tables it has copied, by the stamp that
it was told before, and is answered when there are newer ones: so it copies a change of a topic or group a moment later,
and not only every ``syncBrokerMetadataPeriod``. Before a planned handover the successor copies everything once more,
offsets included. An Apache slave does not watch; Apache's master answers 906 at once, without a stamp."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import trio

from rmqproto.headers.controller import HaInfoHeader

if TYPE_CHECKING:
    from rmqserver.broker.tables.groups import GroupTable
    from rmqserver.broker.tables.topics import TopicTable
    from rmqserver.operation import Peer

GATHER_S = 0.5
"""Changes of this time are copied together: each copy is of whole tables."""

WATCHERS_MAX = 64
"""As many as slaves (``LINKS_MAX``)."""


Tell = Callable[[HaInfoHeader], None]


class _Watcher(NamedTuple):
    """A slave, the stamp of what it has copied, and what answers its request; None if that is answered."""

    peer: Peer
    stamp: int
    tell: Tell | None


class TableWatch:
    """``run`` is a task of a master."""

    def __init__(self, topics: TopicTable, groups: GroupTable, wake: Callable[[], None]):
        self._wake = wake
        self._stamp = self._changed_at = secrets.randbits(48)  # no slave takes it for that of an earlier master
        self._watchers: dict[int, _Watcher] = {}
        """By broker id."""
        self._has_changes = trio.Event()
        self._watchers_changed = trio.lowlevel.ParkingLot()
        for table in (topics, groups):
            table.on_change.append(lambda put_names: self._has_changes.set())

    def watch(self, broker_id: int, stamp: int, peer: Peer, tell: Tell) -> bool:
        """Has ``tell`` called once, when there is something to copy since the slave was told that stamp, or when it
        asks again. False if so many watch that it cannot."""
        if len(self._watchers) >= WATCHERS_MAX and broker_id not in self._watchers:
            return False
        self._answer(broker_id, HaInfoHeader())
        self._watchers[broker_id] = _Watcher(peer, stamp, tell)
        self._watchers_changed.unpark_all()
        if stamp != self._stamp:
            self._tell(broker_id)
        return True

    def _tell(self, broker_id: int) -> None:
        is_same = self._changed_at <= self._watchers[broker_id].stamp <= self._stamp
        self._answer(broker_id, HaInfoHeader(tables_stamp=self._stamp, tables_same=is_same))

    def is_watching(self, peer: Peer) -> bool:
        return any(each.peer is peer for each in self._watchers.values())

    async def copied_by(self, broker_id: int) -> bool:
        """Has that slave copy everything again, and waits until it has. False at once if it does not watch; also if it
        is gone."""
        if self._found(broker_id) is None:
            return False
        self._tell_all(has_changes=self._has_changes.is_set())
        while (found := self._found(broker_id)) is not None:
            if found.stamp == self._stamp:
                return True
            await self._watchers_changed.park()
        return False

    def _found(self, broker_id: int) -> _Watcher | None:
        found = self._watchers.get(broker_id)
        return None if found is None or found.peer.closed else found

    def _tell_all(self, *, has_changes: bool) -> None:
        """From now on, what slaves have copied is old. Tables without changes need not be copied: with thousands of
        topics that takes a second."""
        self._stamp += 1
        if has_changes:
            self._changed_at = self._stamp
        for broker_id in self._watchers:
            self._tell(broker_id)
        self._wake()

    def end(self) -> None:
        """This broker is no master any more: its slaves are told of no stamp."""
        for broker_id in self._watchers:
            self._answer(broker_id, HaInfoHeader())

    def _answer(self, broker_id: int, answer: HaInfoHeader) -> None:
        found = self._watchers.get(broker_id)
        if found is not None and found.tell is not None:
            self._watchers[broker_id] = found._replace(tell=None)
            found.tell(answer)

    def peer_gone(self, peer: Peer) -> None:
        if self.is_watching(peer):
            self._watchers = {key: each for key, each in self._watchers.items() if each.peer is not peer}
            self._watchers_changed.unpark_all()

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            await self._has_changes.wait()
            await trio.sleep(GATHER_S)
            self._has_changes = trio.Event()
            self._tell_all(has_changes=True)
