"""A slave's reports to its master, with neither of them running."""

import socket
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing

from rmqproto.errors import ProtocolError
from rmqproto.ha import REPORT, TRANSFER_HEAD
from rmqserver.broker.replicas import ha_slave
from rmqserver.broker.replicas.ha_slave import HaSlave, MasterGone
from rmqserver.config.broker_config import BrokerConfig

TIMEOUT_S = 20

Ends = tuple[socket.socket, socket.socket]
"""The slave's end, and the master's."""


@pytest.fixture
def ends() -> Iterator[Ends]:
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # the kernel's minimum: some KiB
    theirs.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def stream_of(ours: socket.socket) -> trio.SocketStream:
    return trio.SocketStream(trio.socket.from_stdlib_socket(ours))


def read(theirs: socket.socket) -> list[int]:
    """The reports that have arrived."""
    data = b""
    try:
        while True:
            data += theirs.recv(1 << 16)
    except BlockingIOError:
        return [offset for (offset,) in REPORT.iter_unpack(data)]


async def test_it_goes_on_to_report_when_its_clock_is_set_back(
    nursery: trio.Nursery, ends: Ends, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It used to be silent until the clock had caught up, and a master hangs up on a silent slave."""
    slave = HaSlave(BrokerConfig(), cast(Any, None))
    copy, (ours, theirs) = SimpleNamespace(end_offset=0), ends
    nursery.start_soon(slave._report_regularly, stream_of(ours), cast(Any, copy))
    await trio.testing.wait_all_tasks_blocked()
    an_hour_ago_s = time.time() - 3600
    monkeypatch.setattr(time, "time", lambda: an_hour_ago_s)
    monkeypatch.setattr(time, "time_ns", lambda: int(an_hour_ago_s * 1e9))
    assert read(theirs) == [0]
    await trio.sleep(20)  # haHousekeepingInterval, the time that a master waits
    assert read(theirs)


async def test_a_master_that_does_not_read_gets_whole_reports_and_the_newest_as_soon_as_it_does(ends: Ends) -> None:
    """The reports in between are left out, because the newest one covers them."""
    slave = HaSlave(BrokerConfig(), cast(Any, None))
    copy, (ours, theirs) = SimpleNamespace(end_offset=0), ends
    stream = stream_of(ours)
    with trio.fail_after(TIMEOUT_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(slave._send_rests, stream, cast(Any, copy))
            while not slave._rest:
                copy.end_offset += 1
                slave._report(stream, cast(Any, copy))
            for _ in range(1000):
                copy.end_offset += 1
                slave._report(stream, cast(Any, copy))
            reported: list[int] = []
            while copy.end_offset not in reported:
                reported += read(theirs)
                await trio.sleep(0)
            assert reported == sorted(reported)
            assert len(reported) <= copy.end_offset - 999
            nursery.cancel_scope.cancel()


async def test_a_copy_is_told_where_its_master_s_log_ends() -> None:
    """Else the memory of a fresh slave fills with a long past that nobody reads."""
    slave, told = HaSlave(BrokerConfig(), cast(Any, None)), []

    async def check() -> int:
        return 5000

    slave.check_log = check
    await slave._greet(cast(Any, None), cast(Any, SimpleNamespace(master_ends_at=told.append)))
    assert told == [5000]


async def test_what_has_come_is_written_when_the_connection_ends(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old log waits for its block to be full; it would have to come again."""
    (ours, theirs), done = ends, []

    async def connected(addr: str) -> trio.SocketStream:
        return stream_of(ours)

    monkeypatch.setattr(ha_slave, "open_stream", connected)
    slave = HaSlave(BrokerConfig(), cast(Any, None))
    copy = SimpleNamespace(end_offset=0, master_ends_at=done.append, settle=lambda: done.append("settled"))
    theirs.shutdown(socket.SHUT_WR)
    with pytest.raises(ExceptionGroup) as raised:
        await slave._follow("127.0.0.1:1", cast(Any, copy))
    assert raised.group_contains(MasterGone)
    assert done == [0, "settled"]


def test_a_heartbeat_names_the_place_of_the_bytes_that_come_next() -> None:
    """They are not all written yet."""
    slave = HaSlave(BrokerConfig(), cast(Any, SimpleNamespace(log=SimpleNamespace(file_size_bytes=4096))))
    copy = cast(Any, SimpleNamespace(end_offset=1024, next_offset=1500))
    slave._take(TRANSFER_HEAD.pack(1500, 0), copy)
    with pytest.raises(ProtocolError, match="this log ends at 1500"):
        slave._take(TRANSFER_HEAD.pack(1024, 0), copy)
