"""A master's connection to one slave in controller mode (``AutoSwitchHAConnection``, 5.5.0): the slave sends a
handshake, and the master tells the epochs of its log before it sends any of it."""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

from rmqproto.ha import (
    EPOCH,
    HANDSHAKE,
    HANDSHAKE_ANSWER,
    HANDSHAKE_STATE,
    SET_REPORT,
    SET_TRANSFER_HEAD,
    TRANSFER_STATE,
)
from rmqserver.broker.replicas.ha_link import NO_REPORT, HaLink
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.remoting.traffic import Traffic
from rmqserver.remoting.write_now import Part
from rmqserver.store.epochs import ENTRIES_MAX, Epoch, EpochList
from rmqserver.store.message_store import MessageStore

log = logging.getLogger(__name__)

_STATE_SIZE = 4


class SetLink(HaLink):
    """``broker_id`` is what the slave calls itself; None before its handshake."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        stream: trio.SocketStream,
        traffic: Traffic,
        epochs: Callable[[], EpochList],
        on_idle: Callable[[HaLink], None],
        on_report: Callable[[HaLink], None],
    ):
        super().__init__(config, store, stream, traffic, on_idle, on_report)
        self.broker_id: int | None = None
        self.is_learner = False
        """A learner is never in the set."""
        self._wants_last_file = False
        self._epochs = epochs
        self._told_confirmed = NO_REPORT

    def _take_all(self, received: bytes) -> int | None:
        at, newest = 0, None
        while len(received) - at >= _STATE_SIZE:
            state = int.from_bytes(received[at : at + _STATE_SIZE], "big", signed=True)
            shape = HANDSHAKE if state == HANDSHAKE_STATE else SET_REPORT
            if state not in (HANDSHAKE_STATE, TRANSFER_STATE) or (state == TRANSFER_STATE and self.broker_id is None):
                log.error(
                    "event=slave-refused peer=%s reason='it begins with %d, which no slave of a broker with "
                    "enableControllerMode does'",
                    self.peer, state,
                )  # fmt: skip
                return None
            if len(received) - at < shape.size:
                break
            if shape is HANDSHAKE:
                self._greet(*HANDSHAKE.unpack_from(received, at)[1:])
            else:
                newest = SET_REPORT.unpack_from(received, at)[1]
            at += shape.size
        return None if newest is not None and not self._take(newest) else at

    def _greet(self, wants_last_file: int, is_learner: int, broker_id: int) -> None:
        """Answers only the first handshake: an Apache slave sends two, and drops the connection if both are
        answered."""
        if self.broker_id is not None:
            return
        self.broker_id, self.is_learner, self._wants_last_file = broker_id, bool(is_learner), bool(wants_last_file)
        epochs = self._epochs()
        entries = b"".join(EPOCH.pack(*entry) for entry in epochs.entries[-ENTRIES_MAX:])
        head = HANDSHAKE_ANSWER.pack(HANDSHAKE_STATE, len(entries), self._log_end, epochs.last_epoch)
        self._say(head + entries)

    @property
    def _log_end(self) -> int:
        return self._store.written_offset

    def _first_offset(self, end_offset: int) -> int:
        segments = self._store.log.segments
        return segments.base_of(end_offset) if self._wants_last_file else segments.min_offset

    async def _transfers(self) -> list[Part]:
        return await super()._transfers() or self._parts(self.next_offset, b"", 0)

    def _parts(self, start: int, data: Part, size: int) -> list[Part]:
        """Sends a new confirmed offset even when there is no data to send: the slave's readers wait for it."""
        if not size and self._store.confirmed_offset > self._told_confirmed:
            return [self._head(start, 0)]
        return super()._parts(start, data, size)

    def _end_from(self, log_offset: int) -> int:
        epochs, end = self._epochs(), self._log_end
        entry = epochs.at(log_offset)
        if entry is None:  # older than all epochs: no set wrote it
            return min([end, *(one.start_offset for one in epochs.entries[:1])])
        return min(end, epochs.end_of(entry, end))

    def _head(self, log_offset: int, size: int) -> bytes:
        entry = self._epochs().at(log_offset) or Epoch(0, log_offset)
        self._told_confirmed = self._store.confirmed_offset
        return SET_TRANSFER_HEAD.pack(TRANSFER_STATE, size, log_offset, *entry, self._told_confirmed)
