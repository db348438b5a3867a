"""One process: a nameserver, a broker, or both, or a controller, on one loop in one trio run. Its start, its ready line
and its clean end."""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import trio

from rmqproto.errors import RocketMQError, UsageError
from rmqproto.ha import HA_PORT_DISTANCE
from rmqproto.message.record import host_bytes
from rmqserver import temporary_store
from rmqserver.advertise import Advertise, join, local_host
from rmqserver.command_line import ServerPlan, store_paths
from rmqserver.config import BrokerConfig, BrokerRole, ControllerConfig, NamesrvConfig
from rmqserver.remoting.loop import Loop
from rmqserver.remoting.pump import plain_pump
from rmqserver.store.options import FlushMode
from rmqserver.temporary_store import TemporaryStore

if TYPE_CHECKING:
    from rmqserver.auth.auth_table import AuthTable
    from rmqserver.broker.broker import Broker
    from rmqserver.broker.controlled.member import SetMember
    from rmqserver.broker.controlled.set_state import SetState
    from rmqserver.broker.registration import Registration
    from rmqserver.controller.controller import Controller
    from rmqserver.controller.controller_store import ControllerStore
    from rmqserver.faults.fault_gate import FaultGate
    from rmqserver.local_set import LocalSet, LocalSetPlan
    from rmqserver.metrics.watch_pages import WatchPages
    from rmqserver.namesrv.kv import KvConfig
    from rmqserver.namesrv.nameserver import Nameserver
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.notices import Notices
    from rmqserver.remoting.pump import Pump
    from rmqserver.remoting.service import Service
    from rmqserver.seed.sowing import Sowing
    from rmqserver.snapshots.store_admin import StoreAdmin
    from rmqserver.store.recovery.recovery import Recovered
    from rmqserver.tls.door import TlsDoor, TlsLink
    from rmqserver.tls.settings import TlsSettings

log = logging.getLogger(__name__)

FAST_PORT_DISTANCE = 2
"""How far below the broker's port the second listener of old clients is (Apache's "fast" or "VIP" port)."""

ANNOUNCED_MAX_S = 4.0
"""How long a broker that is to be announced as ready may take until the nameservers know it. Their own time is within
it."""

SET_LOOK_S = 0.02
"""How often a set that starts is looked at."""

EXIT_OK = 0
EXIT_STORE_FAILED = 1
"""Something could not be written to the device. The logs say how much of what was acknowledged is there."""

_PROMISES = {
    FlushMode.SYNC: "an acknowledged message survives kill -9 and a power cut",
    FlushMode.ASYNC: "an acknowledged message survives kill -9; a power cut may take the last {} ms",
}


def serve(plan: ServerPlan, started_s: float, local_set: LocalSetPlan | None = None) -> int:
    """Serves until SIGTERM or SIGINT; returns the exit status. UsageError or StorageError if it cannot start.

    ``started_s`` is ``time.perf_counter()`` at the start of the program. ``local_set``: brokers that this process
    starts and ends.
    """
    _raise_open_files_limit()
    return trio.run(_Server(plan, started_s, local_set).run)


