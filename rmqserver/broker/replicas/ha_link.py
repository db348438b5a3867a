"""A master's connection to one slave (``DefaultHAConnection``, 5.5.0): the slave reports how far its log reaches, and
gets what comes next."""

from __future__ import annotations

import logging
import mmap
import time
from collections.abc import Callable

import trio

from rmqproto.errors import StorageError
from rmqproto.ha import REPORT, TRANSFER_HEAD
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.remoting.connection import plain_host
from rmqserver.remoting.traffic import Ended, Part, Traffic, behind, write_now
from rmqserver.store.log.commit_log import PAGE_BYTES
from rmqserver.store.message_store import MessageStore

log = logging.getLogger(__name__)

PORTION_BYTES = 1 << 20
"""How much is read from the log and sent at a time. A slave that is so far behind gets it as one transfer, whatever
``haTransferBatchSize`` is: each costs steps at both ends. Apache's slave takes up to 4 MiB, with the head."""

DIRECT_BYTES = 4 << 20
"""How much is read from the device at a time, if it is not in memory. It does not come into the page cache: nobody else
reads it soon, and its pages would cost more than the copy."""

AT_ONCE_MAX_BYTES = 64 << 10
"""How much may be sent in the round that has stored it; more is left to the task, which may wait for the socket."""

RECEIVE_SIZE_BYTES = 4096
NO_REPORT = -1
RATE_SPAN_S = 1.0


