"""This broker as a slave in controller mode (``AutoSwitchHAClient``, 5.5.0): before it copies anything, it cuts off the
part of its log that its master does not have."""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

from rmqproto.errors import ProtocolError
from rmqproto.ha import (
    EPOCH,
    HANDSHAKE,
    HANDSHAKE_ANSWER,
    HANDSHAKE_STATE,
    SET_REPORT,
    SET_TRANSFER_HEAD,
    TRANSFER_STATE,
)
from rmqserver.broker.replicas.ha_slave import HaSlave, MasterGone
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.remoting.traffic import BY_TASK, Traffic
from rmqserver.store.append.log_copy import LogCopy
from rmqserver.store.epochs import Epoch, EpochFile, EpochList
from rmqserver.store.message_store import MessageStore

log = logging.getLogger(__name__)

EPOCHS_MAX = 100_000
"""No master has more."""


class SetSlave(HaSlave):
    """``confirmed_offset`` is the log offset up to which readers may see its log. An earlier run may have dispatched
    messages behind it, which may still be cut off; ``may_be_read`` says that there are none."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        epochs: EpochFile,
        on_cut: Callable[[int], None],
        traffic: Traffic = BY_TASK,
    ):
        """``on_cut`` is called with the log offset at which the log must be cut; the store has to be closed for it."""
        super().__init__(config, store, traffic)
        self._epochs = epochs
        self._on_cut = on_cut
        self.confirmed_offset = 0
        self.may_be_read = False
        self._told_confirmed = 0
        """The confirmed offset that the head of the transfer under way tells."""

    async def _greet(self, stream: trio.SocketStream, copy: LogCopy) -> bytes:
        """Returns what came after the handshake. Does not return if the log has to be cut first."""
        wants_last_file, is_learner = self._config.sync_from_last_file, self._config.async_learner
        await stream.send_all(HANDSHAKE.pack(HANDSHAKE_STATE, wants_last_file, is_learner, self._config.broker_id))
        received = b""
        try:
            with trio.fail_after(self._config.ha_housekeeping_interval_ms / 1000):
                while (answer := _answer_untrusted(received)) is None:
                    data = await stream.receive_some(1 << 16)
                    if not data:
                        raise MasterGone("the master closed the connection instead of an answer to the handshake")
                    received += data
        except trio.TooSlowError:
            raise MasterGone("the master is silent") from None
        theirs, their_end, size = answer
        await self._cut(theirs, their_end, copy)
        return received[size:]

    async def _cut(self, theirs: EpochList, their_end: int, copy: LogCopy) -> None:
        """A log that was never part of a set is assumed to agree with the master's, as in Apache's broker, but not if
        it is longer."""
        own, end = self._epochs.epochs, copy.end_offset
        point = own.parting(end, theirs, their_end) if own.entries else end
        if point is None or (not own.entries and end > their_end):
            raise ProtocolError(
                f"this log, {own.entries} up to {end}, has no epoch in common with its master's, {theirs.entries} up "
                f"to {their_end}; empty this broker's store"
            )
        copy.master_ends_at(their_end)
        copy.show_until(0)  # until the master says how far readers may see
        if point < end:
            log.warning(
                "event=log-cut log_end=%d cut_to=%d reason='the master has nothing of what is behind'", end, point
            )
            self._on_cut(point)
            await trio.sleep_forever()
        if own.cut_behind(point):
            self._epochs.save()

    def _report(self, stream: trio.SocketStream, copy: LogCopy) -> None:
        self._send_report(stream, SET_REPORT.pack(TRANSFER_STATE, copy.end_offset))

    def _append(self, log_offset: int, data: memoryview, copy: LogCopy) -> None:
        super()._append(log_offset, data, copy)
        self._confirm(min(self._told_confirmed, copy.end_offset), copy)

    def _take_head(self, view: memoryview, copy: LogCopy) -> int:
        if len(view) < HANDSHAKE_ANSWER.size:
            return 0
        if int.from_bytes(view[:4], "big", signed=True) == HANDSHAKE_STATE:  # an Apache master answers it twice
            answer = _answer_untrusted(bytes(view))
            return answer[2] if answer is not None else 0
        if len(view) < SET_TRANSFER_HEAD.size:
            return 0
        state, size, offset, epoch, epoch_start, confirmed = SET_TRANSFER_HEAD.unpack_from(view)
        if state != TRANSFER_STATE or not 0 <= size <= self._store.log.file_size_bytes:
            raise ProtocolError(f"a transfer of state {state} with {size} bytes at log offset {offset}")
        # A new epoch is on the device before the data that was written in it. A master that has no file yet says -1.
        if (size or offset >= 0) and epoch > self._epochs.epochs.last_epoch:
            self._epochs.begin(epoch, epoch_start)
        self._next_offset, self._missing_bytes, self._told_confirmed = offset, size, confirmed
        if not size:
            if offset >= 0:
                self._check_place(offset, copy)
            self._confirm(min(confirmed, copy.end_offset), copy)
        return SET_TRANSFER_HEAD.size

    def _confirm(self, log_offset: int, copy: LogCopy) -> None:
        self.confirmed_offset = max(self.confirmed_offset, log_offset)
        copy.show_until(self.confirmed_offset)
        self.may_be_read = self.confirmed_offset >= self._store.confirmed_offset


def _answer_untrusted(received: bytes) -> tuple[EpochList, int, int] | None:
    """The master's epochs, the end of its log, and the size of its answer to the handshake; None if the answer is not
    complete. Raises ProtocolError for a malformed one."""
    if len(received) < HANDSHAKE_ANSWER.size:
        return None
    state, size, log_end, _ = HANDSHAKE_ANSWER.unpack_from(received)
    if state != HANDSHAKE_STATE or not 0 <= size <= EPOCHS_MAX * EPOCH.size or size % EPOCH.size:
        raise ProtocolError(f"an answer of state {state} with {size} bytes of epochs to a handshake")
    stop = HANDSHAKE_ANSWER.size + size
    if len(received) < stop:
        return None
    entries = [Epoch(*found) for found in EPOCH.iter_unpack(received[HANDSHAKE_ANSWER.size : stop])]
    return EpochList(entries), log_end, stop
