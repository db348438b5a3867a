"""This broker as a slave: its log follows its master's (``DefaultHAClient``, 5.5.0)."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Awaitable, Callable

import trio

from rmqproto.bodies.replication import HaClient, HaStatus
from rmqproto.errors import ProtocolError, StorageError
from rmqproto.ha import REPORT, TRANSFER_HEAD
from rmqserver.broker.replicas.same_log import OtherLog
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.remoting.outward import open_stream
from rmqserver.remoting.traffic import BY_TASK, Ended, Traffic, write_now
from rmqserver.store.append.log_copy import PORTION_BYTES, LogCopy
from rmqserver.store.message_store import MessageStore

log = logging.getLogger(__name__)

RECONNECT_AFTER_S = 1.0
OTHER_LOG_AGAIN_AFTER_S = 10.0
"""An operator has to act first."""

RECEIVE_SIZE_BYTES = 1 << 20

BEHIND_MAX_BYTES = 64 << 20
"""How much of the log may be written and reported but not yet dispatched: a third of a second's work. A slave with more
dispatches before it reads on; otherwise it would have all that work left when it takes its master's place."""

NO_ROOM = "no-room"
"""The event of a disk that is nearly full."""

ROOM_AGAIN_AFTER_S = 1.0
"""How often a slave without room for its master's log looks whether there is some."""

DISPATCH_AGAIN_AFTER_S = 1.0
"""How long to wait after a disk error."""


class NoRoom(Exception):
    """The disk is nearly full."""


class StoreFailed(Exception):
    """A write or flush has failed: what is copied from now on may be lost, and only a start mends it."""


class MasterGone(Exception):
    """The connection to the master has ended, or another master is followed now."""


async def _not_checked() -> int:
    await trio.lowlevel.checkpoint()
    return 0


