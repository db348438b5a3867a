"""What a controller may expect of each kind of store: the log of a single controller, etcd in memory, and a real
etcd."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio
from trio.abc import Clock
from trio.testing import MockClock

from rmqproto.errors import RocketMQError, StorageError
from rmqserver.controller.controller_state import (
    BrokerAddressUpdated,
    BrokerDataCleaned,
    BrokerIdApplied,
    ControllerEvent,
    MasterElected,
    StateSnapshot,
    SyncStateSetAltered,
)
from rmqserver.controller.controller_store import ControllerStore
from rmqserver.controller.event_log import EventLog
from rmqserver.controller.quorum.etcd_gateway import EtcdGateway
from rmqserver.controller.quorum.quorum_store import QuorumStore
from rmqserver.store.disk.disk import OsDisk
from tests.rmqserver.controller.leading import leading, running
from tests.rmqserver.controller.quorum.etcd_in_memory import EtcdInMemory, Line, trio_ms

MakeStore = Callable[[trio.Nursery], ControllerStore]
"""Makes a store over the same state each time."""

pytestmark = pytest.mark.trio

TTL_S = 2
NAME, OTHER = "broker-a", "ütf/ \n%8"
BEGINNING: list[ControllerEvent] = [
    *(BrokerIdApplied("c", NAME, f"h:{broker_id}", broker_id, f"h:{broker_id};1") for broker_id in (1, 2, 3)),
    MasterElected(NAME, 1),
    SyncStateSetAltered(NAME, (1, 2, 3)),
]


@pytest.fixture(params=["log", "memory", pytest.param("etcd", marks=pytest.mark.interop)])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def clock(kind: str) -> Clock | None:
    """The clock of a test that takes this fixture; None for the real clock."""
    return None if kind == "etcd" else MockClock(autojump_threshold=0)


@pytest.fixture
def make_store(kind: str, tmp_path: Path) -> Iterator[MakeStore]:
    if kind == "log":
        yield lambda nursery: EventLog(str(tmp_path / "state"), OsDisk(), snapshot_after_records=3)
    elif kind == "memory":
        etcd = EtcdInMemory()
        yield lambda nursery: QuorumStore(Line(etcd, nursery), "g", TTL_S, history_decisions=3, clock_ms=trio_ms)
    else:
        from tests.interop.etcd import EtcdGroup

        with EtcdGroup(tmp_path / "etcd") as group:
            yield lambda nursery: QuorumStore(EtcdGateway(group.urls, TTL_S), "g", TTL_S, history_decisions=3)


async def test_what_was_kept_is_there(make_store: MakeStore, clock: object) -> None:
    """The next leader finds every kind of event, kept one at a time or several in one decision."""
    later: list[tuple[ControllerEvent, ...]] = [
        (BrokerIdApplied("c", OTHER, "h:1", 1, "h:1;1"), MasterElected(OTHER, 1)),
        (BrokerAddressUpdated(NAME, 2, "other:2"), MasterElected(NAME, None)),
        (BrokerDataCleaned(NAME, (3,)),),
        (MasterElected(NAME, 2),),
        (BrokerDataCleaned(OTHER, None),),
    ]
    async with trio.open_nursery() as nursery:
        async with leading(make_store(nursery)) as first:
            assert first.sets == {}
            for event in BEGINNING:
                await first.keep(event)
            before = first.sets
        assert before[NAME].sync_state_set == (1, 2, 3)
        for events in later:
            async with leading(make_store(nursery)) as following:
                assert following.sets == before
                await following.keep(*events)
                before = following.sets
        async with leading(make_store(nursery)) as last:
            assert last.sets == before
            assert last.sets.keys() == {NAME}
            await last.keep(StateSnapshot((before[NAME],)))


async def test_one_leads(make_store: MakeStore, clock: object) -> None:
    """A second store fails at once, or follows until the first has ended, and then has what the first has kept."""
    async with trio.open_nursery() as nursery, leading(make_store(nursery)) as first:
        assert first.store.is_leading
        other = make_store(nursery)
        if isinstance(other, EventLog):
            with pytest.raises(StorageError, match="held by another process"):
                other.open()
        else:
            async with running(other, "n1") as second:
                while second.store.leader is None:
                    await trio.sleep(0.02)
                assert second.store.leader.id == "n0"
                assert not second.store.is_leading
                with pytest.raises(RocketMQError, match="does not lead"):
                    await second.keep(BEGINNING[0])
        await first.keep(BEGINNING[0])
        assert first.store.is_leading


async def test_many_decisions_do_not_make_it_larger(make_store: MakeStore, clock: object, tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        store = make_store(nursery)
        async with leading(store) as led:
            for event in BEGINNING:
                await led.keep(event)
            sizes = []
            for _ in range(12):
                await led.keep(SyncStateSetAltered(NAME, (1, 2, 3)))
                sizes.append(await _size(store, tmp_path))
            assert max(sizes[6:]) <= max(sizes[:6]) + 20, "epochs have one more digit"


async def _size(store: ControllerStore, tmp_path: Path) -> int:
    """The size of the log in bytes, or the number of keys."""
    if isinstance(store, QuorumStore):
        return len(await store._etcd.get_all("/rmqserver/g/"))
    return (tmp_path / "state/controller.log").stat().st_size
