"""This broker as a slave: its log follows its master's (``DefaultHAClient``, 5.5.0)."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Awaitable, Callable

import trio

from rmqproto.bodies.master import HaClient, HaStatus
from rmqproto.errors import ProtocolError, StorageError
from rmqproto.ha import REPORT, TRANSFER_HEAD
from rmqserver.broker.replicas.same_log import OtherLog
from rmqserver.config import BrokerConfig
from rmqserver.remoting.outward import open_stream
from rmqserver.remoting.traffic import BY_TASK, Ended, Traffic
from rmqserver.remoting.write_now import write_now
from rmqserver.store.log.log_copy import PORTION_BYTES, LogCopy
from rmqserver.store.message_store import MessageStore

log = logging.getLogger(__name__)

RECONNECT_AFTER_S = 1.0
OTHER_LOG_AGAIN_AFTER_S = 10.0
"""Somebody has to do something about it."""

RECEIVE_SIZE_BYTES = 1 << 20

BEHIND_MAX_BYTES = 64 << 20
"""Of the log, written and reported and not dispatched: a third of a second's work. More is waited for, or a slave that
takes its master's place would have it all before it."""

DISPATCH_AGAIN_AFTER_S = 1.0
"""Where the disk refused it."""


class MasterGone(Exception):
    """Its connection has ended, or it is another one now."""


