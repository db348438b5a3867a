"""Three controllers over one etcd, whose lines are cut, lose requests and answers, and deliver requests late, while the
controllers end and come back. Everything that was reported kept is there, once, and no two controllers lead. The runs
are seeded, on a clock that jumps. Broken variants show that a violation would be seen."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rmqserver.controller.controller_state import BrokerIdApplied
from rmqserver.controller.controller_store import ControllerName, LeadershipLost
from rmqserver.controller.quorum.etcd import EtcdError, KeyCondition, TxnResult
from rmqserver.controller.quorum.quorum_store import QuorumStore
from tests.rmqserver.controller.leading import LedStore, running
from tests.rmqserver.controller.quorum.etcd_in_memory import EtcdInMemory, Line, Mishap, trio_ms

NAME = "broker-a"
CONTROLLERS = 3
TTL_S = 5
TIME_S = 150.0

MISHAPS = [Mishap.NONE] * 12 + [Mishap.REQUEST_LOST, Mishap.ANSWER_LOST, Mishap.ANSWER_LOST, Mishap.REQUEST_LATE]


class World:
    def __init__(self, seed: int, line: type[Line] = Line, store: type[QuorumStore] = QuorumStore):
        self.rng = Random(seed)
        self.etcd = EtcdInMemory()
        self.make_line, self.make_store = line, store
        self.kept: dict[int, str] = {}
        """The controller's code by the broker id that it gave away."""
        self.led: dict[int, LedStore] = {}
        """The controllers that are running."""
        self.terms = 0
        self.lost = 0

    def check(self) -> None:
        trio.run(self._run, clock=MockClock(autojump_threshold=0))
        found = self._state()
        for broker_id, code in self.kept.items():
            assert found[broker_id] == code, "what was told to be kept is there"

    def _state(self) -> dict[int, str]:
        result: dict[int, str] = {}

        async def read() -> None:
            async with trio.open_nursery() as nursery:
                async with running(QuorumStore(Line(self.etcd, nursery), "g", TTL_S, clock_ms=trio_ms)) as last:
                    await last.leads.wait()
                    replicas = last.sets[NAME].replicas if NAME in last.sets else {}
                    result.update({broker_id: each.register_check_code for broker_id, each in replicas.items()})
                nursery.cancel_scope.cancel()

        self.etcd.lease_ends_s = dict.fromkeys(self.etcd.lease_ends_s, (0.0, 0))
        trio.run(read, clock=MockClock(autojump_threshold=0))
        return result

    async def _run(self) -> None:
        with trio.move_on_after(TIME_S):
            async with trio.open_nursery() as nursery:
                for number in range(CONTROLLERS):
                    nursery.start_soon(self._live, number, nursery)

    async def _live(self, number: int, nursery: trio.Nursery) -> None:
        """Runs a controller's lives, one after the other."""
        while True:
            line = self.make_line(self.etcd, nursery)
            line.next_mishap = lambda call: self.rng.choice(MISHAPS)
            line.late_s = self.rng.uniform(1, 4 * TTL_S)
            with trio.move_on_after(self.rng.uniform(5, 60)):
                async with running(self.make_store(line, "g", TTL_S, clock_ms=trio_ms), f"n{number}") as led:
                    self.led[number] = led
                    async with trio.open_nursery() as inner:
                        inner.start_soon(self._cut, line)
                        await self._decide(led, number)
            self.led.pop(number, None)
            await trio.sleep(self.rng.uniform(0, 3))

    async def _cut(self, line: Line) -> None:
        while True:
            await trio.sleep(self.rng.uniform(1, 20))
            line.is_cut = True
            await trio.sleep(self.rng.uniform(0.1, 3 * TTL_S))
            line.is_cut = False

    async def _decide(self, led: LedStore, number: int) -> None:
        """Gives away the next id, again and again while it leads."""
        while True:
            await trio.sleep(self.rng.uniform(0, 0.5))
            self._check_leaders()
            if not led.store.is_leading:
                continue
            found = led.sets.get(NAME)
            broker_id = found.next_broker_id if found else 1
            code = f"h:{number};{self.rng.random()}"
            try:
                await led.keep(BrokerIdApplied("c", NAME, "h:1", broker_id, code))
            except LeadershipLost:
                self.lost += 1
            else:
                assert self.kept.setdefault(broker_id, code) == code, "an id is given away once"

    def _check_leaders(self) -> None:
        assert sum(each.store.is_leading for each in self.led.values()) <= 1


