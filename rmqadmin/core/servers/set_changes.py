"""How broker sets change from one reading to the next: the new master and its epoch, the time without a master, and the
brokers that joined or left the in-sync set."""

from collections import deque
from collections.abc import Sequence

import msgspec

from rmqadmin.core.servers.ha_sets import HaMember, HaSet
from rmqadmin.core.tables.marks import Mark
from rmqadmin.core.units import duration

CHANGES_MAX = 300


class SetChange(msgspec.Struct, frozen=True):
    """One change. ``number`` counts up."""

    number: int
    at_ms: int
    broker_name: str
    text: str
    mark: Mark | None = None


class SetStanding(msgspec.Struct, frozen=True):
    """A set at its last reading. ``master_addr`` is the last broker that answered as master, and ``had_master_ms`` when
    it last did; ``has_none``: none has since."""

    master_addr: str | None
    master_epoch: int | None
    had_master_ms: int | None
    has_none: bool
    in_sync: frozenset[int] | None


class SetChanges:
    """The changes of all sets; call ``look`` for each reading. A time without a master is measured from the last
    reading in which one answered to the first in which one did again; the real time was not longer."""

    def __init__(self) -> None:
        self._standings: dict[str, SetStanding] = {}
        self._changes: deque[SetChange] = deque(maxlen=CHANGES_MAX)
        self._count = 0
        self.since_ms: int | None = None
        """When the sets were first read."""

    def newest_first(self) -> list[SetChange]:
        return list(reversed(self._changes))

    def without_master_ms(self, broker_name: str, now_ms: int) -> int | None:
        """For how long no broker has answered as master of the set; None if one does, or none ever did."""
        known = self._standings.get(broker_name)
        if known is None or not known.has_none or known.had_master_ms is None:
            return None
        return now_ms - known.had_master_ms

    def look(self, at_ms: int, sets: Sequence[HaSet]) -> list[SetChange]:
        """The changes since the last reading. The first reading of a set reports none."""
        before = self._count
        self.since_ms = at_ms if self.since_ms is None else self.since_ms
        for one in sets:
            self._standings[one.broker_name] = self._look_at(at_ms, one, self._standings.get(one.broker_name))
        return [change for change in self._changes if change.number > before]

    def _look_at(self, at_ms: int, one: HaSet, known: SetStanding | None) -> SetStanding:
        master = one.master
        serving = master if master is not None and master.says_master else None
        epoch = None if one.known is None else one.known.master_epoch
        in_sync = None if one.known is None else frozenset(each.broker_id for each in one.known.in_sync_replicas)
        if known is not None:
            self._note_master(at_ms, one, known, serving, epoch)
            if in_sync is not None and known.in_sync is not None:
                self._note_in_sync(at_ms, one, known.in_sync, in_sync)
        if serving is not None:
            return SetStanding(serving.broker_addr, epoch, at_ms, False, in_sync)
        if known is None:
            return SetStanding(None, epoch, None, True, in_sync)
        return msgspec.structs.replace(known, has_none=True, in_sync=known.in_sync if in_sync is None else in_sync)

    def _note_master(
        self, at_ms: int, one: HaSet, known: SetStanding, serving: HaMember | None, epoch: int | None
    ) -> None:
        if serving is None:
            if not known.has_none:
                self._add(at_ms, one, f"has no master: {_why_none(one, known)}", Mark.BAD)
            return
        gap = ""
        if known.has_none and known.had_master_ms is not None:
            gap = f"; it had none for at most {duration(at_ms - known.had_master_ms)}"
        of_epoch = ""
        if epoch is not None and epoch != known.master_epoch:
            of_epoch = f", epoch {epoch}" if known.master_epoch is None else f", epoch {known.master_epoch} → {epoch}"
        if serving.broker_addr != known.master_addr:
            before = "" if known.master_addr is None else f", after {known.master_addr}"
            self._add(at_ms, one, f"{serving.broker_addr} became its master{before}{of_epoch}{gap}", Mark.WARN)
        elif known.has_none:
            self._add(at_ms, one, f"{serving.broker_addr} is its master again{of_epoch}{gap}", Mark.WARN)
        elif of_epoch:
            self._add(at_ms, one, f"{serving.broker_addr} was made its master anew{of_epoch}")

    def _note_in_sync(self, at_ms: int, one: HaSet, before: frozenset[int], now: frozenset[int]) -> None:
        count = f"{len(now)} of {len(one.members)} are"
        for broker_id in sorted(before - now):
            self._add(at_ms, one, f"id {broker_id} is not in sync any more, {count}", Mark.WARN)
        for broker_id in sorted(now - before):
            self._add(at_ms, one, f"id {broker_id} is in sync, {count}", Mark.GOOD)

    def _add(self, at_ms: int, one: HaSet, text: str, mark: Mark | None = None) -> None:
        self._count += 1
        self._changes.append(SetChange(self._count, at_ms, one.broker_name, text, mark))


def _why_none(one: HaSet, known: SetStanding) -> str:
    master = one.master
    if one.known is not None and one.known.master_address is None:
        return f"{known.master_addr} is lost, and nobody was elected"
    if master is None:
        return f"no name server knows {known.master_addr} any more"
    if master.error is not None:
        return f"{master.broker_addr} does not answer"
    return f"{master.broker_addr} is to be it, and is not yet"
