"""A slave whose disk becomes full goes on by itself once there is room."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
import trio
import trio.testing

from rmqproto.ha import REPORT
from rmqserver.broker.replicas import ha_slave
from rmqserver.broker.replicas.ha_slave import HaSlave
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.store.disk.disk import DiskUsage, OsDisk, OsFile, storage_error
from rmqserver.store.message_store import MessageStore
from rmqserver.store.running_flags import DISK_FULL, INDEX_ERROR, NOT_WRITEABLE
from tests.rmqserver.broker.replicas.test_dispatch_behind import TIMEOUT_S, TRANSFER_BYTES, parts, reported, seen
from tests.rmqserver.store.conftest import TINY

__all__ = ["parts"]

PLENTY_BYTES = 1 << 40


class FillingFile(OsFile):
    """A file of the log. Half of a write still fits onto a full disk."""

    __slots__ = ()
    disk: ClassVar[FillingDisk]

    def pwrite(self, data: bytes | bytearray | memoryview, at: int) -> None:
        if self.disk.is_full:
            super().pwrite(memoryview(data)[: len(data) // 2], at)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        super().pwrite(data, at)


class FillingDisk(OsDisk):
    is_full = False
    usable_bytes = PLENTY_BYTES

    def open(self, path: str, *, create_size_bytes: int | None = None, read_only: bool = False) -> OsFile:
        file = super().open(path, create_size_bytes=create_size_bytes, read_only=read_only)
        if "commitlog" in path:
            FillingFile.disk = self
            file.__class__ = FillingFile
        return file

    def usage(self, path: str) -> DiskUsage:
        return DiskUsage(PLENTY_BYTES, self.usable_bytes)


@pytest.fixture
def disk() -> FillingDisk:
    return FillingDisk()


@pytest.fixture
def slave(tmp_path: Path, disk: FillingDisk, monkeypatch: pytest.MonkeyPatch) -> Iterator[MessageStore]:
    monkeypatch.setattr(ha_slave, "RECONNECT_AFTER_S", 0.01)
    monkeypatch.setattr(ha_slave, "ROOM_AGAIN_AFTER_S", 0.01)
    store = MessageStore(tmp_path / "slave", TINY, disk, background=False)
    store.open()
    yield store
    store.abandon()


class Master:
    """Sends the log to whoever connects, from where its log ends."""

    def __init__(self, parts: list[bytes]):
        self.parts = parts

    async def serve(self, stream: trio.SocketStream) -> None:
        """Returns when the slave has closed the connection, or has everything."""
        (end,) = REPORT.unpack(await stream.receive_some(REPORT.size))
        try:
            await stream.send_all(b"".join(self.parts[end // TRANSFER_BYTES :]))
            await reported(stream, self.end_offset)
        except (trio.BrokenResourceError, AssertionError):
            await stream.aclose()

    @property
    def end_offset(self) -> int:
        head = 12
        return sum(len(part) - head for part in self.parts)


async def run_until_seen(follower: HaSlave, slave: MessageStore, master: Master, disk: FillingDisk) -> None:
    """Makes room as soon as the slave says that there is none."""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        host, port = listeners[0].socket.getsockname()
        nursery.start_soon(trio.serve_listeners, master.serve, listeners)
        follower.follow(f"{host}:{port}")
        nursery.start_soon(follower.run)
        with trio.fail_after(TIMEOUT_S):
            while not follower.problem:
                await trio.sleep(0)
            problem = follower.problem
            assert slave.max_offset("T", 0) < 100
            disk.is_full, disk.usable_bytes = False, PLENTY_BYTES
            await seen(slave, 100)
        assert "No space left" in problem or "has 7 MiB left" in problem
        assert not follower.problem
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("is_noticed_early", [True, False])
def test_a_full_disk_is_waited_for(
    slave: MessageStore, disk: FillingDisk, parts: list[bytes], is_noticed_early: bool
) -> None:
    """After a write had failed, the store took nothing more until the broker was started again."""
    if is_noticed_early:
        disk.usable_bytes = 7 << 20
    else:
        disk.is_full = True
    trio.run(run_until_seen, HaSlave(BrokerConfig(), slave), slave, Master(parts), disk)
    assert not slave.flags.refuses_writes
    assert slave.confirmed_offset == slave.written_offset


def test_a_disk_that_fills_up_is_noticed_before_a_write_fails(
    slave: MessageStore, disk: FillingDisk, parts: list[bytes]
) -> None:
    """Queues and index could not go on after an error."""
    follower, copy = HaSlave(BrokerConfig(), slave), slave.log_copy()
    disk.usable_bytes = 7 << 20
    with pytest.raises(ha_slave.NoRoom, match="has 7 MiB left, the limit is 256 MiB"):
        follower._arrived(b"".join(parts), None, copy)  # type: ignore[arg-type]
    assert copy.end_offset == 0


async def test_a_full_disk_is_logged_once(
    slave: MessageStore, disk: FillingDisk, caplog: pytest.LogCaptureFixture, autojump_clock: object
) -> None:
    """It used to be logged each second while other programs wrote and removed files there. The status has the newest
    text."""
    follower = HaSlave(BrokerConfig(), slave)
    follower.follow("127.0.0.1:1")  # it looks at its disk before it connects

    async def problems(room_mib: int) -> str:
        disk.usable_bytes = room_mib << 20
        await trio.sleep(10 * ha_slave.ROOM_AGAIN_AFTER_S)
        return follower.problem

    async with trio.open_nursery() as nursery:
        nursery.start_soon(follower.run)
        assert "has 7 MiB left" in await problems(7)
        assert "has 5 MiB left" in await problems(5)
        nursery.cancel_scope.cancel()
    assert [record.message.split()[0] for record in caplog.records] == ["event=no-room"]


async def until_not_followed(follower: HaSlave, slave: MessageStore, parts: list[bytes]) -> int:
    """Counts the connections that the slave makes, one before its flush fails. It is asked to follow again."""
    count = 0

    async def serve(stream: trio.SocketStream) -> None:
        nonlocal count
        count += 1
        await stream.receive_some(REPORT.size)
        slave.flags.set(NOT_WRITEABLE, "cannot flush the log")
        await stream.send_all(parts[0])
        await stream.receive_some(REPORT.size)

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        host, port = listeners[0].socket.getsockname()
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        follower.follow(f"{host}:{port}")
        nursery.start_soon(follower.run)
        with trio.fail_after(TIMEOUT_S):
            while not follower.problem:
                await trio.sleep(0)
        follower.follow(None)
        await trio.testing.wait_all_tasks_blocked()
        follower.follow(f"{host}:{port}")
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    return count


def test_a_slave_whose_flush_failed_follows_nobody(slave: MessageStore, parts: list[bytes]) -> None:
    """It came and went every second, in sync for a moment each time, and copied what it could not keep."""
    follower = HaSlave(BrokerConfig(), slave)
    assert trio.run(until_not_followed, follower, slave, parts) == 1
    assert follower.problem == "cannot flush the log; start this broker again when its disk is well"
    assert not follower.link_number


def test_a_slave_whose_flush_failed_on_a_full_disk_says_who_has_to_act(slave: MessageStore) -> None:
    config = BrokerConfig()
    slave.flags.fail(NOT_WRITEABLE, storage_error(OSError(errno.ENOSPC, "full"), "cannot flush", "it"))
    slave.flags.set(DISK_FULL, "95% full")
    with pytest.raises(ha_slave.StoreFailed, match="goes on when there"):
        HaSlave(config, slave)._check_store()
    slave.flags.fail(INDEX_ERROR, storage_error(OSError(errno.EIO, "broken"), "the index cannot go on:", "it"))
    with pytest.raises(ha_slave.StoreFailed, match="start this broker again"):
        HaSlave(config, slave)._check_store()