class HaLink:
    """``acked_offset`` is the log offset of the newest report, ``next_offset`` where the next transfer begins; both are
    NO_REPORT before the first report."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        stream: trio.SocketStream,
        traffic: Traffic,
        on_idle: Callable[[HaLink], None],
        on_report: Callable[[HaLink], None],
    ):
        """``on_idle`` is called when the whole log has been sent; ``has_news`` must then be set when the log has
        grown."""
        host, port = stream.socket.getpeername()[:2]
        self.peer = f"{plain_host(host)}:{port}"
        self.acked_offset = self.next_offset = NO_REPORT
        self.bytes_in_second = 0
        """Bytes of the log that were sent in the second before the current one."""
        self.has_news = trio.Event()
        """Set when the log has grown, or the slave has reported for the first time."""
        self._config = config
        self._store = store
        self._stream = stream
        self._traffic = traffic
        self._received = b""
        """The beginning of an incomplete report."""
        self._on_idle = on_idle
        self._on_report = on_report
        self._rests = False
        """Whether the task waits for news and has nothing left to send."""
        self._rest: list[Part] = []
        """Data that the socket did not take at once."""
        self._second_began_s = time.monotonic()
        self._second_bytes = 0
        self._memory: memoryview | None = None
        """For reads of a slave that catches up, each of which is sent before the next one."""

    async def serve(self) -> None:
        """Returns when the slave goes, is silent for ``haHousekeepingInterval``, or reports an impossible offset."""
        try:
            async with self._stream, trio.open_nursery() as nursery:
                nursery.start_soon(self._send)
                await self._receive()
                nursery.cancel_scope.cancel()
        except* (OSError, StorageError, trio.BrokenResourceError) as errors:
            log.warning("event=slave-lost peer=%s reason=%r", self.peer, str(errors.exceptions[0]))

    # --- reports -----------------------------------------------------------------------------------------------------

    async def _receive(self) -> None:
        silence_max_s = self._config.ha_housekeeping_interval_ms / 1000
        ended = await self._traffic.hand_over(
            self._stream, self._arrived, at_once_max_bytes=RECEIVE_SIZE_BYTES, silence_max_s=silence_max_s
        )
        if ended is not Ended.ENOUGH:
            log.info("event=slave-gone peer=%s reason=%s", self.peer, ended.value)

    def _arrived(self, data: bytes | memoryview) -> bool:
        """Returns False if the connection must end."""
        received = self._received + data
        taken = self._take_all(received)
        if taken is None:
            return False
        self._received = received[taken:]
        return True

    def _take_all(self, received: bytes) -> int | None:
        """Returns how many of these bytes are taken; None if the connection must end. Of several reports that came
        together, only the last counts."""
        whole = len(received) // REPORT.size * REPORT.size
        if whole and not self._take(REPORT.unpack_from(received, whole - REPORT.size)[0]):
            return None
        return whole

    def _take(self, offset: int) -> bool:
        """Returns False if the slave is ahead of this master, or needs a part of the log that has expired. Apache's
        master waits until its log has grown past a slave that is ahead, and goes on in the middle of a record; to a
        slave that is too far behind it sends heartbeats forever."""
        end_offset = self._log_end
        limit = end_offset if self.next_offset == NO_REPORT else self.next_offset
        if not 0 <= offset <= limit:
            log.error(
                "event=slave-refused peer=%s reported=%d log_end=%d reason='it has what this master has not; take its "
                "store away, or make it the master'",
                self.peer, offset, end_offset,
            )  # fmt: skip
            return False
        start_offset = self._store.log.min_offset
        if self.next_offset == NO_REPORT and 0 < offset < start_offset:
            log.error(
                "event=slave-refused peer=%s reported=%d log_start=%d reason='what comes next has expired here; empty "
                "its store'",
                self.peer, offset, start_offset,
            )  # fmt: skip
            return False
        if self.next_offset == NO_REPORT:
            self.next_offset = offset or self._first_offset(end_offset)
            log.info("event=slave-joined peer=%s log_offset=%d", self.peer, self.next_offset)
            self.has_news.set()
        self.acked_offset = offset
        self._on_report(self)
        return True

    @property
    def _log_end(self) -> int:
        """Log offset up to which the log may be sent."""
        return self._store.confirmed_offset

    def _first_offset(self, end_offset: int) -> int:
        """Log offset at which an empty slave begins. Apache's default master always starts with its last file, so older
        messages are lost if it dies; ours does so only with ``syncFromLastFile``."""
        log_ = self._store.log
        return log_.segments.base_of(end_offset) if self._config.sync_from_last_file else log_.min_offset

    # --- transfers ---------------------------------------------------------------------------------------------------

    async def _send(self) -> None:
        while self.next_offset == NO_REPORT:
            await self.has_news.wait()
            self.has_news = trio.Event()
            rest, self._rest = self._rest, []
            await self._traffic.write_all(self._stream, rest)
        while True:
            transfers = await self._transfers()
            if not transfers:
                transfers = await self._wait()
            rest, self._rest = self._rest, []
            await self._traffic.write_all(self._stream, rest + transfers)

    def _say(self, data: bytes) -> None:
        """Sends data before the first report."""
        self._rest = behind([data], write_now(self._stream, [data]))
        if self._rest:
            self.has_news.set()

    def send_at_once(self) -> bool:
        """Sends what the log has grown by, if that is little and the task rests: a turn of the task would take several
        times as long. Returns False if the task must send it, or the rest of it."""
        if not self._rests or self._config.ha_flow_control_enable:
            return False
        log_ = self._store.log
        start, end = self.next_offset, self._end_from(self.next_offset)
        file_end = log_.segments.base_of(start) + log_.file_size_bytes
        if not log_.min_offset <= start <= end <= min(start + AT_ONCE_MAX_BYTES, file_end):
            return False
        data = log_.read_cached(start, end - start) if start < end else b""
        if data is None:
            return False
        self._count_second()
        parts = self._parts(start, data, end - start)
        self._rest = behind(parts, write_now(self._stream, parts))
        self._rests = not self._rest
        return self._rests

    async def _wait(self) -> list[Part]:
        """Waits until the log has grown; after ``haSendHeartbeatInterval`` returns a heartbeat."""
        self.has_news = trio.Event()
        self._memory = None
        self._on_idle(self)
        self._rests = True
        with trio.move_on_after(self._config.ha_send_heartbeat_interval_ms / 1000) as scope:
            await self.has_news.wait()
        self._rests = False
        return [self._head(self.next_offset, 0)] if scope.cancelled_caught else []

    async def _transfers(self) -> list[Part]:
        """The next portion of the log, up to what readers see; empty at the end. No transfer spans two files. Raises
        StorageError if retention was faster than the slave."""
        log_ = self._store.log
        start, end = self.next_offset, self._end_from(self.next_offset)
        if start >= end:
            return []
        file_end = log_.segments.base_of(start) + log_.file_size_bytes
        allowed = await self._allowed()
        size = min(end, file_end, start + min(allowed, PORTION_BYTES)) - start
        data: Part | None
        if size >= PORTION_BYTES:
            data = log_.read_cached_into(start, self._room()[:size])
        else:
            data = log_.read_cached(start, size)
        if data is None:
            size = min(end, file_end, start + min(allowed, DIRECT_BYTES)) - start
            data = await trio.to_thread.run_sync(log_.read_direct, start, size, self._room())
        if start < log_.min_offset:  # it may have just expired: then nothing was read
            raise StorageError(f"what comes next for it, at log offset {start}, has expired here")
        return self._parts(start, data, size)

    def _room(self) -> memoryview:
        if self._memory is None:
            self._memory = memoryview(mmap.mmap(-1, DIRECT_BYTES + 2 * PAGE_BYTES))
        return self._memory

    def _parts(self, start: int, data: Part, size: int) -> list[Part]:
        """Heads and data of the next transfers."""
        # Pads the end of a file that nothing was written to.
        view = memoryview(data if len(data) == size else bytes(data).ljust(size, b"\0"))
        self.next_offset += size
        self._second_bytes += size
        step = self._config.ha_transfer_batch_size_bytes
        if size >= PORTION_BYTES:
            step = max(step, PORTION_BYTES)
        parts = [(start + at, view[at : at + step]) for at in range(0, size, step)]
        return [each for offset, part in parts for each in (self._head(offset, len(part)), part)]

    def _end_from(self, log_offset: int) -> int:
        """Where a run of transfers that begins at ``log_offset`` must end, apart from the ends of files."""
        return self._log_end

    def _head(self, log_offset: int, size: int) -> bytes:
        return TRANSFER_HEAD.pack(log_offset, size)

    async def _allowed(self) -> int:
        """How many bytes may be sent now. With ``haFlowControlEnable`` it waits for the next second if necessary."""
        self._count_second()
        if not self._config.ha_flow_control_enable:
            return DIRECT_BYTES
        while (left := self._config.max_ha_transfer_byte_in_second - self._second_bytes) <= 0:
            await trio.sleep(max(self._second_began_s + RATE_SPAN_S - time.monotonic(), 0))
            self._count_second()
        return left

    def _count_second(self) -> None:
        now_s = time.monotonic()
        if now_s >= self._second_began_s + RATE_SPAN_S:
            is_last = now_s < self._second_began_s + 2 * RATE_SPAN_S
            self.bytes_in_second = self._second_bytes if is_last else 0
            self._second_began_s, self._second_bytes = now_s, 0
