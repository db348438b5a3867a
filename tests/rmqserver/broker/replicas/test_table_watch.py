"""Slaves that wait for changes of their master's tables."""

from typing import Any

import pytest
import trio
import trio.testing

from rmqproto.bodies.routes import TopicConfig
from rmqproto.codes import RequestCode
from rmqproto.headers.controller import HaInfoHeader
from rmqproto.wire.command import Command
from rmqserver.broker.assembly import BrokerAssembly
from rmqserver.broker.replicas.metadata_copy import MetadataCopy
from rmqserver.broker.replicas.slave import Slave
from rmqserver.broker.replicas.table_watch import GATHER_S, TableWatch
from tests.rmqserver.store.conftest import put

SLAVE_ID = 2


class Peer:
    """A slave's connection. ``stamps``: what it was answered; None is an answer without a stamp. ``same``: whether the
    last one told that the tables are the same."""

    closed = False

    def __init__(self, watch: TableWatch):
        self.stamps: list[int | None] = []
        self.same: bool | None = None
        self._watch = watch

    def _tell(self, found: HaInfoHeader) -> None:
        self.stamps.append(found.tables_stamp)
        self.same = found.tables_same

    def ask(self, stamp: int) -> None:
        peer: Any = self
        assert self._watch.watch(SLAVE_ID, stamp, peer, self._tell)


def watch_of(parts: BrokerAssembly) -> TableWatch:
    return TableWatch(parts.topics, parts.groups, lambda: None)


def first_stamp(peer: Peer) -> int:
    peer.ask(0)
    stamp = peer.stamps.pop()
    assert stamp is not None
    return stamp


async def test_a_slave_hears_once_of_all_that_changes_at_one_time(
    nursery: trio.Nursery, parts: BrokerAssembly, autojump_clock: object
) -> None:
    watch = watch_of(parts)
    peer = Peer(watch)
    nursery.start_soon(watch.run)
    stamp = first_stamp(peer)
    peer.ask(stamp)
    await trio.sleep(10)
    assert peer.stamps == []
    for name in ("One", "Two"):
        parts.topics.put(TopicConfig(topic_name=name))
    await trio.sleep(GATHER_S * 1.5)
    assert (peer.stamps, peer.same) == ([stamp + 1], False)
    peer.ask(stamp + 1)
    peer.ask(stamp + 1)
    assert peer.stamps == [stamp + 1, None], "the former request has ended"
    watch.end()
    assert peer.stamps == [stamp + 1, None, None]


async def test_the_successor_has_copied_what_was_there_when_clients_began_to_wait(parts: BrokerAssembly) -> None:
    """A copy that was under way had begun before."""
    watch = watch_of(parts)
    peer: Any = Peer(watch)
    assert not await watch.copied_by(SLAVE_ID), "it does not watch"
    stamp, copied = first_stamp(peer), []
    assert watch.is_watching(peer)

    async def copy() -> None:
        copied.append(await watch.copied_by(SLAVE_ID))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(copy)
        await trio.testing.wait_all_tasks_blocked()
        peer.ask(stamp)
        await trio.testing.wait_all_tasks_blocked()
        assert (peer.stamps, peer.same, copied) == ([stamp + 1], True, [])
        peer.ask(stamp + 1)
    assert copied == [True]
    parts.topics.put(TopicConfig(topic_name="Last"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(copy)
        await trio.testing.wait_all_tasks_blocked()
        assert (peer.stamps[1:], peer.same) == ([stamp + 2], False), "it was not told of the change yet"
        peer.closed = True
        watch.peer_gone(peer)
    assert copied == [True, False]


class Master:
    """``stamps`` are its answers to a slave that watches; after the last it does not answer. With an even stamp its
    topics are the same."""

    def __init__(self, *stamps: int | None):
        self.stamps = list(stamps)
        self.copied_s: list[float] = []

    async def ask(self, code: int, header: Any = None, timeout_s: float = 0) -> Command:
        if code == RequestCode.GET_ALL_TOPIC_CONFIG:
            self.copied_s.append(trio.current_time())
        if code != RequestCode.EXCHANGE_BROKER_HA_INFO:
            return Command(code=0, body=b"{}")
        if not self.stamps:
            await trio.sleep_forever()
        stamp = self.stamps.pop(0)
        is_same = "false" if stamp is None or stamp % 2 else "true"
        return Command(code=0, ext={} if stamp is None else {"tablesStamp": str(stamp), "tablesSame": is_same})


@pytest.mark.parametrize(
    ("master", "rounds"),
    [
        (Master(None), [0]),  # Apache's
        (Master(7, 9, None), [0, 0]),  # it is no master any more
        (Master(7, 9, 11), [0, 0, 0, 5, 10]),
        (Master(7, 9, 10), [0, 0, 5, 10]),  # then only offsets
    ],
)
async def test_a_slave_copies_at_once_what_has_changed(
    parts: BrokerAssembly, autojump_clock: object, master: Any, rounds: list[float]
) -> None:
    log: Any = type("Log", (), {"link_number": 1})()
    metadata = MetadataCopy(
        parts.config, parts.store, parts.timer_store, parts.files, parts.topics, parts.groups, parts.offsets, lambda: 1
    )
    slave = Slave(parts.config, parts.store, parts.timer_store, parts.files, metadata, lambda: master, log)
    began_s = trio.current_time()
    with trio.move_on_after(12):
        await slave._copy_from(master)
    assert [round(each - began_s) for each in master.copied_s] == rounds


class AheadMaster(Master):
    """Its log has a message. ``told``: the stamps that the slave said it has copied."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[int] = []

    async def ask(self, code: int, header: Any = None, timeout_s: float = 0) -> Command:
        if code == RequestCode.GET_BROKER_HA_STATUS:
            return Command(code=0, body=b'{"masterCommitLogMaxOffset":1}')
        if code == RequestCode.EXCHANGE_BROKER_HA_INFO:
            self.told.append(header.tables_stamp)
            if header.tables_stamp == 8:
                await trio.sleep_forever()
            return Command(code=0, ext={"tablesStamp": "8", "tablesSame": "false"})
        return await super().ask(code)


async def test_what_a_slave_has_not_taken_yet_it_does_not_tell_as_copied(
    nursery: trio.Nursery, parts: BrokerAssembly, autojump_clock: object
) -> None:
    """Its log has not come so far. In its master's place, groups would begin again where they were before."""
    log, master = type("Log", (), {"link_number": 1})(), AheadMaster()
    there: Any = log
    link: Any = master
    metadata = MetadataCopy(
        parts.config, parts.store, parts.timer_store, parts.files, parts.topics, parts.groups, parts.offsets, lambda: 1
    )
    slave = Slave(parts.config, parts.store, parts.timer_store, parts.files, metadata, lambda: link, there)
    nursery.start_soon(slave._copy_from, link)
    await trio.sleep(3)
    assert set(master.told) == {0}
    assert 3 <= len(master.told) <= 8, "it asks, but not all the time"
    assert len(master.copied_s) == 1, "tables that are the same are not copied again"
    put(parts.store)
    parts.store.commit()
    await trio.sleep(3)
    assert master.told[-1] == 8