class HaSlave:
    """``run`` is a task; ``follow`` says whom."""

    def __init__(self, config: BrokerConfig, store: MessageStore, traffic: Traffic = BY_TASK):
        """``traffic``: how the master's log comes."""
        self._config = config
        self._store = store
        self._traffic = traffic
        self.may_be_read = True
        """Whether readers may see what it has."""
        self.check_log: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint
        """Awaited before the first report to a master. OtherLog if nothing may come of it."""
        self._master_addr: str | None = None
        self._has_other_master = trio.Event()
        self._is_linked = False
        self._link_count = 0
        self._has_come = trio.Event()
        """Something can be dispatched, and was not at once."""
        self._rest = b""
        """Of a report that the socket did not take."""
        self._has_rest = trio.Event()
        self.master_flush_offset = 0
        """What an operator, or the master itself, has said of its device; it is only shown."""
        self._problem = ""
        self._last_read_ms = self._last_write_ms = 0
        self._reported_s = 0.0
        """By trio's clock, for ``_last_write_ms`` goes back when somebody sets the clock."""
        self._read_bytes = self._rate = 0
        self._second_began_s = 0.0

    def follow(self, ha_addr: str | None) -> None:
        """From now on the master whose slaves connect there; None: nobody. Its own connection goes on if it is the
        same."""
        if ha_addr != self._master_addr:
            self._master_addr = ha_addr
            self._has_other_master.set()

    def follow_next(self, ha_addr: str) -> None:
        """As ``follow``, but who is followed now is until that connection ends."""
        self._master_addr = ha_addr
        if not self._is_linked:
            self._has_other_master.set()

    @property
    def link_number(self) -> int:
        """Of the connection on which the master's log comes, counted from 1; 0: on none."""
        return self._link_count if self._is_linked else 0

    async def run(self) -> None:
        """Until cancelled. A master that is gone is tried again and again."""
        copy = self._store.log_copy()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._dispatch, copy)
            await self._follow_masters(copy)

    async def _follow_masters(self, copy: LogCopy) -> None:
        while True:
            self._has_other_master = trio.Event()
            if self._master_addr is None:
                await self._has_other_master.wait()
                continue
            again_after_s = RECONNECT_AFTER_S
            try:
                await self._follow(self._master_addr, copy)
            except* OtherLog as errors:
                self._note(str(errors.exceptions[0]), "other-log")
                again_after_s = OTHER_LOG_AGAIN_AFTER_S
            except* (
                OSError, trio.BrokenResourceError, trio.TooSlowError, ProtocolError, StorageError, MasterGone
            ) as errors:  # fmt: skip
                self._note(str(errors.exceptions[0]) or type(errors.exceptions[0]).__name__)
            self._is_linked = False
            with trio.move_on_after(again_after_s):
                await self._has_other_master.wait()

    async def _dispatch(self, copy: LogCopy) -> None:
        """Readers see what has come, behind the reports of it: a master waits for the log alone."""
        while True:
            await self._has_come.wait()
            self._has_come = trio.Event()
            try:
                while copy.dispatch_some():
                    await trio.lowlevel.checkpoint()
            except (OSError, StorageError) as error:
                log.error("event=copied-not-dispatched reason=%r", str(error))
                await trio.sleep(DISPATCH_AGAIN_AFTER_S)
                self._has_come.set()

    async def _follow(self, ha_addr: str, copy: LogCopy) -> None:
        stream = await open_stream(ha_addr)
        async with stream, trio.open_nursery() as nursery:
            received = await self._greet(stream, copy)
            self._link_count += 1
            self._note("")
            self._rest, self._has_rest = b"", trio.Event()
            nursery.start_soon(self._leave_for_another)
            nursery.start_soon(self._report_regularly, stream, copy)
            nursery.start_soon(self._send_rests, stream, copy)
            await self._receive(stream, copy, received)

    async def _greet(self, stream: trio.SocketStream, copy: LogCopy) -> bytes:
        """What is said before the first report; returns what has come behind it."""
        await self.check_log()
        return b""

    async def _leave_for_another(self) -> None:
        await self._has_other_master.wait()
        raise MasterGone("another master is followed")

    async def _report_regularly(self, stream: trio.SocketStream, copy: LogCopy) -> None:
        """At once, which an Apache slave does not do, and whenever nothing was reported for a while."""
        interval_s = self._config.ha_send_heartbeat_interval_ms / 1000
        while True:
            if trio.current_time() - self._reported_s >= interval_s or not self._is_linked:
                self._report(stream, copy)
                self._is_linked = True
            await trio.sleep(interval_s)

    def _report(self, stream: trio.SocketStream, copy: LogCopy) -> None:
        self._send_report(stream, REPORT.pack(copy.end_offset))

    def _send_report(self, stream: trio.SocketStream, report: bytes) -> None:
        """At once; where the socket does not take it whole, a task sends the rest, and then what is new."""
        if not self._rest:
            self._reported_s, self._last_write_ms = trio.current_time(), time.time_ns() // 1_000_000
            self._rest = report[write_now(stream, [report]) :]
            if self._rest:
                self._has_rest.set()

    async def _send_rests(self, stream: trio.SocketStream, copy: LogCopy) -> None:
        while True:
            await self._has_rest.wait()
            self._has_rest = trio.Event()
            await stream.send_all(self._rest)
            self._rest = b""
            self._report(stream, copy)

    async def _receive(self, stream: trio.SocketStream, copy: LogCopy, first: bytes) -> None:
        """Never returns. ``first`` has come already."""
        received = bytearray(first)
        ended = await self._traffic.hand_over(
            stream,
            lambda data: self._arrived(data, received, stream, copy),
            at_once_max_bytes=RECEIVE_SIZE_BYTES,
            silence_max_s=self._config.ha_housekeeping_interval_ms / 1000,
        )
        raise MasterGone("the master is silent" if ended is Ended.SILENT else "the master closed the connection")

    def _arrived(
        self, data: bytes | memoryview, received: bytearray, stream: trio.SocketStream, copy: LogCopy
    ) -> bool:  # fmt: skip
        """What is whole of it, and of what has been ``received`` before, is reported once, and then dispatched."""
        self._last_read_ms = time.time_ns() // 1_000_000
        self._count(len(data))
        received += data
        before = copy.end_offset
        del received[: self._take(received, copy)]
        if copy.end_offset != before:
            self._report(stream, copy)
        self._show_some(copy)
        return True

    def _show_some(self, copy: LogCopy) -> None:
        """What is little, at once: a turn of the task takes longer. And what is too much."""
        with contextlib.suppress(OSError, StorageError):  # the task tries again, and says so
            if copy.behind_bytes <= PORTION_BYTES:
                copy.dispatch_some()
            while copy.behind_bytes > BEHIND_MAX_BYTES and copy.dispatch_some():
                pass
        if copy.behind_bytes:
            self._has_come.set()

    def _take(self, received: bytearray, copy: LogCopy) -> int:
        """Appends the transfers that are whole; returns their size. ProtocolError for one that does not fit."""
        at = 0
        while len(received) - at >= TRANSFER_HEAD.size:
            offset, size = TRANSFER_HEAD.unpack_from(received, at)
            if size < 0 or size > self._store.log.file_size_bytes:
                raise ProtocolError(f"a transfer of {size} bytes at log offset {offset}")
            stop = at + TRANSFER_HEAD.size + size
            if size == 0:
                self._check_place(offset, copy)
            elif len(received) < stop:
                break
            else:
                with memoryview(received) as view, view[at + TRANSFER_HEAD.size : stop] as data:
                    copy.append(offset, data)
            at = stop
        return at

    @staticmethod
    def _check_place(offset: int, copy: LogCopy) -> None:
        if copy.end_offset and offset != copy.end_offset:
            raise ProtocolError(f"the master goes on at log offset {offset}, and this log ends at {copy.end_offset}")

    def _count(self, size: int) -> None:
        now_s = time.monotonic()
        if now_s >= self._second_began_s + 1:
            self._rate = self._read_bytes if now_s < self._second_began_s + 2 else 0
            self._second_began_s, self._read_bytes = now_s, 0
        self._read_bytes += size

    def _note(self, problem: str, event: str = "master-lost") -> None:
        """Logs when it changes, not every time that it is still so."""
        if problem != self._problem or not problem:
            if problem:
                log.warning("event=%s ha_addr=%s reason=%r", event, self._master_addr, problem)
            else:
                log.info("event=master-followed ha_addr=%s", self._master_addr)
        self._problem = problem

    def status(self) -> HaStatus:
        """A slave's ``HARuntimeInfo``."""
        return HaStatus(
            ha_client_runtime_info=HaClient(
                last_read_timestamp=self._last_read_ms,
                last_write_timestamp=self._last_write_ms,
                master_addr=self._master_addr,
                master_flush_offset=self.master_flush_offset,
                max_offset=self._store.written_offset,
                transferred_byte_in_second=self._rate,
            ),
            master=False,
        )
