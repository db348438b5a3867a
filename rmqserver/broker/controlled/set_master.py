"""A master in controller mode: which slaves must have a message, and how far all of them have the log
(``AutoSwitchHAService``, 5.5.0)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from rmqproto.codes import ResponseCode
from rmqserver.broker.controlled.set_link import SetLink
from rmqserver.broker.replicas.ha_master import HaMaster
from rmqserver.broker.sending.send_checks import unavailable_text
from rmqserver.operation import Refused
from rmqserver.remoting.traffic import BY_TASK, Traffic
from rmqserver.store.append.confirmation import OFFSET_MAX

if TYPE_CHECKING:
    import trio

    from rmqserver.broker.controlled.set_state import SetState
    from rmqserver.broker.replicas.ha_link import HaLink
    from rmqserver.config.broker_config import BrokerConfig
    from rmqserver.store.message_store import MessageStore


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