def _raise_open_files_limit() -> None:
    """Raises it to what the system allows, as Java does when it starts. Every client is an open file, and 1024 is a
    usual limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:
        log.warning("event=open-files-limit limit=%d reason=%r", soft, str(error))


class _Server:
    """The parts of one process. What only one of the roles needs is imported by its own method."""

    def __init__(self, plan: ServerPlan, started_s: float, local_set: LocalSetPlan | None = None):
        self._plan = plan
        self._set_plan = local_set
        self._local_set: LocalSet | None = None
        self._started_s = started_s
        self._loop = Loop()
        self._door: TlsDoor | None = None
        """Without one, what comes in is plain."""
        self._link: TlsLink | None = None
        self._kv: KvConfig | None = None
        self._namesrv: Nameserver | None = None
        self._namesrv_addr: str | None = None
        self._controller: Controller | None = None
        self._controller_addr: str | None = None
        self._broker: Broker | None = None
        self._broker_addr: str | None = None
        self._ha_listener: socket.socket | None = None
        self._store_dir: str | None = None
        self._temporary_store: TemporaryStore | None = None
        self._advertised: Advertise | None = None
        self._registration: Registration | None = None
        self._faults: FaultGate | None = None
        self._store_admin: StoreAdmin | None = None
        self._sowing: Sowing | None = None
        self._failure: RocketMQError | None = None
        """Why it did not become ready."""
        self._member: SetMember | None = None
        """Of a broker whose role controllers say."""
        self._is_registering = False
        self._watch_pages: WatchPages | None = None
        self._metrics_addr: str | None = None
        self._nursery: trio.Nursery | None = None
        self._broker_tasks: trio.Nursery | None = None
        self._broker_ended = trio.Event()
        """The tasks of the broker that was there last have ended."""
        self._is_all_kept = True
        """Of the brokers that were closed before the end."""

    async def run(self) -> int:
        """Once."""
        try:
            with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                self._open_tls(self._plan.tls)
                if self._plan.namesrv is not None:
                    self._start_namesrv(self._plan.namesrv)
                if self._plan.broker is not None:
                    self._start_broker(self._plan.broker)
                if self._plan.controller is not None:
                    if self._set_plan is not None:
                        self._prepare_set(self._set_plan, self._plan.controller)
                    self._start_controller(self._plan.controller)
                self._prepare_for_tests()
                if self._plan.metrics is not None:
                    await self._open_watch_pages(*self._plan.metrics)
                async with trio.open_nursery() as nursery:
                    self._nursery = nursery
                    await self._serve(nursery, signals)
                    nursery.cancel_scope.cancel()
        finally:
            is_all_kept = self._close()
        log.info("event=stopped")
        if self._failure is not None:
            raise self._failure
        return EXIT_OK if is_all_kept else EXIT_STORE_FAILED

    async def _serve(self, nursery: trio.Nursery, signals: AsyncIterator[int]) -> None:
        """Until a signal comes."""
        await self._start_tasks(nursery)
        if self._sowing is not None and not await self._sow(self._sowing):
            return
        if self._member is not None:
            nursery.start_soon(self._member.run)
        elif self._registration is not None:
            assert self._broker is not None
            told = trio.Event()
            nursery.start_soon(self._register_when_online, self._broker, self._registration, told)
            with trio.move_on_after(ANNOUNCED_MAX_S):
                await told.wait()
        self._serve_tests(nursery)
        if self._watch_pages is not None:
            self._watch_pages.is_serving = True
        if self._set_plan is not None:
            nursery.start_soon(self._run_set, self._set_plan)
        else:
            self._announce()
        for service, setting in self._plan.unasked().items():
            log.warning(
                "event=nobody-is-asked service=%s listen=%s reason='without %s, all who reach the port may do "
                "everything'",
                service, self._plan.listen, setting,
            )  # fmt: skip
        if self._temporary_store is not None:  # in a thread, because a killed process may have left much
            nursery.start_soon(partial(trio.to_thread.run_sync, temporary_store.sweep, abandon_on_cancel=True))
        stop = await anext(signals)
        log.info("event=stopping signal=%s", signal.Signals(stop).name)
        if self._watch_pages is not None:
            self._watch_pages.is_serving = False
        if self._registration is not None and self._is_registering:
            await self._registration.unregister()
        if self._local_set is not None:
            await self._local_set.stop()

    def _prepare_set(self, plan: LocalSetPlan, controller: ControllerConfig) -> None:
        self._store_dir = plan.root or self._make_temporary_store()
        controller.record({"controllerStorePath": f"{self._store_dir}/controller"})

    async def _run_set(self, plan: LocalSetPlan) -> None:
        """It is ready when all of its brokers are in sync, and the nameserver knows them."""
        from rmqserver.local_set import LocalSet

        assert self._namesrv is not None
        assert self._controller is not None
        assert self._namesrv_addr is not None
        assert self._controller_addr is not None
        assert self._store_dir is not None
        self._local_set = local_set = LocalSet(plan, self._store_dir, self._namesrv_addr, self._controller_addr)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._announce_set, plan.replica_count)
            failure = await local_set.run()
            await local_set.stop()
            await self._fail(failure)

    async def _announce_set(self, replica_count: int) -> None:
        assert self._namesrv is not None
        assert self._controller is not None
        while self._broker_addr is None:
            known = self._namesrv.routes.cluster_info().broker_addr_table
            for name, each in self._controller.sets.items():
                is_in_sync = each.master_broker_id is not None and len(each.sync_state_set) == replica_count
                addrs = known[name].broker_addrs if name in known else {}
                if is_in_sync and len(addrs) == replica_count and addrs.get(0) == each.master_address:
                    self._broker_addr = each.master_address
            await trio.sleep(SET_LOOK_S)
        self._announce()

    async def _start_tasks(self, nursery: trio.Nursery) -> None:
        nursery.start_soon(self._loop.run)
        for watched in (self._door, self._link):
            if watched is not None:
                nursery.start_soon(watched.watch)
        if self._namesrv is not None:
            nursery.start_soon(self._namesrv.run)
        if self._controller is not None:
            nursery.start_soon(self._run_controller, self._controller)
        if self._broker is not None:
            await nursery.start(self._run_broker, self._broker)
        if self._watch_pages is not None:
            nursery.start_soon(self._watch_pages.run)

    async def _run_controller(self, controller: Controller) -> None:
        from rmqserver.controller.controller_store import ControllerName

        assert self._controller_addr is not None
        me = ControllerName(controller.config.controller_dleger_self_id, self._controller_addr)
        await self._fail(await controller.run(me))

    def _serve_tests(self, nursery: trio.Nursery) -> None:
        if self._store_admin is not None:
            nursery.start_soon(self._store_admin.run)
        if self._faults is not None:
            nursery.start_soon(self._faults.run)
            if self._plan.faults:  # from now on, not for the registration that made it ready
                self._faults.set_rules(self._plan.faults)

    async def _run_broker(self, broker: Broker, task_status: trio.TaskStatus[None]) -> None:
        """The tasks of one broker, until ``_broker_tasks`` is cancelled."""
        self._broker_ended = trio.Event()
        async with trio.open_nursery() as self._broker_tasks:
            self._broker_tasks.start_soon(broker.run)
            if self._ha_listener is not None:
                self._broker_tasks.start_soon(broker.replicas.serve, self._ha_listener)
            task_status.started()
        self._broker_ended.set()

    async def _register_when_online(self, broker: Broker, registration: Registration, told: trio.Event) -> None:
        """A master whose slave acts for it may come back late, or not at all: what is wrong is in the logs."""
        await broker.role.online.wait()
        self._register(registration)
        await registration.first_round()
        told.set()

    def _register(self, registration: Registration) -> None:
        assert self._broker is not None
        assert self._broker_tasks is not None
        self._is_registering = True
        self._broker_tasks.start_soon(registration.run, self._broker.topics, self._broker.mappings)

    async def change_role(self, role: BrokerRole, broker_id: int, change: Callable[[], None] | None) -> None:
        """As ``Host`` says. The nameservers know the broker under its old id until it is there again."""
        config = self._plan.broker
        assert config is not None
        config.record({"brokerRole": role.value, "brokerId": str(broker_id)})
        await self._reopen(None, change or (lambda: None), sow=False)

    @property
    def broker(self) -> Broker | None:
        return self._broker

    @property
    def _set_state(self) -> SetState | None:
        return self._member.state if self._member is not None else None

    def role_is_known(self) -> None:
        if self._registration is not None and not self._is_registering:
            self._register(self._registration)

    async def _reopen(self, asker: Connection | None, change: Callable[[], None], *, sow: bool) -> None:
        """As ``Reopen`` says. What clients see is the restart of a broker, on the same ports; without an ``asker``, of
        a role, their connections stay and wait meanwhile: Go's client waits for what it has asked on one that was
        closed, half a minute for a pull."""
        from rmqserver.broker.broker import Broker
        from rmqserver.metrics.broker_families import BrokerFamilies

        before, config, registration = self._broker, self._plan.broker, self._registration
        assert before is not None
        assert config is not None
        assert registration is not None
        assert self._broker_tasks is not None
        assert self._nursery is not None
        self._loop.pause(before, lambda each: each.may_wait if asker is None else each is asker)
        if asker is not None:
            await registration.unregister()
        self._broker_tasks.cancel_scope.cancel()
        await self._broker_ended.wait()
        if asker is None:
            before.answer_all()
        self._is_all_kept &= before.close()
        failure = None
        try:
            await trio.to_thread.run_sync(change)
        except OSError as error:
            failure = error
        except RocketMQError as error:
            await self._fail(error)
        self._broker = after = Broker(config, self._loop, registration, auth=self._plan.auth, set_state=self._set_state)
        self._sowing = None
        try:
            self._open_broker(after, config, sow=sow)
        except RocketMQError as error:
            await self._fail(error)
        self._prepare_for_tests()
        if self._watch_pages is not None:
            self._watch_pages.watch(after, BrokerFamilies(after.parts))
        if asker is None:  # of a role: whoever comes finds a broker that has it, since nothing is awaited behind this
            await self._nursery.start(self._run_broker, after)
            after.clients.take_over(before.clients)
            self._loop.hand_over(before, after)
        else:
            self._loop.hand_over(before, after)
            await self._nursery.start(self._run_broker, after)
        if self._sowing is not None and not await self._sow(self._sowing):
            self._nursery.cancel_scope.cancel()
        if asker is not None or self._is_registering:
            registration.changed(None)
            self._register(registration)
        if asker is not None:
            await registration.told()
        if failure is not None:
            raise failure

    async def _fail(self, error: RocketMQError) -> NoReturn:
        """Ends the server."""
        assert self._nursery is not None
        self._failure = error
        self._nursery.cancel_scope.cancel()
        await trio.sleep_forever()

    async def _sow(self, sowing: Sowing) -> bool:
        """False if a message of the seed was refused or lost. The error is kept: raised here, it would leave in an
        exception group."""
        try:
            await sowing.put_messages()
        except RocketMQError as error:
            self._failure = error
            return False
        return True

    def _close(self) -> bool:
        """False if something that should be on the device is not. Clients still get the answers that the broker gives
        as it ends."""
        self._loop.stop_listening()
        if self._local_set is not None:
            self._local_set.close()
        is_all_kept = self._is_all_kept
        if self._broker is not None:
            is_all_kept = self._broker.close() and is_all_kept
        if self._controller is not None:
            self._controller.close()
        if self._kv is not None:
            is_all_kept = self._kv.close() and is_all_kept
        self._loop.close()
        if self._ha_listener is not None:
            self._ha_listener.close()
        if self._temporary_store is not None:
            self._temporary_store.remove()
        return is_all_kept

    # --- start -------------------------------------------------------------------------------------------------------

    def _open_tls(self, settings: TlsSettings) -> None:
        """UsageError for a file that cannot be used."""
        if settings.door is None and settings.link is None:
            return
        from rmqserver.tls.door import TlsDoor, TlsLink  # 10 ms, most of it OpenSSL

        if settings.door is not None:
            self._door = TlsDoor(settings.door)
            certificate = settings.door.key_pair.cert_path if settings.door.key_pair else "self-signed"
            log.info(
                "event=tls-opened mode=%s certificate=%s client_auth=%s",
                settings.door.mode.value, certificate, settings.door.client_auth.value,
            )  # fmt: skip
        if settings.link is not None:
            self._link = TlsLink(settings.link)

    def _start_namesrv(self, config: NamesrvConfig) -> None:
        from rmqserver.namesrv.kv import KvConfig
        from rmqserver.namesrv.nameserver import Nameserver

        self._kv = KvConfig(Path(self._plan.kv_path) if self._plan.kv_path else None)
        self._kv.load()
        self._namesrv = Nameserver(config, self._kv, notices=self._make_notices())
        if self._plan.broker is None and config.auth_enabled:
            self._guard_alone(self._namesrv)
        port = self._listen(config.listen_port, self._namesrv)
        config.record({"listenPort": str(port)})
        self._namesrv_addr = join(local_host(self._plan.listen), port)
        log.info("event=namesrv-opened addr=%s kv_file=%s", self._namesrv_addr, self._plan.kv_path or "none")

    def _make_notices(self) -> Notices:
        from rmqserver.remoting.notices import Notices

        return Notices(self._loop, self._link.pump if self._link else plain_pump, self._plan.auth.inner_client)

    def _start_controller(self, config: ControllerConfig) -> None:
        from rmqserver.controller.controller import Controller
        from rmqserver.controller.role_notices import RoleNotices

        notices = RoleNotices(self._make_notices())
        self._controller = controller = Controller(
            config, self._controller_store(config), notices, self._registered_addr, wake=self._loop.wake
        )
        if self._plan.auth.is_authenticating:
            self._guard_alone(controller)
        # The port before the state, as of a broker: no connection is served before the loop runs.
        port = self._listen(config.listen_port, controller)
        self._advertised = self._advertise(port)
        controller.open()
        self._controller_addr = self._advertised.addr(local_host(self._plan.listen))
        config.record({"listenPort": str(port)})
        if len(config.controller_dleger_peers) < 2:
            peer = f"{config.controller_dleger_self_id}-{self._controller_addr}"
            config.record({"controllerDLegerPeers": peer})
        log.info(
            "event=controller-opened addr=%s state=%s broker_names=%d",
            self._controller_addr, ",".join(config.etcd_endpoints) or config.controller_store_path,
            len(controller.sets),
        )  # fmt: skip

    def _controller_store(self, config: ControllerConfig) -> ControllerStore:
        """UsageError for a URL that is none, and for what does not fit to get in there."""
        if not config.etcd_endpoints:
            from rmqserver.controller.event_log import EventLog
            from rmqserver.store.disk.disk import OsDisk

            return EventLog(config.controller_store_path, OsDisk())
        from rmqserver.controller.quorum.etcd_access import EtcdAccess
        from rmqserver.controller.quorum.etcd_gateway import EtcdGateway
        from rmqserver.controller.quorum.quorum_store import QuorumStore

        # One member may be lost without an answer, and another asked, before the lease ends.
        access = EtcdAccess(
            config.etcd_user_name, config.etcd_password_path, config.etcd_ca_path, config.etcd_cert_path,
            config.etcd_key_path,
        )  # fmt: skip
        gateway = EtcdGateway(config.etcd_endpoints, config.etcd_lease_ttl_s / 4, access)
        return QuorumStore(gateway, config.controller_dleger_group, config.etcd_lease_ttl_s)

    def _users_of_settings(self) -> AuthTable:
        """Those of a server that keeps no users."""
        from rmqserver.auth.auth_table import AuthTable

        table = AuthTable(None)
        table.init_super_user(self._plan.auth.init_user)
        table.init_super_user(self._plan.auth.inner_client)
        return table

    def _guard_alone(self, service: Service) -> None:
        """A nameserver or a controller that has no broker beside it."""
        self._guard(service, self._users_of_settings(), "")

    def _guard(self, service: Service, table: AuthTable, cluster: str) -> None:
        from rmqserver.auth.auth_gate import AuthGate

        service.guard(AuthGate(self._plan.auth, table, cluster, service.handlers))

    def _start_broker(self, config: BrokerConfig) -> None:
        from rmqserver.broker.broker import Broker
        from rmqserver.broker.registration import Registration

        self._store_dir = self._plan.store_dir or self._make_temporary_store()
        config.record(store_paths(self._store_dir))
        namesrv_addrs = [*filter(None, [self._namesrv_addr]), *config.namesrv_addresses]
        auth = self._plan.auth
        self._registration = Registration(
            config, self._loop, namesrv_addrs, self._registered_addr, self._link.pump if self._link else plain_pump,
            auth.inner_client,
        )  # fmt: skip
        if config.enable_controller_mode:
            self._member = self._make_member(config, self._registration)
        self._broker = broker = Broker(config, self._loop, self._registration, auth=auth, set_state=self._set_state)
        # The port before the store: a process that cannot have the port must not touch the store.
        asked_port = config.listen_port
        port = self._listen(asked_port, self._broker)
        if asked_port > FAST_PORT_DISTANCE:
            self._listen_fast(asked_port, self._broker)
        self._advertised = advertise = self._advertise(port)
        config.record({"listenPort": str(port), "brokerIP1": advertise.host or ""})
        self._listen_ha(config)
        self._broker_addr = advertise.addr(local_host(self._plan.listen))
        if self._namesrv is not None and advertise.is_each_peers_own:
            from rmqserver.namesrv.nameserver import OwnBroker

            self._namesrv.tell_each_peers_own(OwnBroker(self._broker_addr, advertise.port))
        self._open_broker(broker, config, sow=True)

    def _make_member(self, config: BrokerConfig, registration: Registration) -> SetMember:
        """It begins as a slave without a master. StorageError."""
        from rmqserver.broker.controlled.controllers import ControllerGroup
        from rmqserver.broker.controlled.member import SetMember
        from rmqserver.store.disk.disk import OsDisk

        controllers = ControllerGroup(self._loop, registration, lambda: config.controller_addresses)
        member = SetMember(config, controllers, lambda: self._registered_addr(controllers.local_host), OsDisk(), self)
        member.load()
        config.record({"brokerRole": BrokerRole.SLAVE.value, "brokerId": str(member.state.own_id or 1)})
        return member

    def _open_broker(self, broker: Broker, config: BrokerConfig, *, sow: bool) -> None:
        """StorageError; UsageError for a seed that is refused."""
        assert self._advertised is not None
        recovered = broker.open(self._advertised.record_host())
        if self._namesrv is not None and self._namesrv.config.auth_enabled:
            self._guard(self._namesrv, broker.auth, config.broker_cluster_name)
        self._log_broker(config, recovered)
        if self._plan.seed is not None and sow:
            from rmqserver.seed.sowing import Sowing

            store_host = broker.address.advertised_host or host_bytes("127.0.0.1", config.listen_port)
            self._sowing = Sowing(broker, self._plan.seed, store_host)
            self._sowing.put_tables()

    def _log_broker(self, config: BrokerConfig, recovered: Recovered) -> None:
        """In one line: what was opened, where, what was found, and what is promised (docs/durability.md)."""
        found = "new" if not recovered.end_offset else "clean" if recovered.was_clean else "killed"
        if self._temporary_store is not None:
            promise = "nothing is kept after the end"
        else:
            promise = _PROMISES[config.flush_mode].format(config.store_options().flush_interval_ms)
        log.info(
            "event=broker-opened name=%s cluster=%s addr=%s store=%s found=%s log_bytes=%d records_read=%d flush=%s "
            "promise=%r",
            config.broker_name, config.broker_cluster_name, self._broker_addr, self._store_dir, found,
            recovered.end_offset, recovered.replayed_count, config.flush_mode.name.lower(), promise,
        )  # fmt: skip

    def _prepare_for_tests(self) -> None:
        """Also for a broker that takes another one's place."""
        from rmqserver.faults.fault_admin import FAULT_CODES, FaultAdmin, NoTestRequests
        from rmqserver.faults.fault_gate import FaultGate
        from rmqserver.snapshots.store_admin import STORE_CODES, StoreAdmin

        services = [each for each in (self._namesrv, self._broker, self._controller) if each is not None]
        if self._faults is None:
            self._faults = FaultGate(self._loop, FAULT_CODES | STORE_CODES)
        self._faults.guard(services)
        if self._broker is None:
            return
        if self._plan.has_test_requests:
            if self._store_admin is None:
                assert self._store_dir is not None
                self._store_admin = StoreAdmin(self._store_dir, self._reopen)
            self._broker.add_handlers({**FaultAdmin(self._faults).handlers(), **self._store_admin.handlers()})
        else:
            self._broker.add_handlers(NoTestRequests().handlers())

    async def _open_watch_pages(self, host: str, port: int) -> None:
        from rmqserver.metrics.watch_pages import WatchPages

        families = None
        if self._broker is not None:
            from rmqserver.metrics.broker_families import BrokerFamilies

            families = BrokerFamilies(self._broker.parts)
        self._watch_pages = WatchPages(self._broker, families)
        self._metrics_addr = await self._watch_pages.listen(host, port)
        log.info("event=metrics-opened url=http://%s/metrics", self._metrics_addr)

    def _registered_addr(self, local: str) -> str:
        """What a peer is told that we reach from our address ``local``, or that has reached us there."""
        assert self._advertised is not None, "nobody is told before we listen"
        return self._advertised.addr(local)

    def _make_temporary_store(self) -> str:
        self._temporary_store = TemporaryStore()
        path = self._temporary_store.path
        log.warning("event=temporary-store dir=%s reason='no --data was given; removed at the end'", path)
        return path

    def _advertise(self, bound_port: int) -> Advertise:
        host, port = self._plan.advertise or (None, None)
        return Advertise(self._plan.listen, port or bound_port, host)

    def _make_pump(self) -> Pump:
        return self._door.pump() if self._door is not None else plain_pump()

    def _listen(self, port: int, service: Service) -> int:
        return self._loop.listen(self._plan.listen, port, service, make_pump=self._make_pump)

    def _listen_fast(self, port: int, broker: Broker) -> None:
        fast_port = port - FAST_PORT_DISTANCE
        try:
            self._loop.listen(self._plan.listen, fast_port, broker, main_port=port, make_pump=self._make_pump)
        except UsageError as error:
            log.info("event=no-fast-port port=%d reason=%r", fast_port, str(error))

    def _listen_ha(self, config: BrokerConfig) -> None:
        """Where slaves connect: one port above the broker's, or another free one if nobody said which. Who reaches it
        gets the whole log, unasked and plain: a broker that is guarded opens it only where slaves are meant to be."""
        from rmqserver.broker.replicas.ha_listener import open_ha_listener

        host = config.broker_ip2 if "brokerIP2" in config.given else config.broker_ip1
        port = config.ha_listen_port if "haListenPort" in config.given else None
        usual_port = config.listen_port + HA_PORT_DISTANCE
        is_guarded = self._plan.auth.asks or self._door is not None
        if is_guarded and not config.given & {"haListenPort", "brokerRole"}:
            log.info(
                "event=slaves-not-served reason='the broker is guarded, and neither brokerRole nor haListenPort is set'"
            )
        else:
            self._ha_listener = open_ha_listener(self._plan.listen, port, usual_port)
            usual_port = int(self._ha_listener.getsockname()[1])
            log.info("event=slaves-served addr=%s", join(self._plan.listen, usual_port))
        config.record({"haListenPort": str(usual_port), "brokerIP2": host})

    def _announce(self) -> None:
        """The ready line, on standard output and in the file. The file appears only when it is complete."""
        facts = {
            "event": "ready",
            "pid": os.getpid(),
            "namesrv_addr": self._namesrv_addr,
            "broker_addr": self._broker_addr,
            "controller_addr": self._controller_addr,
            "metrics_addr": self._metrics_addr,
            "store_dir": self._store_dir,
            "brokers": self._local_set
            and [
                {key: each[key] for key in ("broker_addr", "pid", "store_dir")}
                for _, each in sorted(self._local_set.brokers.items())
            ],
            "ready_ms": round((time.perf_counter() - self._started_s) * 1000),
        }
        line = json.dumps({name: fact for name, fact in facts.items() if fact is not None}) + "\n"
        if self._plan.ready_file is not None:
            path = Path(self._plan.ready_file)
            temporary = path.with_name(f"{path.name}.{os.getpid()}")
            temporary.write_text(line)
            temporary.replace(path)
        sys.stdout.write(line)
        sys.stdout.flush()
