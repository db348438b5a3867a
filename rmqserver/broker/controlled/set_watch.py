"""Watches a master's set, and proposes to the controller which brokers join and leave it (``checkSyncStateSetPeriod``;
``AutoSwitchHAService``, 5.5.0)."""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

from rmqproto.bodies.replication import SyncStateSet
from rmqproto.codes import ResponseCode
from rmqproto.errors import ProtocolError, RefusedError
from rmqserver.broker.controlled.controllers import LeaderQuestions, NoController
from rmqserver.broker.controlled.set_master import SetMaster
from rmqserver.broker.controlled.set_state import SetState, SyncSet, monotonic_ms
from rmqserver.config.broker_config import BrokerConfig

log = logging.getLogger(__name__)

ASK_AGAIN_AFTER_S = 1.0
FENCING_CODES = (
    ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
    ResponseCode.CONTROLLER_INVALID_MASTER,
    ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST,
)
"""A broker that gets one of these in answer to a proposal is no longer the master."""


class SetWatch:
    """``run`` is a task."""

    def __init__(
        self,
        config: BrokerConfig,
        questions: LeaderQuestions,
        state: SetState,
        master: Callable[[], SetMaster | None],
        fence: Callable[[str], None],
    ):
        """``master`` returns this broker as a master, if it is open; ``fence`` gets the reason why it no longer is
        one."""
        self._config = config
        self._questions = questions
        self._state = state
        self._master = master
        self._fence = fence
        self._joins_from_ms = 0

    async def run(self) -> None:
        """Runs until cancelled. A proposal stays pending until a controller has said what the set is: one whose answer
        is lost may have been carried out, and is refused when it is repeated."""
        state = self._state
        while True:
            with trio.move_on_after(self._config.check_sync_state_set_period_ms / 1000):
                await state.has_set_news.wait()
            state.has_set_news = trio.Event()
            sync_set, master = state.sync_set, self._master()
            if sync_set is None or state.is_fenced or master is None:
                continue
            is_settled = False
            try:
                is_settled = await self._propose(sync_set, master)
            except (NoController, ProtocolError, RefusedError) as error:
                log.warning("event=set-not-changed reason=%r", str(error))
            if not is_settled:  # each report of a slave would start another try
                await trio.sleep(ASK_AGAIN_AFTER_S)
                state.has_set_news.set()

    async def _propose(self, sync_set: SyncSet, master: SetMaster) -> bool:
        """Returns whether the set is now as wanted; False if the proposal was refused."""
        state, store = self._state, master.store
        wanted = sync_set.proposed or sync_set.wanted(
            self._acked(sync_set, master), store.written_offset, store.confirmed_offset,
            state.epochs.epochs.entries[-1].start_offset, monotonic_ms(),
            self._config.ha_max_time_slave_not_catchup_ms,
        )  # fmt: skip
        if wanted is None:
            return True
        sync_set.propose(wanted)
        master.set_changed()
        body = SyncStateSet(sync_state_set=sorted(wanted), sync_state_set_epoch=sync_set.set_epoch)
        try:
            found = await self._questions.alter_set(state.own_id, state.master_epoch, body)
        except RefusedError as error:
            if state.sync_set is sync_set:
                log.warning("event=set-refused set=%s reason=%r", sorted(wanted), str(error))
                if error.code == ResponseCode.CONTROLLER_BROKER_NOT_ALIVE:
                    self._joins_from_ms = monotonic_ms() + self._config.check_sync_state_set_period_ms
                if error.code in FENCING_CODES:
                    self._fence(f"the controller has another master: {error}")
                await self._learn(sync_set)
                master.set_changed()
            return False
        if state.sync_set is sync_set:  # else the broker's role has changed
            sync_set.take(frozenset(found.sync_state_set), found.sync_state_set_epoch)
            log.info("event=set-changed epoch=%d set=%s", state.master_epoch, sorted(sync_set.members))
            master.set_changed()
        return True

    def _acked(self, sync_set: SyncSet, master: SetMaster) -> dict[int, int]:
        """What each slave has; only members, for a while after the controller has refused a joining broker as not
        alive: such a refusal also keeps lost members in the set."""
        acked = master.acked()
        if monotonic_ms() >= self._joins_from_ms:
            return acked
        return {broker_id: log_offset for broker_id, log_offset in acked.items() if broker_id in sync_set.members}

    async def _learn(self, sync_set: SyncSet) -> None:
        """Takes the set as the controller has it. If this broker is no longer its master, sets ``has_news`` so that
        the roles are asked for again."""
        state = self._state
        found = await self._questions.leadership()
        if found is not None and (found.master_epoch, found.master_id) == (state.master_epoch, state.own_id):
            sync_set.take(found.members, found.set_epoch)
        else:
            state.has_news.set()
