"""The requests that a controller serves (``ControllerRequestProcessor``, 5.5.0), each a decision that is kept and then
answered. There is one controller, and it leads."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

import trio

from rmqproto import fastjson
from rmqproto.bodies.replication import SyncStateSet
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import StorageError
from rmqproto.headers.base import NoFields
from rmqproto.headers.controller import (
    AlterSyncStateSetHeader,
    ApplyBrokerIdHeader,
    CleanBrokerDataHeader,
    ControllerMetaAnswer,
    ElectMasterHeader,
    NextBrokerIdHeader,
    RegisterToControllerHeader,
    ReplicaInfoAnswer,
    ReplicaInfoHeader,
)
from rmqproto.headers.nameserver import BrokerHeartbeatHeader
from rmqserver.config import ControllerConfig
from rmqserver.controller import elections, in_sync_sets, replica_ids
from rmqserver.controller.controller_state import BrokerSet, BrokerSets, ControllerEvent, MasterElected, apply_all
from rmqserver.controller.decision import ControllerDecision, Situation
from rmqserver.controller.event_log import EventLog
from rmqserver.controller.live_brokers import LiveBrokers, ReplicaKey
from rmqserver.controller.role_notices import RoleNotices
from rmqserver.remoting.answer import Refused, Request, answer_frame, success
from rmqserver.remoting.connection import Connection
from rmqserver.remoting.service import Handler, Service
from rmqserver.settings_requests import take_settings_untrusted

log = logging.getLogger(__name__)


class Controller(Service):
    """``open`` it before it serves, ``run`` it as a task, ``close`` it at the end. All is one thread, so decisions are
    made strictly one after the other."""

    def __init__(
        self,
        config: ControllerConfig,
        event_log: EventLog,
        notices: RoleNotices,
        advertise: Callable[[str], str],
        clock_s: Callable[[], float] = time.monotonic,
    ):
        """``advertise`` makes the address that brokers are told from that on which they have reached us."""
        self.config = config
        self.live = LiveBrokers(clock_s)
        self._log = event_log
        self._notices = notices
        self._advertise = advertise
        self._sets: BrokerSets = {}
        self._failure: StorageError | None = None
        self._failed = trio.Event()
        self._is_open = False
        super().__init__("controller", self._handlers())
        self.idle_max_s = config.server_channel_max_idle_time_s
        self.limits = config

    @property
    def sets(self) -> BrokerSets:
        return self._sets

    def open(self) -> None:
        """StorageError for a log that cannot be read."""
        self._sets = self._log.open()
        self._is_open = True

    def close(self) -> None:
        """From now on, a connection that ends says nothing about who lives."""
        self._is_open = False
        self._log.close()

    async def run(self) -> StorageError:
        """Looks after brokers that are no longer heard of. Returns if the log has failed: then nobody must be answered
        any more."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._notices.run)
            nursery.start_soon(self._scan_brokers)
            nursery.start_soon(self._scan_masters)
            await self._failed.wait()
            nursery.cancel_scope.cancel()
        assert self._failure is not None
        return self._failure

    async def _scan_brokers(self) -> None:
        while True:
            await trio.sleep(self.config.scan_not_active_broker_interval_ms / 1000)
            self.scan_brokers()

    async def _scan_masters(self) -> None:
        while True:
            await trio.sleep(self.config.scan_inactive_master_interval_ms / 1000)
            self.scan_masters()

    def scan_brokers(self) -> None:
        self._lost(self.live.expired(), "no heartbeat")

    def scan_masters(self) -> None:
        """Elections that are still due: in sets without a master, and of those that died before it was known who else
        lives."""
        for each in elections.sets_to_elect(self._now()):
            self._elect_another(each)

    def connection_closed(self, connection: Connection) -> None:
        if self._is_open:
            self._lost(self.live.gone_with(connection), "its connection ended")

    def _lost(self, keys: Iterable[ReplicaKey], reason: str) -> None:
        for name, broker_id in keys:
            found = self._sets.get(name)
            is_master = found is not None and found.master_broker_id == broker_id
            log.warning("event=broker-inactive broker=%s id=%d master=%s reason=%r", name, broker_id, is_master, reason)
            if found is not None and is_master and self.live.is_settled:
                self._elect_another(found)

    def _elect_another(self, found: BrokerSet) -> None:
        try:
            self._keep(elections.master_lost(self._now(), found))
        except StorageError:
            log.exception("event=election-not-kept broker=%s", found.broker_name)

    # --- decisions ---------------------------------------------------------------------------------------------------

    def _now(self) -> Situation:
        return Situation(self._sets, self.live.alive(), self.live.is_settled, self.config.enable_elect_unclean_master)

    def _keep(self, events: tuple[ControllerEvent, ...]) -> None:
        """StorageError if they may not be there after a restart: then nothing is decided any more."""
        if self._failure is not None:
            raise self._failure
        if not events:
            return
        after = apply_all(self._sets, events)
        try:
            self._log.append(events, after)
        except StorageError as error:
            self._failure = error
            self._failed.set()
            raise
        before, self._sets = self._sets, after
        for event in events:
            log.info("event=controller-decided what=%r", event)
            if isinstance(event, MasterElected):
                self._tell(after[event.broker_name], before[event.broker_name].master_broker_id)

    def _tell(self, found: BrokerSet, former_id: int | None) -> None:
        """All that live, and the former master: it may be frozen, or only cut off from us, and hears of it the moment
        it can. Apache's controller tells those that live."""
        if found.master_broker_id is not None and self.config.notify_broker_role_changed:
            alive = self.live.alive()
            addresses = [
                replica.broker_address
                for broker_id, replica in found.replicas.items()
                if (found.broker_name, broker_id) in alive or broker_id == former_id
            ]
            self._notices.tell(found, addresses)

    def _answered(self, request: Request[Any], decision: ControllerDecision) -> bytes:
        self._keep(decision.events)
        return answer_frame(request, decision.code, decision.remark, decision.header, decision.body)

    def as_refused(self, error: Exception) -> Refused | None:
        if isinstance(error, StorageError):
            return Refused(ResponseCode.SYSTEM_ERROR, str(error))
        return super().as_refused(error)

    # --- requests ----------------------------------------------------------------------------------------------------

    def _handlers(self) -> dict[int, Handler]:
        code = RequestCode
        return {
            code.BROKER_HEARTBEAT: self.broker_heartbeat,
            code.CONTROLLER_ALTER_SYNC_STATE_SET: self.alter_sync_state_set,
            code.CONTROLLER_ELECT_MASTER: self.elect_master,
            code.CONTROLLER_REGISTER_BROKER: self.register_broker,
            code.CONTROLLER_GET_REPLICA_INFO: self.replica_info,
            code.CONTROLLER_GET_METADATA_INFO: self.metadata_info,
            code.CONTROLLER_GET_SYNC_STATE_DATA: self.sync_state_data,
            code.UPDATE_CONTROLLER_CONFIG: self.update_config,
            code.GET_CONTROLLER_CONFIG: self.get_config,
            code.CLEAN_BROKER_DATA: self.clean_broker_data,
            code.CONTROLLER_GET_NEXT_BROKER_ID: self.next_broker_id,
            code.CONTROLLER_APPLY_BROKER_ID: self.apply_broker_id,
        }

    def broker_heartbeat(self, request: Request[BrokerHeartbeatHeader], connection: Connection) -> bytes:
        beat = request.header
        if beat.broker_id is None:
            raise Refused(ResponseCode.CONTROLLER_INVALID_REQUEST, "Heart beat with empty brokerId")
        found = self._sets.get(beat.broker_name)
        if found is not None and beat.broker_id in found.replicas:  # nobody else can be elected
            self.live.heard(beat.broker_id, beat, connection)
            if not request.is_oneway:  # ours asks: it may act as a master as long as it is told that it is one
                answer = ReplicaInfoAnswer(master_broker_id=found.master_broker_id, master_epoch=found.master_epoch)
                return success(request, answer, remark="Heart beat success")
        return success(request, remark="Heart beat success")

    def alter_sync_state_set(self, request: Request[AlterSyncStateSetHeader], connection: Connection) -> bytes:
        wanted = fastjson.loads_untrusted(request.body, SyncStateSet)
        return self._answered(request, in_sync_sets.alter_sync_state_set(self._now(), request.header, wanted))

    def elect_master(self, request: Request[ElectMasterHeader], connection: Connection) -> bytes:
        return self._answered(request, elections.elect_master(self._now(), request.header))

    def register_broker(self, request: Request[RegisterToControllerHeader], connection: Connection) -> bytes:
        header = request.header
        decision = replica_ids.register_broker(self._now(), header)
        if any(isinstance(event, MasterElected) for event in decision.events):
            self.live.forget((header.broker_name, header.broker_id))  # what was heard was its life before
        return self._answered(request, decision)

    def replica_info(self, request: Request[ReplicaInfoHeader], connection: Connection) -> bytes:
        return self._answered(request, in_sync_sets.replica_info(self._now(), request.header.broker_name))

    def sync_state_data(self, request: Request[NoFields], connection: Connection) -> bytes:
        names = fastjson.loads_untrusted(request.body, list[str])
        return self._answered(request, in_sync_sets.sync_state_data(self._now(), names))

    def clean_broker_data(self, request: Request[CleanBrokerDataHeader], connection: Connection) -> bytes:
        return self._answered(request, replica_ids.clean_broker_data(self._now(), request.header))

    def next_broker_id(self, request: Request[NextBrokerIdHeader], connection: Connection) -> bytes:
        return self._answered(request, replica_ids.next_broker_id(self._now(), request.header))

    def apply_broker_id(self, request: Request[ApplyBrokerIdHeader], connection: Connection) -> bytes:
        return self._answered(request, replica_ids.apply_broker_id(self._now(), request.header))

    def metadata_info(self, request: Request[NoFields], connection: Connection) -> bytes:
        address = self._advertise(connection.local_addr.rpartition(":")[0].strip("[]"))
        own_id = self.config.controller_dleger_self_id
        answer = ControllerMetaAnswer(
            group=self.config.controller_dleger_group,
            controller_leader_id=own_id,
            controller_leader_address=address,
            is_leader=True,
            peers=f"{own_id}:{address};",
        )
        return success(request, answer)

    def update_config(self, request: Request[NoFields], connection: Connection) -> bytes:
        changed = take_settings_untrusted(self.config, request.body)
        if changed:
            log.info("event=settings-changed service=controller keys=%s", ",".join(sorted(changed)))
        return success(request)

    def get_config(self, request: Request[NoFields], connection: Connection) -> bytes:
        return success(request, body=self.config.render().encode())
