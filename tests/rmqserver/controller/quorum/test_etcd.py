"""What we rely on etcd for: our etcd in memory and a real one behave the same."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.abc import Clock
from trio.testing import MockClock

from rmqserver.controller.quorum.etcd import Etcd, EtcdError, KeyCondition, KeyPut, Revision
from rmqserver.controller.quorum.etcd_gateway import PAGE_KEYS, EtcdGateway
from tests.rmqserver.controller.quorum.etcd_in_memory import EtcdInMemory, Line

pytestmark = pytest.mark.trio

OpenEtcd = Callable[[], AbstractAsyncContextManager[Etcd]]


@pytest.fixture(params=["memory", pytest.param("etcd", marks=pytest.mark.interop)])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def clock(kind: str) -> Clock | None:
    """The clock of a test that takes this fixture; None for the real clock."""
    return None if kind == "etcd" else MockClock(autojump_threshold=0)


@pytest.fixture
def open_etcd(kind: str, tmp_path: Path) -> OpenEtcd:

    @asynccontextmanager
    async def opened() -> AsyncIterator[Etcd]:
        if kind == "etcd":
            from tests.interop.etcd import EtcdGroup

            with EtcdGroup(tmp_path / "etcd") as group:
                yield EtcdGateway(group.urls, 10)
        else:
            async with trio.open_nursery() as nursery:
                yield Line(EtcdInMemory(), nursery)

    return opened


async def test_a_transaction_is_all_or_nothing(open_etcd: OpenEtcd, clock: object) -> None:
    async with open_etcd() as etcd:
        assert await etcd.get("a") is None
        new = KeyCondition("a", Revision.CREATE, 0)
        done = await etcd.txn([new], [KeyPut("a", b"1"), KeyPut("b", b"\0\xff")])
        assert (done.is_done, done.found) == (True, ())
        refused = await etcd.txn([new], [KeyPut("a", b"2"), KeyPut("c", b"")], ["b"], otherwise=["a", "c"])
        assert not refused.is_done
        first = refused.found[0]
        assert first is not None
        assert first == ("a", b"1", done.revision, done.revision)
        assert refused.found[1] is None
        assert await etcd.get("c") is None
        second = await etcd.txn([KeyCondition("a", Revision.MOD, done.revision)], [KeyPut("a", b"2")], ["b"])
        assert second.is_done
        assert second.revision > done.revision
        assert await etcd.get("a") == ("a", b"2", done.revision, second.revision)
        assert await etcd.get("b") is None
        assert not (await etcd.txn([KeyCondition("a", Revision.MOD, done.revision)], [KeyPut("a", b"3")])).is_done
        assert not (await etcd.txn([KeyCondition("b", Revision.MOD, done.revision)], [KeyPut("a", b"3")])).is_done
        assert (await etcd.txn([KeyCondition("b", Revision.MOD, 0)], [], ["a"])).is_done
        again = await etcd.txn([KeyCondition("a", Revision.CREATE, 0)], [KeyPut("a", b"4")])
        found = await etcd.get("a")
        assert found.create_revision == again.revision > second.revision, "a key that comes again is another key"


async def test_a_key_goes_with_its_lease(open_etcd: OpenEtcd, clock: object) -> None:
    async with open_etcd() as etcd:
        lease, other = await etcd.grant(2), await etcd.grant(60)
        assert await etcd.keep_alive(lease) == 2
        assert (await etcd.txn([], [KeyPut("a", b"", lease), KeyPut("b", b"", other)])).is_done
        assert await etcd.get("a") is not None
        while await etcd.get("a") is not None:
            await trio.sleep(0.1)
        assert await etcd.keep_alive(lease) == 0
        with pytest.raises(EtcdError, match="lease not found"):
            await etcd.txn([], [KeyPut("a", b"", lease)])
        await etcd.revoke(other)
        assert await etcd.get("b") is None
        with pytest.raises(EtcdError, match="lease not found"):
            await etcd.revoke(other)


async def test_a_key_that_changes_is_told_of_at_once(open_etcd: OpenEtcd, clock: object) -> None:
    async with open_etcd() as etcd:
        lease = await etcd.grant(60)
        made = await etcd.txn([], [KeyPut("a", b"1", lease), KeyPut("b", b"1")])
        nothing = await etcd.txn([KeyCondition("a", Revision.CREATE, 0)], [], otherwise=["a"])
        assert nothing.revision == made.revision
        began_s = trio.current_time()
        await etcd.changed("a", made.revision - 1, 60)  # the change came before the watch
        for change in (lambda: etcd.txn([], [KeyPut("a", b"2", lease)]), lambda: etcd.revoke(lease)):
            seen = await etcd.txn([KeyCondition("a", Revision.CREATE, 0)], [], otherwise=["a"])
            has_returned = trio.Event()

            async def watch(revision: int = seen.revision, returned: trio.Event = has_returned) -> None:
                await etcd.changed("a", revision, 60)
                returned.set()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(watch)
                await etcd.changed("b", seen.revision, 0.3)
                assert not has_returned.is_set(), "nothing has changed"
                await change()
        assert trio.current_time() < began_s + 60


async def test_all_keys_of_a_prefix(open_etcd: OpenEtcd, clock: object) -> None:
    """More keys than one answer holds, in order, and none of the neighbours."""
    names = [f"x/{number:05d}" for number in range(PAGE_KEYS + 20)] + ["x/ü", "x0", "x", "w/"]
    async with open_etcd() as etcd:
        for at in range(0, len(names), 100):
            assert (await etcd.txn([], [KeyPut(name, name.encode()) for name in names[at : at + 100]])).is_done
        found = await etcd.get_all("x/")
        assert [each.key for each in found] == [name for name in names if name.startswith("x/")]
        assert all(each.value == each.key.encode() for each in found)
        assert await etcd.get_all("nothing/") == []
