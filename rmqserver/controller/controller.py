"""The requests that a controller serves (``ControllerRequestProcessor``, 5.5.0), each a decision that is stored and
then answered; and elections in place of brokers that have fallen silent."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import trio

from rmqproto.bodies.replication import SyncStateSet
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import StorageError
from rmqproto.headers.base import NoFields
from rmqproto.headers.controller import (
    AlterSyncStateSetHeader,
    ControllerMetaAnswer,
    ElectMasterHeader,
    RegisterToControllerHeader,
    ReplicaInfoAnswer,
    ReplicaInfoHeader,
)
from rmqproto.headers.nameserver import BrokerHeartbeatHeader
from rmqproto.wire import fastjson
from rmqserver.config.controller_config import ControllerConfig
from rmqserver.config.keyed_settings import take_settings_untrusted
from rmqserver.controller import elections, in_sync_sets, replica_ids
from rmqserver.controller.controller_state import BrokerSet, BrokerSets, MasterElected
from rmqserver.controller.controller_store import ControllerName, ControllerStore, LeadershipLost
from rmqserver.controller.decider import Decide, Decider, Done, not_leading
from rmqserver.controller.decision import ControllerDecision, Situation
from rmqserver.controller.handovers import Handovers, Reliefs
from rmqserver.controller.live_brokers import LiveBrokers, LostConnections, ReplicaKey
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request, answer_frame, send_answer, success
from rmqserver.remoting.connection import Connection
from rmqserver.remoting.notices import Notices
from rmqserver.remoting.service import Handler, Service

log = logging.getLogger(__name__)

STOOD_STILL_S = 2.0
"""How long without a turn counts as a standstill. Brokers give up a request, and its connection, after three
seconds."""

TICK_S = 0.5


class Controller(Service):
    """Call ``open`` before it serves, run ``run`` as a task, and call ``close`` at the end. It uses one thread only."""

    def __init__(
        self,
        config: ControllerConfig,
        store: ControllerStore,
        notices: Notices,
        lost_connections: LostConnections,
        advertise: Callable[[str], str],
        clock_s: Callable[[], float] = time.monotonic,
        wake: Callable[[], None] = lambda: None,
    ):
        """``advertise`` turns the host that a broker has reached into the address that it is told. ``wake`` makes the
        loop send answers to decisions that were stored between its rounds."""
        self.config = config
        self._store = store
        self._notices = notices
        self._lost_connections = lost_connections
        self._advertise = advertise
        self._wake = wake
        self._clock_s = clock_s
        self._ticked_s = math.inf
        """When this controller last noticed that it runs; infinity before ``run``."""
        self._decider = Decider(config, store, notices, clock_s)
        self._handovers = Handovers(clock_s)
        self._reliefs = Reliefs(clock_s)
        self._is_open = False
        super().__init__("controller", self._handlers())
        self.idle_max_s = config.server_channel_max_idle_time_s
        self.limits = config

    @property
    def sets(self) -> BrokerSets:
        return self._decider.sets

    @property
    def live(self) -> LiveBrokers:
        return self._decider.live

    @property
    def is_leading(self) -> bool:
        return self._decider.is_leading

    def open(self) -> None:
        """Raises StorageError for a log that cannot be read."""
        sets = self._store.open()
        if sets is not None:
            self._decider.lead(sets)
        self._is_open = True

    def _follow(self) -> None:
        self._handovers.give_up_all()
        self._decider.follow()

    def close(self) -> None:
        """After this, the end of a connection says nothing about its broker."""
        self._is_open = False
        self._store.close()

    async def run(self, me: ControllerName) -> StorageError:
        """Watches for brokers that fall silent. Returns if the store has failed: then no request may be answered any
        more."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._store.run, me, self._decider.lead, self._follow)
            nursery.start_soon(self._notices.run)
            nursery.start_soon(self._lost_connections.run)
            nursery.start_soon(self._tick)
            nursery.start_soon(self._scan_brokers)
            nursery.start_soon(self._scan_masters)
            await self._decider.failed.wait()
            nursery.cancel_scope.cancel()
        assert self._decider.failure is not None
        return self._decider.failure

    async def _tick(self) -> None:
        self._ticked_s = self._clock_s()
        while True:
            await trio.sleep(TICK_S)
            self._notice_standstill()
            self.scan_handovers()

    def _notice_standstill(self) -> None:
        """A controller that was frozen, or waited for its disk, has missed heartbeats and finds connections ended. It
        begins to listen anew, as after a start."""
        before_s, self._ticked_s = self._ticked_s, max(self._ticked_s, self._clock_s())
        if self._ticked_s - before_s > STOOD_STILL_S:
            log.warning("event=controller-stood-still seconds=%.1f", self._ticked_s - before_s)
            self.live.settle_anew()

    async def _scan_brokers(self) -> None:
        while True:
            await trio.sleep(self.config.scan_not_active_broker_interval_ms / 1000)
            self.scan_brokers()

    async def _scan_masters(self) -> None:
        while True:
            await trio.sleep(self.config.scan_inactive_master_interval_ms / 1000)
            self.scan_masters()

    def scan_brokers(self) -> None:
        self._notice_standstill()
        self._lost(self.live.expired(), "no heartbeat")

    def scan_masters(self) -> None:
        """Holds elections that are due: in sets without a master, and in sets whose master died before the controller
        knew which others live."""
        self._notice_standstill()
        if self.is_leading:
            for each in elections.sets_to_elect(self._decider.now()):
                self._elect_another(each)

    def scan_handovers(self) -> None:
        """Refuses those that have failed."""
        self._handovers.expire(self.sets)

    def connection_closed(self, connection: Connection) -> None:
        """Its brokers count as alive until proven dead: one with a lease may still act as master."""
        if self._is_open:
            self._notice_standstill()
            for key in self.live.heard_on(connection):
                self._look_after(key, connection)

    def _look_after(self, key: ReplicaKey, connection: Connection) -> None:
        name, broker_id = key

        def where() -> str | None:
            found = self.sets.get(name)
            replica = found.replicas.get(broker_id) if found is not None else None
            is_doubted = self._is_open and self.live.is_heard_on(key, connection)
            return replica.broker_address if replica is not None and is_doubted else None

        def dead() -> None:
            self.live.forget(key)
            self._lost([key], "its connection ended, and nobody listens at its address")

        log.info("event=broker-connection-ended broker=%s id=%d", name, broker_id)
        self._lost_connections.look_after(where, dead)

    def _lost(self, keys: Iterable[ReplicaKey], reason: str) -> None:
        for name, broker_id in keys:
            found = self.sets.get(name)
            is_master = found is not None and found.master_broker_id == broker_id
            log.warning("event=broker-inactive broker=%s id=%d master=%s reason=%r", name, broker_id, is_master, reason)
            if found is not None and is_master and self.live.is_settled:
                self._elect_another(found)

    def _elect_another(self, found: BrokerSet) -> None:
        name = found.broker_name

        def decide(now: Situation) -> ControllerDecision:
            present = now.sets.get(name)  # another decision may have come first
            is_due = present is not None and not now.has_living_master(present)
            return ControllerDecision(events=elections.master_lost(now, present) if is_due and present else ())

        def done(outcome: ControllerDecision | Exception) -> None:
            if isinstance(outcome, Exception):
                log.error("event=election-not-kept broker=%s reason=%r", name, str(outcome))

        self._decider.submit(decide, done)

    # --- requests ----------------------------------------------------------------------------------------------------

    def as_refused(self, error: Exception) -> Refused | None:
        if isinstance(error, (StorageError, LeadershipLost)):
            return Refused(ResponseCode.SYSTEM_ERROR, str(error))
        return super().as_refused(error)

    def _decided(self, request: Request[Any], connection: Connection, decide: Decide) -> None:
        """Answers when the decision is stored."""
        self._decider.submit(decide, self._answering(request, connection))

    def _deciding(self, decide: Callable[[Situation, Any], ControllerDecision]) -> Handler:
        return lambda request, connection: self._decided(request, connection, lambda now: decide(now, request.header))

    def _answering(self, request: Request[Any], connection: Connection) -> Done:
        def done(outcome: ControllerDecision | Exception) -> None:
            if isinstance(outcome, Exception):
                answer = self._refusal(outcome, request, connection)
            else:
                answer = answer_frame(request, outcome.code, outcome.remark, outcome.header, outcome.body)
            send_answer(request, connection, answer)
            self._wake()

        return done

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
            code.CLEAN_BROKER_DATA: self._deciding(replica_ids.clean_broker_data),
            code.CONTROLLER_GET_NEXT_BROKER_ID: self._deciding(replica_ids.next_broker_id),
            code.CONTROLLER_APPLY_BROKER_ID: self._deciding(replica_ids.apply_broker_id),
        }

    def broker_heartbeat(self, request: Request[BrokerHeartbeatHeader], connection: Connection) -> bytes:
        beat = request.header
        if beat.broker_id is None:
            raise Refused(ResponseCode.CONTROLLER_INVALID_REQUEST, "Heart beat with empty brokerId")
        found = self.sets.get(beat.broker_name)
        if found is not None and beat.broker_id in found.replicas:  # only a known replica can be elected
            address = found.replicas[beat.broker_id].broker_address
            if beat.broker_addr and beat.broker_addr != address:
                raise Refused(
                    ResponseCode.CONTROLLER_BROKER_ID_INVALID,
                    f"BrokerId: {beat.broker_id} of broker-set: {beat.broker_name} is now the broker at {address}",
                )
            self.live.heard(beat.broker_id, beat, connection, has_lease=not request.is_oneway)
            if self._handovers.heard(found, beat.broker_id):
                self._decider.tell(found, [found.master_address or ""])  # else its next heartbeat would learn of it
            if beat.broker_id == found.master_broker_id and beat.takes_messages is False:
                self._relieve(found)
        if not request.is_oneway:  # our broker asks: it may act as master while the leader says that it is
            if not self.is_leading or self._decider.is_electing(beat.broker_name):
                raise not_leading()  # so that no lease is renewed while an election is pending
            if found is not None:
                answer = ReplicaInfoAnswer(master_broker_id=found.master_broker_id, master_epoch=found.master_epoch)
                return success(request, self._with_handover(found, answer), remark="Heart beat success")
        return success(request, remark="Heart beat success")

    def alter_sync_state_set(self, request: Request[AlterSyncStateSetHeader], connection: Connection) -> None:
        header, wanted = request.header, fastjson.loads_untrusted(request.body, SyncStateSet)
        self._decided(request, connection, lambda now: in_sync_sets.alter_sync_state_set(now, header, wanted))

    def elect_master(self, request: Request[ElectMasterHeader], connection: Connection) -> None:
        header = request.header
        if header.handover_id is not None:
            self._elect_successor(request, header.handover_id, connection)
        elif (found := self._leased_set(header)) is not None:
            if self._handovers.of(found) is not None:
                text = "Failed to elect a new master: another handover of this set is under way"
                raise Refused(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, text)
            self._begin_handover(found, header, self._answering(request, connection))
        else:
            self._decided(request, connection, lambda now: self._elect_unleased(now, header))

    def _elect_unleased(self, now: Situation, wanted: ElectMasterHeader) -> ControllerDecision:
        """As ``elections.elect_master``, but an operator's wish ends no term of a master that has a lease: who could
        not be elected when the wish came may have joined the set since, and nobody has asked the master."""
        decision = elections.elect_master(now, wanted)
        found = now.sets.get(wanted.broker_name)
        if not wanted.designate_elect or not decision.events or found is None or found.master_broker_id is None:
            return decision
        if not self.live.has_lease((wanted.broker_name, found.master_broker_id)):
            return decision
        text = "Failed to elect a new master: the set has just changed; ask again"
        return ControllerDecision(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, text)

    def _relieve(self, found: BrokerSet) -> None:
        """The master takes no messages."""
        if not self.is_leading or self._handovers.of(found) is not None:
            return
        wanted = self._reliefs.wanted(self._decider.now(), found)
        if wanted is None or self._leased_set(wanted) is None:
            return

        def done(outcome: ControllerDecision | Exception) -> None:
            if isinstance(outcome, Exception):
                log.warning("event=master-not-relieved broker=%s reason=%r", found.broker_name, str(outcome))

        log.warning(
            "event=master-takes-no-messages broker=%s id=%s successor=%d",
            found.broker_name, found.master_broker_id, wanted.broker_id,
        )  # fmt: skip
        self._begin_handover(found, wanted, done)

    def _begin_handover(self, found: BrokerSet, wanted: ElectMasterHeader, done: Done) -> None:
        self._handovers.begin(found, wanted, done)
        self._decider.tell(found, [found.replicas[wanted.broker_id].broker_address])  # ours sends a heartbeat then

    def _leased_set(self, wanted: ElectMasterHeader) -> BrokerSet | None:
        """The set, if an operator wants another master there, and the present one must give its lease back first."""
        found = self.sets.get(wanted.broker_name) if self.is_leading else None
        if found is None or not wanted.designate_elect or found.master_broker_id is None:
            return None
        has_lease = self.live.has_lease((wanted.broker_name, found.master_broker_id))
        return found if has_lease and elections.elect_master(self._decider.now(), wanted).events else None

    def _elect_successor(
        self, request: Request[ElectMasterHeader], handover_id: int, connection: Connection
    ) -> None:  # fmt: skip
        """Answers the master, which has given its lease back, and the operator. Answers a master whose handover is over
        with who is the master now."""
        name, answer = request.header.broker_name, self._answering(request, connection)
        handover = self._handovers.give_back(name, handover_id)
        if handover is None:
            plain = msgspec.structs.replace(request.header, designate_elect=False)
            self._decider.submit(lambda now: elections.elect_master(now, plain), answer)
            return

        def done(outcome: ControllerDecision | Exception) -> None:
            self._handovers.end(handover)
            handover.done(outcome)
            answer(outcome)

        wanted, epoch = handover.wanted, handover.master_epoch
        self._decider.submit(lambda now: elections.elect_successor(now, wanted, epoch), done)

    def _with_handover(self, found: BrokerSet, answer: ReplicaInfoAnswer) -> ReplicaInfoAnswer:
        """While the lease is wanted the answer confirms only one that the master has not given back."""
        handover = self._handovers.of(found)
        if handover is None or not handover.is_asked:
            return answer
        return msgspec.structs.replace(answer, handover_id=handover.handover_id, successor_id=handover.wanted.broker_id)

    def register_broker(self, request: Request[RegisterToControllerHeader], connection: Connection) -> None:
        header = request.header

        def decide(now: Situation) -> ControllerDecision:
            decision = replica_ids.register_broker(now, header)
            if any(isinstance(event, MasterElected) for event in decision.events):
                self.live.forget((header.broker_name, header.broker_id))  # its heartbeats came before its restart
            return decision

        self._decided(request, connection, decide)

    def replica_info(self, request: Request[ReplicaInfoHeader], connection: Connection) -> None:
        name = request.header.broker_name

        def decide(now: Situation) -> ControllerDecision:
            decision = in_sync_sets.replica_info(now, name)
            if not isinstance(decision.header, ReplicaInfoAnswer):
                return decision
            return decision._replace(header=self._with_handover(now.sets[name], decision.header))

        self._decided(request, connection, decide)

    def sync_state_data(self, request: Request[NoFields], connection: Connection) -> None:
        names = fastjson.loads_untrusted(request.body, list[str])
        self._decided(request, connection, lambda now: in_sync_sets.sync_state_data(now, names))

    def metadata_info(self, request: Request[NoFields], connection: Connection) -> bytes:
        address = self._advertise(connection.local_addr.rpartition(":")[0].strip("[]"))
        me = ControllerName(self.config.controller_dleger_self_id, address)
        leader = me if self.is_leading else self._store.leader
        answer = ControllerMetaAnswer(
            group=self.config.controller_dleger_group,
            controller_leader_id=leader.id if leader else None,
            controller_leader_address=leader.address if leader else None,
            is_leader=leader is me,
            peers="".join(f"{peer.id}:{peer.address};" for peer in self._peers(me, leader)),
        )
        return success(request, answer)

    def _peers(self, me: ControllerName, leader: ControllerName | None) -> list[ControllerName]:
        """The controllers that the settings list; without a list, those that are known."""
        listed = [peer.partition("-") for peer in self.config.controller_dleger_peers]
        if len(listed) > 1:
            return [ControllerName(peer_id, addr) for peer_id, _, addr in listed]
        return sorted({me, leader or me})

    def update_config(self, request: Request[NoFields], connection: Connection) -> bytes:
        changed = take_settings_untrusted(self.config, request.body)
        if changed:
            log.info("event=settings-changed service=controller keys=%s", ",".join(sorted(changed)))
        return success(request)

    def get_config(self, request: Request[NoFields], connection: Connection) -> bytes:
        return success(request, body=self.config.render().encode())