def test_nothing_that_was_kept_is_lost() -> None:
    worlds = [World(seed) for seed in range(3)]
    for world in worlds:
        world.check()
    assert sum(len(world.kept) for world in worlds) > 200
    assert sum(world.lost for world in worlds) > 3, "some were interrupted"


@pytest.mark.sweep
def test_nor_is_it_by_many_seeds() -> None:
    for seed in range(60):
        World(seed).check()


LONG_TTL_S = 500
NAMED = (ControllerName("n1", "127.0.0.1:n1"), ControllerName("n2", "127.0.0.1:n2"))


@pytest.mark.trio
async def test_another_one_leads_as_soon_as_the_leader_has_ended(nursery: trio.Nursery, autojump_clock: object) -> None:
    """The others do not wait for their next look, and all know at once who leads."""
    etcd, scope, leads = EtcdInMemory(), trio.CancelScope(), trio.Event()

    async def lead_first(store: QuorumStore) -> None:
        with scope:
            async with running(store, "n0") as first:
                await first.leads.wait()
                leads.set()
                await trio.sleep_forever()

    first, *others = [QuorumStore(Line(etcd, nursery), "g", LONG_TTL_S, clock_ms=trio_ms) for _ in range(3)]
    nursery.start_soon(lead_first, first)
    await leads.wait()
    async with running(others[0], "n1"), running(others[1], "n2"):
        while None in [each.leader for each in others]:
            await trio.sleep(0.1)
        ended_s = trio.current_time()
        scope.cancel()
        while [each.is_leading or each.leader in NAMED for each in others] != [True, True]:
            await trio.sleep(0.1)
        assert trio.current_time() - ended_s < others[0]._look_s / 10


@pytest.mark.trio
async def test_who_has_slept_does_not_lead(nursery: trio.Nursery, autojump_clock: object) -> None:
    """The clock of its timers, which is trio's, stood still meanwhile. Etcd's clock did not, so another controller may
    lead."""
    slept_ms = 0
    line = Line(EtcdInMemory(), nursery)
    async with running(QuorumStore(line, "g", TTL_S, clock_ms=lambda: trio_ms() + slept_ms)) as found:
        await found.leads.wait()
        assert found.store.is_leading
        slept_ms = TTL_S * 1000
        assert not found.store.is_leading
        with pytest.raises(LeadershipLost):
            await found.keep(BrokerIdApplied("c", NAME, "h:1", 1, "h:1;0"))


class WithoutConditions(Line):
    """Two controllers that believe they lead both write."""

    async def txn(self, conditions: Sequence[KeyCondition], *args: Any, **more: Any) -> TxnResult:
        is_decision = len(conditions) > 1
        return await super().txn([] if is_decision else conditions, *args, **more)


class SilenceIsConsent(Line):
    """A request without an answer counts as done."""

    async def txn(self, conditions: Sequence[KeyCondition], *args: Any, **more: Any) -> TxnResult:
        try:
            return await super().txn(conditions, *args, **more)
        except EtcdError:
            return TxnResult(True, self._etcd.revision)


class SentAgainUnread(Line):
    """The head is not compared, so a late request undoes later decisions."""

    async def txn(self, conditions: Sequence[KeyCondition], *args: Any, **more: Any) -> TxnResult:
        return await super().txn(conditions[:1], *args, **more)


class LeadsOn(QuorumStore):
    """Ignores the clock."""

    @property
    def is_leading(self) -> bool:
        return self._term is not None or self.was_leading

    was_leading = False

    async def run(self, me: Any, lead: Callable[[Any], None], follow: Callable[[], None]) -> None:
        def lead_on(sets: Any) -> None:
            self.was_leading = True
            lead(sets)

        await super().run(me, lead_on, follow)


@pytest.mark.parametrize(
    "parts",
    [{"line": WithoutConditions}, {"line": SilenceIsConsent}, {"line": SentAgainUnread}, {"store": LeadsOn}],
    ids=lambda parts: next(iter(parts.values())).__name__,
)
def test_broken_variants_are_caught(parts: dict[str, Any]) -> None:
    def check() -> None:
        for seed in range(20):
            World(seed, **parts).check()

    with pytest.raises((AssertionError, KeyError, ExceptionGroup)) as caught:
        check()
    assert not isinstance(caught.value, ExceptionGroup) or caught.group_contains(AssertionError)
