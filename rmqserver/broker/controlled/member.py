"""This broker as a member of its set: its id, the set's master and the in-sync brokers, as the controllers say
(``ReplicasManager``, 5.5.0)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

import trio

from rmqproto.errors import ProtocolError, RefusedError, StorageError
from rmqproto.headers.controller import ReplicaInfoAnswer
from rmqproto.headers.nameserver import BrokerHeartbeatHeader
from rmqserver.broker.controlled.controllers import (
    ControllerGroup,
    LeaderQuestions,
    Leadership,
    WantedHandover,
    says_master,
    wanted_handover,
)
from rmqserver.broker.controlled.duties import Following, Host, has_caught_up
from rmqserver.broker.controlled.identity import IdentityFiles
from rmqserver.broker.controlled.set_master import SetMaster
from rmqserver.broker.controlled.set_state import NEVER, SetState, SyncSet, lease_ms, monotonic_ms
from rmqserver.broker.controlled.set_watch import SetWatch
from rmqserver.broker.lost_queues import list_unlisted
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.config.setting_values import BrokerRole
from rmqserver.store.disk.disk import Disk
from rmqserver.store.epochs import EpochFile
from rmqserver.store.recovery.cut_back import cut_back

log = logging.getLogger(__name__)

START_AGAIN_AFTER_S = 1.0
"""An Apache broker waits five seconds."""

BEAT_AGAIN_AFTER_S = 0.1
"""How soon a heartbeat follows that is due."""


class SetMember:
    """``run`` is a task."""

    def __init__(
        self, config: BrokerConfig, controllers: ControllerGroup, own_addr: Callable[[], str], disk: Disk, host: Host
    ):
        """``own_addr`` is the address under which the controllers know this broker."""
        self._config = config
        self._controllers = controllers
        self._questions = LeaderQuestions(controllers, config.broker_cluster_name, config.broker_name)
        self._own_addr = own_addr
        self._disk = disk
        self._host = host
        root = config.store_path_root_dir
        self._identity = IdentityFiles(
            config.store_path_broker_identity or f"{root}/brokerIdentity", config.broker_cluster_name,
            config.broker_name, disk,
        )  # fmt: skip
        path = config.store_path_epoch_file or f"{root}/epochFileCheckpoint"
        self.state = SetState(EpochFile(path, disk))
        self._master_id: int | None = None
        self._changing = trio.Lock()
        self._following = Following(host, self._note)
        self._nursery: trio.Nursery | None = None
        self._problem = ""
        self._registered_addr = ""
        self._handover_id = 0
        """The newest handover that this broker has begun, as the master."""
        self._given_back_id = 0
        """The newest for which it has given its lease back."""
        self._is_displaced = False
        """Another broker has this one's identity, for example because its store was copied. Only a restart takes the
        identity back: if both kept registering, they would take turns, and both would lead in one epoch."""
        self._registers_anew = False
        """This master's store was opened again, and the controller does not know it yet."""
        controllers.on_closed = self._connection_closed
        controllers.on_displaced = self._displaced

    def load(self) -> None:
        """Raises StorageError for files that cannot be used or belong to another broker."""
        self.state.own_id = self._identity.load() or 0
        self.state.epochs.load()

    # --- tasks -------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Runs until cancelled."""
        async with trio.open_nursery() as self._nursery:
            self._following.nursery = self._nursery
            await self._join()
            self._nursery.start_soon(self._beat)
            self._nursery.start_soon(self._look)
            self._nursery.start_soon(self._find_leaders)
            self._nursery.start_soon(SetWatch(self._config, self._questions, self.state, self._master, self._fence).run)

    async def _join(self) -> None:
        """Returns once the controller knows this broker and has given it a role."""
        while True:
            try:
                if not self.state.own_id:
                    self.state.own_id = await self._identity.apply_for_id(self._questions, self._own_addr())
                    self._config.record({"brokerId": str(self.state.own_id)})
                    log.info("event=id-applied broker_id=%d", self.state.own_id)
                if await self._register():
                    return
            except (OSError, ProtocolError, RefusedError) as error:
                self._note(str(error) or type(error).__name__)
            await trio.sleep(START_AGAIN_AFTER_S)

    async def _register(self) -> bool:
        """Registers with the controller; returns whether this broker has a role now."""
        self._registered_addr = self._own_addr()
        found = await self._questions.register(self.state.own_id, self._registered_addr)
        await self._beat_once()  # a broker that the controller does not know to be alive is not elected
        basis_ms = self.state.lease.basis_ms
        if found.master_addr is None:
            found = await self._questions.elect(self.state.own_id)
        else:
            basis_ms = NEVER
        await self._take(found, basis_ms)
        return not self.state.is_fenced

    async def _look(self) -> None:
        """Asks who the master is, regularly and when there is news."""
        while True:
            with trio.move_on_after(self._config.sync_broker_metadata_period_ms / 1000):
                await self.state.has_news.wait()
            self.state.has_news = trio.Event()
            if self._is_displaced:
                continue
            try:
                await self._cut_log()
                if self._registers_anew:
                    await self._register()
                    self._registers_anew = False
                    continue
                basis_ms = self.state.lease.basis_ms
                found = await self._questions.leadership()
                if found is None:
                    await self._register()
                    continue
                if found.master_id == self.state.own_id and found.master_addr not in (None, self._registered_addr):
                    self._displaced(f"the master, with this broker's id, is at {found.master_addr}")
                    continue
                if found.handover is not None and self._leads_in(found.master_epoch):
                    self._begin_handover(found.handover)
                    continue
                await self._take(found, basis_ms)
                if found.master_addr is None:
                    await self._take(await self._questions.elect(self.state.own_id), basis_ms)
                self._note("")
            except (OSError, ProtocolError, RefusedError) as error:
                self._note(str(error) or type(error).__name__)

    async def _beat(self) -> None:
        """Each round is a task: a controller that does not answer must not delay heartbeats to the others."""
        async with trio.open_nursery() as nursery:
            while True:
                self.state.beat_is_due = trio.Event()
                nursery.start_soon(self._beat_once)
                with trio.move_on_after(self._config.broker_heartbeat_interval_ms / 1000):
                    await self.state.beat_is_due.wait()
                    await trio.sleep(BEAT_AGAIN_AFTER_S)

    async def _beat_once(self) -> None:
        sent_ms = self.state.clock_ms()
        await self._controllers.beat(self._heartbeat(), lambda answers: self._beat_answered(sent_ms, answers))

    def _beat_answered(self, sent_ms: int, answers: list[ReplicaInfoAnswer]) -> None:
        state, lease = self.state, self.state.lease
        length_ms = lease_ms(self._config.controller_heart_beat_timeout_ms)
        if state.sync_set is None or state.is_fenced:
            lease.answered(sent_ms, length_ms, state.clock_ms(), says_master=None)
            return
        for each in answers:
            if (handover := wanted_handover(each)) is not None and self._leads_in(each.master_epoch):
                self._begin_handover(handover)
                if handover.handover_id == self._given_back_id:
                    return  # the controller may not have heard of it yet
        held = state.holds_lease
        says = says_master(answers, state.master_epoch, state.own_id)
        lease.answered(sent_ms, length_ms, state.clock_ms(), says_master=says)
        if lease.is_doubted or not state.holds_lease:
            state.has_news.set()  # to ask a controller who the master is
        if state.holds_lease and not held:
            log.info("event=lease-begins epoch=%d", state.master_epoch)
            self._set_changed()

    def _connection_closed(self) -> None:
        self.state.lease.doubt()
        self.state.beat_is_due.set()

    def _heartbeat(self) -> BrokerHeartbeatHeader:
        assert self._host.broker is not None
        store = self._host.broker.store
        try:
            is_writeable = not store.why_not_writeable()
        except StorageError:  # its disk cannot even be asked
            is_writeable = False
        return BrokerHeartbeatHeader(
            cluster_name=self._config.broker_cluster_name,
            broker_addr=self._registered_addr,
            broker_name=self._config.broker_name,
            broker_id=self.state.own_id,
            epoch=self.state.epochs.epochs.last_epoch,
            max_offset=store.written_offset,
            confirm_offset=store.confirmed_offset,
            heartbeat_timeout_mills=self._config.controller_heart_beat_timeout_ms,
            election_priority=self._config.broker_election_priority,
            takes_messages=None if is_writeable else False,
        )

    async def _find_leaders(self) -> None:
        while True:
            await trio.sleep(self._config.sync_controller_metadata_period_ms / 1000)
            await self._controllers.find_leader()

    # --- roles -------------------------------------------------------------------------------------------------------

    async def _take(self, standing: Leadership, lease_basis_ms: int) -> None:
        """Acts on what a controller says, unless that is older than what is known. ``lease_basis_ms`` is the lease's
        ``basis_ms`` from before the controller was asked."""
        async with self._changing:
            await self._take_now(standing, lease_basis_ms)

    async def _take_now(self, standing: Leadership, lease_basis_ms: int) -> None:
        if standing.master_epoch < self.state.master_epoch or self._is_displaced:
            return
        is_known = standing.master_epoch == self.state.master_epoch and standing.master_id == self._master_id
        if is_known and not self.state.is_fenced:
            self._take_set(standing, lease_basis_ms)
            return
        if not standing.master_addr or standing.master_id is None:
            # The set has no master: a broker that was the master acknowledges nothing more.
            if self.state.sync_set is not None and standing.master_epoch > self.state.master_epoch:
                self._fence(f"the set has no master in epoch {standing.master_epoch}")
            return
        self.state.master_epoch, self._master_id = standing.master_epoch, standing.master_id
        if standing.master_id == self.state.own_id:
            await self._lead(standing, lease_basis_ms)
        else:
            await self._follow(standing.master_addr)
        self._host.role_is_known()

    def _take_set(self, standing: Leadership, lease_basis_ms: int) -> None:
        """Takes the controller's set. A proposal whose answer was lost stays pending until a newer set arrives."""
        sync_set = self.state.sync_set
        if sync_set is None:
            return
        self.state.lease.confirmed(lease_basis_ms)
        if sync_set.proposed is None or standing.set_epoch > sync_set.set_epoch:
            sync_set.take(standing.members, standing.set_epoch)
        self._set_changed()

    async def _lead(self, standing: Leadership, lease_basis_ms: int) -> None:
        if standing.master_epoch < self.state.epochs.epochs.last_epoch:
            log.error(
                "event=mastership-refused epoch=%d last_epoch=%d reason='the log has a later one'",
                standing.master_epoch, self.state.epochs.epochs.last_epoch,
            )  # fmt: skip
            self._fence("its log is of a later epoch than the controller knows")
            return
        self._following.stop()
        self.state.master_addr = None
        log.info("event=master-begins epoch=%d set=%s", standing.master_epoch, sorted(standing.members))
        self.state.is_fenced = True  # until it is open as a master: a slave has no links, and maybe no epoch
        self.state.sync_set = SyncSet(
            self.state.own_id, standing.members | {self.state.own_id}, standing.set_epoch, monotonic_ms()
        )
        before = self._host.broker.slave if self._host.broker is not None else None
        known_until = before.topics_known_until if before is not None else None
        await self._host.change_role(BrokerRole.SYNC_MASTER, 0, None)
        # A former slave lists the topics that were created after its last copy of the table.
        if known_until is not None and (broker := self._host.broker) is not None:
            list_unlisted(self._config, broker.store, broker.topics, known_until)
        self.state.lease.confirmed(lease_basis_ms)
        self.state.is_fenced = False
        self.state.has_set_news.set()  # slaves may have reported meanwhile
        self._set_changed()

    async def _follow(self, master_addr: str) -> None:
        was_master, self.state.sync_set = self.state.sync_set is not None, None
        self.state.lease.end()
        self._following.stop()
        self.state.master_addr = master_addr
        log.info("event=slave-begins epoch=%d master=%s", self.state.master_epoch, master_addr)
        if was_master:
            self.state.is_fenced = True
            await self._host.change_role(BrokerRole.SLAVE, self.state.own_id, None)
        self.state.is_fenced = False
        self._following.start(master_addr)

    # --- handovers ---------------------------------------------------------------------------------------------------

    def _leads_in(self, epoch: int | None) -> bool:
        return self.state.sync_set is not None and not self.state.is_fenced and self.state.master_epoch == epoch

    def _begin_handover(self, wanted: WantedHandover) -> None:
        """Begins it once, however often the controller says so."""
        if wanted.handover_id != self._handover_id and self._nursery is not None:
            self._handover_id = wanted.handover_id
            self._nursery.start_soon(self._hand_over, wanted, self.state.master_epoch)

    async def _hand_over(self, wanted: WantedHandover, epoch: int) -> None:
        """Gives the lease back as soon as the successor has everything, and has the controller elect it. If it is not
        elected, the next answer to a heartbeat begins the lease again."""
        async with self._changing:
            master, opened = self._master(), self._host.broker
            if master is None or opened is None or not self._leads_in(epoch):
                return
            log.info("event=handover-begins epoch=%d successor=%d", epoch, wanted.successor_id)
            try:
                if not await has_caught_up(
                    master, opened.pending, opened.table_watch, wanted.successor_id, self._host.hold_clients
                ):
                    log.warning("event=handover-given-up epoch=%d reason='the successor is behind'", epoch)
                    return
                self._given_back_id = wanted.handover_id
                self.state.lease.give_back(self.state.clock_ms())
                found = await self._questions.elect(self.state.own_id, wanted.handover_id)
                await self._take_now(found, NEVER)
            except (OSError, ProtocolError, RefusedError) as error:
                self._note(str(error) or type(error).__name__)
                self.state.has_news.set()
            finally:
                self._host.release_clients()
                self.state.beat_is_due.set()

    # --- following ---------------------------------------------------------------------------------------------------

    async def _cut_log(self) -> None:
        log_offset, self.state.cut_offset = self.state.cut_offset, None
        if log_offset is None or self.state.sync_set is not None or self._host.broker is None:
            return
        async with self._changing:
            self._following.stop()
            self.state.epochs.epochs.cut_behind(log_offset)
            root, size = self._config.store_path_root_dir, self._config.commit_log_file_size_bytes
            change = partial(cut_back, root, size, log_offset, self._disk)
            await self._host.change_role(BrokerRole.SLAVE, self.state.own_id, change)
            self.state.epochs.save()
            self._follow_again()

    @property
    def may_open_store_again(self) -> bool:
        """Whether nobody else may be elected with what this broker's log has lost. Otherwise a master waits for the
        controller to ask it to hand over."""
        return self.state.sync_set is None or not self.state.sync_set.required

    async def open_store_again(self) -> None:
        """Opens the store as a start does. A master registers anew, which ends its term, since its log may have lost
        its end. Does nothing unless ``may_open_store_again``."""
        async with self._changing:
            if not self.may_open_store_again:
                return
            if self.state.sync_set is not None:
                self._fence("its store is opened again")
                self.state.sync_set, self._registers_anew = None, True
            self._following.stop()
            await self._host.change_role(BrokerRole.SLAVE, self.state.own_id, None)
            self._follow_again()
        self.state.has_news.set()

    def _follow_again(self) -> None:
        if self.state.master_addr is not None and not self._is_displaced:
            self._following.start(self.state.master_addr)

    def _fence(self, reason: str) -> None:
        if not self.state.is_fenced:
            log.error("event=fenced epoch=%d reason=%r", self.state.master_epoch, reason)
        self.state.is_fenced = True
        self.state.lease.end()
        self._set_changed()
        self.state.has_news.set()

    def _displaced(self, reason: str) -> None:
        """This broker takes and copies nothing more: its log differs from that of the broker that has its id."""
        if self._is_displaced:
            return
        self._is_displaced = True
        log.error(
            "event=identity-taken broker_id=%d reason=%r hint='give one of them an empty store, and start it again'",
            self.state.own_id, reason,
        )  # fmt: skip
        self._fence("another broker has its id")
        self._following.stop()
        if self._host.broker is not None and self._host.broker.slave is not None:
            self._host.broker.slave.log.follow(None)

    def _master(self) -> SetMaster | None:
        replicas = self._host.broker.replicas if self._host.broker is not None else None
        return replicas if isinstance(replicas, SetMaster) else None

    def _set_changed(self) -> None:
        if (master := self._master()) is not None:
            master.set_changed()

    def _note(self, problem: str) -> None:
        """Logs a problem when it changes, not each time it recurs."""
        if problem and problem != self._problem:
            log.warning("event=controller-problem broker_id=%d reason=%r", self.state.own_id, problem)
        self._problem = problem