class HaSlave:
    """``run`` is a task; ``follow`` chooses the master."""

    def __init__(self, config: BrokerConfig, store: MessageStore, traffic: Traffic = BY_TASK):
        """``traffic`` decides how the master's log is received."""
        self._config = config
        self._store = store
        self._traffic = traffic
        self.may_be_read = True
        """Whether readers may see this slave's log."""
        self.check_log: Callable[[], Awaitable[int]] = _not_checked
        """Awaited before the first report to a master. Returns where the master's log ends, 0 if that is not known.
        Raises OtherLog if nothing may be copied from it."""
        self._master_addr: str | None = None
        self._has_other_master = trio.Event()
        self._is_linked = False
        self._link_count = 0
        self._has_come = trio.Event()
        """Set when data waits for the task that dispatches."""
        self._head = b""
        """The beginning of a transfer's head that has not come whole."""
        self._next_offset = self._missing_bytes = 0
        """Log offset of the next byte of the transfer under way, and how much of it has yet to come."""
        self._rest = b""
        """The part of a report that the socket has not taken yet."""
        self._has_rest = trio.Event()
        self.master_flush_offset = 0
        """How far the master's log is on its device, as an operator or the master has said; only shown."""
        self.problem = ""
        """Why no master is followed; empty if one is."""
        self._noted = ""
        """What was logged last."""
        self._last_read_ms = self._last_write_ms = 0
        self._reported_s = 0.0
        """When the last report was sent, by trio's clock: ``_last_write_ms`` may go back when the wall clock is set."""
        self._read_bytes = self._rate = 0
        self._second_began_s = 0.0

    def follow(self, ha_addr: str | None) -> None:
        """Follows the master whose slaves connect at ``ha_addr`` from now on; None: no master. A connection to the same
        address goes on."""
        if ha_addr != self._master_addr:
            self._master_addr = ha_addr
            self._has_other_master.set()

    def follow_next(self, ha_addr: str) -> None:
        """Like ``follow``, but a present connection goes on until it ends."""
        self._master_addr = ha_addr
        if not self._is_linked:
            self._has_other_master.set()

    @property
    def link_number(self) -> int:
        """Number of the connection on which the master's log comes, counted from 1; 0 if there is none."""
        return self._link_count if self._is_linked else 0

    async def run(self) -> None:
        """Runs until cancelled. Keeps trying to reach a master that is gone."""
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
                self._check_store()
                await self._follow(self._master_addr, copy)
            except* NoRoom as errors:
                self._note(str(errors.exceptions[0]), NO_ROOM)
                again_after_s = ROOM_AGAIN_AFTER_S
            except* StoreFailed as errors:
                self._note(str(errors.exceptions[0]), "store-failed")
                again_after_s = OTHER_LOG_AGAIN_AFTER_S
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

    def _check_store(self) -> None:
        """Raises StoreFailed after an error, else the master would count on this copy. Raises NoRoom before a write
        fails: what is derived from the log needs room, too, and cannot go on after an error."""
        if self._store.flags.has_write_failed:
            goes_on = self._store.flags.has_only_lacked_room
            advice = "it goes on when there is room" if goes_on else "start this broker again when its disk is well"
            raise StoreFailed(f"{self._store.flags.reason}; {advice}")
        if reason := self._store.lack_of_room():
            raise NoRoom(reason)

    async def _dispatch(self, copy: LogCopy) -> None:
        """Shows readers what has come. It runs after the reports, since a master waits only for the log to be
        copied."""
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
        try:
            async with stream, trio.open_nursery() as nursery:
                self._head, self._missing_bytes = await self._greet(stream, copy), 0
                self._link_count += 1
                self._note("")
                self._rest, self._has_rest = b"", trio.Event()
                nursery.start_soon(self._leave_for_another)
                nursery.start_soon(self._report_regularly, stream, copy)
                nursery.start_soon(self._send_rests, stream, copy)
                await self._receive(stream, copy)
        finally:
            copy.settle()

    async def _greet(self, stream: trio.SocketStream, copy: LogCopy) -> bytes:
        """Does what precedes the first report; returns what has come after the handshake, if there was one."""
        copy.master_ends_at(await self.check_log())
        return b""

    async def _leave_for_another(self) -> None:
        await self._has_other_master.wait()
        raise MasterGone("another master is followed")

    async def _report_regularly(self, stream: trio.SocketStream, copy: LogCopy) -> None:
        """Reports at once, which an Apache slave does not do, and whenever nothing was reported for a while."""
        interval_s = self._config.ha_send_heartbeat_interval_ms / 1000
        while True:
            if trio.current_time() - self._reported_s >= interval_s or not self._is_linked:
                self._report(stream, copy)
                self._is_linked = True
            await trio.sleep(interval_s)

    def _report(self, stream: trio.SocketStream, copy: LogCopy) -> None:
        self._send_report(stream, REPORT.pack(copy.end_offset))

    def _send_report(self, stream: trio.SocketStream, report: bytes) -> None:
        """Sends at once what the socket takes. A task sends the rest, and then a new report."""
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

    async def _receive(self, stream: trio.SocketStream, copy: LogCopy) -> None:
        """Never returns."""
        ended = await self._traffic.hand_over(
            stream,
            lambda data: self._arrived(data, stream, copy),
            at_once_max_bytes=RECEIVE_SIZE_BYTES,
            silence_max_s=self._config.ha_housekeeping_interval_ms / 1000,
        )
        raise MasterGone("the master is silent" if ended is Ended.SILENT else "the master closed the connection")

    def _arrived(self, data: bytes | memoryview, stream: trio.SocketStream, copy: LogCopy) -> bool:
        """Takes what has come, reports once, and then dispatches."""
        self._last_read_ms = time.time_ns() // 1_000_000
        self._count(len(data))
        before = copy.end_offset
        self._take(data, copy)
        if copy.end_offset != before:
            self._report(stream, copy)
        self._show_some(copy)
        return True

    def _show_some(self, copy: LogCopy) -> None:
        """Dispatches a small amount at once, since a turn of the task takes longer; likewise anything above
        BEHIND_MAX_BYTES. Leaves the rest to the task."""
        with contextlib.suppress(OSError, StorageError):  # the task tries again and logs it
            if copy.behind_bytes <= PORTION_BYTES:
                copy.dispatch_some()
            while copy.behind_bytes > BEHIND_MAX_BYTES and copy.dispatch_some():
                pass
        if copy.behind_bytes:
            self._has_come.set()

    def _take(self, data: bytes | memoryview, copy: LogCopy) -> None:
        """Appends the bytes of transfers as they come, also of one that has not come whole. Raises ProtocolError for
        one that does not fit."""
        if self._head:
            data, self._head = self._head + data, b""
        view, at = memoryview(data), 0
        while True:
            if self._missing_bytes:
                part = view[at : at + self._missing_bytes]
                if not part:
                    return
                self._append(self._next_offset, part, copy)
                self._next_offset += len(part)
                self._missing_bytes -= len(part)
                at += len(part)
            elif (size := self._take_head(view[at:], copy)) > 0:
                at += size
            else:
                self._head = bytes(view[at:])
                return

    def _append(self, log_offset: int, data: memoryview, copy: LogCopy) -> None:
        copy.append(log_offset, data)

    def _take_head(self, view: memoryview, copy: LogCopy) -> int:
        """Takes the head of a transfer, and returns its size; 0 if it has not come whole."""
        if len(view) < TRANSFER_HEAD.size:
            return 0
        offset, size = TRANSFER_HEAD.unpack_from(view)
        if not 0 <= size <= self._store.log.file_size_bytes:
            raise ProtocolError(f"a transfer of {size} bytes at log offset {offset}")
        if not size:
            self._check_place(offset, copy)
        self._next_offset, self._missing_bytes = offset, size
        return TRANSFER_HEAD.size

    @staticmethod
    def _check_place(offset: int, copy: LogCopy) -> None:
        if copy.next_offset and offset != copy.next_offset:
            raise ProtocolError(f"the master goes on at log offset {offset}, and this log ends at {copy.next_offset}")

    def _count(self, size: int) -> None:
        now_s = time.monotonic()
        if now_s >= self._second_began_s + 1:
            self._rate = self._read_bytes if now_s < self._second_began_s + 2 else 0
            self._second_began_s, self._read_bytes = now_s, 0
            self._check_store()
        self._read_bytes += size

    def _note(self, problem: str, event: str = "master-lost") -> None:
        """Logs a problem when it changes, not each time it recurs. How much room is left changes all the time."""
        was_logged, self._noted = self._noted, event if event == NO_ROOM else problem
        if self._noted != was_logged or not problem:
            if problem:
                log.warning("event=%s ha_addr=%s reason=%r", event, self._master_addr, problem)
            else:
                log.info("event=master-followed ha_addr=%s", self._master_addr)
        self.problem = problem

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
