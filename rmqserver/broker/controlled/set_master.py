"""A master in controller mode (``AutoSwitchHAService``, ``AutoSwitchHAConnection``, 5.5.0): which slaves must have a
message, how far all of them have the log, and its connection to each: the slave sends a handshake, and the master
tells the epochs of its log before it sends any of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import trio

from rmqproto.codes import ResponseCode
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
from rmqserver.broker.replicas.ha_master import HaMaster
from rmqserver.broker.sending.targets import unavailable_text
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.operation import Refused
from rmqserver.remoting.traffic import BY_TASK, Part, Traffic
from rmqserver.store.append.confirmation import OFFSET_MAX
from rmqserver.store.epochs import ENTRIES_MAX, Epoch, EpochList
from rmqserver.store.message_store import MessageStore

if TYPE_CHECKING:
    import trio

    from rmqserver.broker.controlled.set_state import SetState

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


class SetMaster(HaMaster):
    """A slave has one, too, but closes every connection to it."""

    def __init__(self, config: BrokerConfig, store: MessageStore, state: SetState, traffic: Traffic = BY_TASK):
        super().__init__(config, store, traffic)
        self._state = state
        self.on_need: Callable[[], None] = lambda: None
        """Called when the number of brokers that must have a message has changed."""
        self._needed_before = 1

    # --- what a put waits for ----------------------------------------------------------------------------------------

    @property
    def copies_needed(self) -> int:
        if self.config.all_ack_in_sync_state_set:
            return max(len(self._required) + 1, self.config.min_in_sync_replicas)
        return self.config.in_sync_replicas

    @property
    def copied_offset(self) -> int:
        """-1 at a broker that is no longer the master, or may not be: it must acknowledge nothing. Also -1 while too
        few are in sync: a message may have been taken before one of them left, and not have reached it."""
        if self._state.is_fenced or not self.may_acknowledge:
            return -1
        if self.config.all_ack_in_sync_state_set:
            return -1 if self.is_short else self._common_offset
        acked = sorted(self.acked().values(), reverse=True)
        needed = self.copies_needed
        if needed <= 1:
            return self.store.confirmed_offset
        return acked[needed - 2] if len(acked) > needed - 2 else -1

    def lack(self, log_offset: int) -> bool:
        return self._state.is_fenced or not self.may_acknowledge or super().lack(log_offset)

    @property
    def may_acknowledge(self) -> bool:
        """Whether no other broker can be the master without what is acknowledged now: either all others that are in
        sync must have it, or the lease says that nobody was elected. So a set that waits for all in-sync brokers goes
        on without its controllers."""
        waits_for_others = self.config.all_ack_in_sync_state_set and self._required
        return bool(waits_for_others) or not self.config.master_lease_enable or self._state.holds_lease

    def put_refusal(self) -> Refused | None:
        state = self._state
        if state.is_fenced:
            text = unavailable_text(self.store, "the controllers have given this broker no role")
            return Refused(ResponseCode.SERVICE_NOT_AVAILABLE, text)
        if state.sync_set is not None:
            if self.is_short:
                return Refused(ResponseCode.SYSTEM_ERROR, "in-sync replicas not enough")
            if not self.may_acknowledge:
                reason = "no controller has said for a while that this broker is still the master"
                return Refused(ResponseCode.SERVICE_NOT_AVAILABLE, unavailable_text(self.store, reason))
        return None

    @property
    def lease_left_ms(self) -> int | None:
        """How long a master's lease still lasts: 0 if it has ended, None at a slave or without leases."""
        if self._state.sync_set is None or not self.config.master_lease_enable:
            return None
        return self._state.lease.left_ms(self._state.clock_ms())

    @property
    def is_short(self) -> bool:
        """Whether fewer brokers are in sync than minInSyncReplicas wants."""
        sync_set = self._state.sync_set
        return sync_set is None or sync_set.size < self.config.min_in_sync_replicas

    @property
    def _required(self) -> frozenset[int]:
        sync_set = self._state.sync_set
        return frozenset() if sync_set is None else sync_set.required

    @property
    def _common_offset(self) -> int:
        """Log offset up to which all in-sync brokers have the log; -1 if one of them is not connected."""
        acked = self.acked()
        return min((acked.get(broker_id, -1) for broker_id in self._required), default=self.store.written_offset)

    def acked(self) -> dict[int, int]:
        """Log offset that each connected slave has reached on its newest connection; only slaves that may be in the
        set."""
        links = [cast(SetLink, link) for link in self._links]
        return {
            link.broker_id: link.acked_offset
            for link in links
            if link.broker_id is not None and not link.is_learner and link.acked_offset >= 0
        }

    def hold_back(self) -> None:
        """Shows readers only what all in-sync brokers have."""
        waits = self.config.all_ack_in_sync_state_set and self._required
        self.store.copied(self._common_offset if waits else OFFSET_MAX)

    def set_changed(self) -> None:
        """The set or a slave's progress has changed: readers may see more, and puts may end; neither at a broker that
        is not, or no longer, the master."""
        if self.copies_needed != self._needed_before:  # seen without a role, too: a setting's change looks at it then
            self._needed_before = self.copies_needed
            self.on_need()
        if self._state.sync_set is None or self._state.is_fenced:
            return
        self.hold_back()
        self.on_report()

    # --- links -------------------------------------------------------------------------------------------------------

    async def _serve(self, stream: trio.SocketStream) -> None:
        if self._state.sync_set is None:
            await stream.aclose()
        else:
            await super()._serve(stream)

    def _is_in_sync(self, link: HaLink, end_offset: int) -> bool:
        sync_set = self._state.sync_set
        return sync_set is not None and cast(SetLink, link).broker_id in sync_set.members

    def _make_link(self, stream: trio.SocketStream) -> HaLink:
        return SetLink(
            self.config,
            self.store,
            stream,
            self._traffic,
            lambda: self._state.epochs.epochs,
            lambda idle: self.waiting.add(idle),
            self._reported,
        )

    def _reported(self, link: HaLink) -> None:
        set_link = cast(SetLink, link)
        if set_link.broker_id is not None and not set_link.is_learner:
            self._state.slave_reported(set_link.broker_id, link.acked_offset, self.store.written_offset)
        self.set_changed()

    def _gone(self, link: HaLink) -> None:
        broker_id = cast(SetLink, link).broker_id
        if broker_id is not None and broker_id not in self.acked():
            self._state.slave_gone(broker_id)
