"""A slave writes and reports received bytes before readers see them."""

import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import trio

from rmqproto.ha import REPORT, TRANSFER_HEAD
from rmqserver.broker.replicas import ha_slave
from rmqserver.broker.replicas.ha_slave import HaSlave
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.store.append import log_copy
from rmqserver.store.append.log_copy import LogCopy
from rmqserver.store.message_store import MessageStore
from tests.rmqserver.store.conftest import TINY, put_many

TIMEOUT_S = 60
TRANSFER_BYTES = 512


@pytest.fixture
def slave(tmp_path: Path) -> Iterator[MessageStore]:
    store = MessageStore(tmp_path / "slave", TINY, background=False)
    store.open()
    yield store
    store.abandon()


@pytest.fixture
def parts(tmp_path: Path) -> list[bytes]:
    """The transfers of a log of 100 messages."""
    master, size = MessageStore(tmp_path / "master", TINY, background=False), TINY.commit_log_file_size_bytes
    master.open()
    put_many(master, 100)
    end = master.log.written_offset
    log = b"".join(master.log.segments.read(at, size) for at in range(0, end, size))[:end]
    master.abandon()
    pieces = [(at, log[at : at + TRANSFER_BYTES]) for at in range(0, end, TRANSFER_BYTES)]
    return [TRANSFER_HEAD.pack(at, len(piece)) + piece for at, piece in pieces]


def follow(slave: MessageStore, master: Callable[[trio.SocketStream], Awaitable[None]]) -> None:
    """``slave`` follows while ``master`` talks to it."""

    async def run() -> None:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        host, port = listener.socket.getsockname()
        follower = HaSlave(BrokerConfig(), slave)
        follower.follow(f"{host}:{port}")
        with trio.fail_after(TIMEOUT_S):
            async with listener, trio.open_nursery() as nursery:
                nursery.start_soon(follower.run)
                async with await listener.accept() as stream:
                    await master(stream)
                nursery.cancel_scope.cancel()

    trio.run(run)


async def reported(stream: trio.SocketStream, offset: int) -> None:
    """Waits until the slave has reported this end of its log."""
    data = b""
    while not data.endswith(REPORT.pack(offset)):
        data += await stream.receive_some(4096)


async def seen(slave: MessageStore, count: int) -> None:
    while slave.max_offset("T", 0) < count:
        await trio.sleep(0)


def test_a_report_waits_for_no_dispatch_and_readers_see_it_all_behind(
    slave: MessageStore, parts: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    may_dispatch = False
    dispatch_some = LogCopy.dispatch_some
    monkeypatch.setattr(LogCopy, "dispatch_some", lambda self: may_dispatch and dispatch_some(self))

    async def master(stream: trio.SocketStream) -> None:
        nonlocal may_dispatch
        await stream.send_all(b"".join(parts[:-1]))
        await reported(stream, TRANSFER_BYTES * len(parts[:-1]))
        assert (slave.max_offset("T", 0), slave.confirmed_offset) == (0, 0)
        assert slave.dispatch_behind_bytes > 1000
        may_dispatch = True
        await stream.send_all(parts[-1])
        await seen(slave, 100)

    follow(slave, master)
    assert slave.confirmed_offset == slave.written_offset


def test_what_is_little_is_reported_and_seen_without_a_turn_of_a_task(slave: MessageStore, parts: list[bytes]) -> None:
    async def run() -> None:
        follower, copy = HaSlave(BrokerConfig(), slave), slave.log_copy()
        ours, theirs = socket.socketpair()
        with theirs:
            async with trio.SocketStream(trio.socket.from_stdlib_socket(ours)) as stream:
                for data in (b"".join(parts[:-1]), parts[-1][:20], parts[-1][20:]):
                    assert follower._arrived(data, stream, copy)
                    assert theirs.recv(100) == REPORT.pack(copy.end_offset)
        assert slave.max_offset("T", 0) == 100

    trio.run(run)


def test_a_slave_reads_on_when_it_is_not_too_far_behind(
    slave: MessageStore, parts: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ha_slave, "BEHIND_MAX_BYTES", 1500)
    monkeypatch.setattr(ha_slave, "RECEIVE_SIZE_BYTES", 700)
    monkeypatch.setattr(log_copy, "PORTION_BYTES", 300)
    behind: list[int] = []
    append = LogCopy.append

    def noting(self: LogCopy, log_offset: int, data: bytes) -> None:
        behind.append(self.behind_bytes)
        append(self, log_offset, data)

    monkeypatch.setattr(LogCopy, "append", noting)

    async def master(stream: trio.SocketStream) -> None:
        await stream.send_all(b"".join(parts))
        await seen(slave, 100)

    follow(slave, master)
    assert len(behind) >= len(parts), "a transfer may come in parts"
    assert max(behind) <= 1500 + 700
