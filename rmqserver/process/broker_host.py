"""The broker of this process, with its store and ports. A new broker replaces it when its role changes, and when a test
returns it to an earlier state."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from rmqproto.errors import RocketMQError, StorageError, UsageError
from rmqproto.ha import HA_PORT_DISTANCE
from rmqproto.hosts import join
from rmqproto.message.record import host_bytes
from rmqserver.broker.broker import Broker
from rmqserver.broker.registration import Registration
from rmqserver.broker.replicas.ha_master import open_ha_listener
from rmqserver.command_line import ServerPlan, store_paths
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.config.setting_values import BrokerRole
from rmqserver.core import NAME as CORE
from rmqserver.doors.grpc.grpc_door import NOT_INSTALLED, GrpcDoor, is_installed
from rmqserver.doors.remoting.broker_door import BrokerDoor
from rmqserver.process import Fail
from rmqserver.process.entrance import Entrance
from rmqserver.remoting.loop import Loop
from rmqserver.store.options import FlushMode

if TYPE_CHECKING:
    from rmqserver.broker.controlled.member import SetMember
    from rmqserver.process.namesrv_host import NamesrvHost
    from rmqserver.remoting.connection import Connection
    from rmqserver.seed.sowing import Sowing
    from rmqserver.store.message_store import MessageStore
    from rmqserver.store.recovery.recovery import Recovered

log = logging.getLogger(__name__)

ANNOUNCED_MAX_S = 4.0
"""How long to wait for the nameservers to know the broker before it is announced as ready. Their own timeouts are
shorter."""

ROOM_AGAIN_AFTER_S, ROOM_AGAIN_MAX_S = 1.0, 64.0
"""How often a broker whose disk was full looks for room. The wait doubles each time that the store fails again, because
free space does not show a quota or a lack of inodes."""

_PROMISES = {
    FlushMode.SYNC: "an acknowledged message survives kill -9 and a power cut",
    FlushMode.ASYNC: "an acknowledged message survives kill -9; a power cut may take the last {} ms",
}


def _doubled(again_after_s: float) -> float:
    return min(2 * again_after_s, ROOM_AGAIN_MAX_S)


def _may_open_again(store: MessageStore, member: SetMember | None) -> bool:
    return (member is None or member.may_open_store_again) and store.has_room_again()


class BrokerHost:
    """The ``Host`` of a member of a set. ``open``, ``start`` and ``serve`` it. At the end ``unregister`` and ``close``
    it, even if ``open`` failed, and close the HA port last."""

    core = CORE

    def __init__(
        self, config: BrokerConfig, plan: ServerPlan, store_dir: str, entrance: Entrance, loop: Loop,
        namesrv: NamesrvHost | None,
    ):  # fmt: skip
        """StorageError if the files of a member of a set cannot be used."""
        self._config = config
        self._plan = plan
        self._loop = loop
        self._entrance = entrance
        self._namesrv = namesrv
        self.store_dir = store_dir
        self.grpc_addr: str | None = None
        """The port for clients of gRPC, if there is one beside the broker's own."""
        config.record(store_paths(store_dir))
        self._ha_listener: socket.socket | None = None
        self._sowing: Sowing | None = None
        self._is_registering = False
        self._is_all_kept = True
        """Whether the brokers closed so far kept everything."""
        self._reopening = trio.Lock()
        self._ended = trio.Event()
        """Set when the tasks of the previous broker have ended."""
        self.on_door: list[Callable[[BrokerDoor], None]] = []
        """Called with the door of each new broker that replaces another, before it serves."""
        own_namesrv = [namesrv.addr] if namesrv is not None else []
        self._registration = Registration(
            config, loop, [*own_namesrv, *config.namesrv_addresses], entrance.registered_addr, entrance.make_link_pump,
            plan.auth.inner_client,
        )  # fmt: skip
        self._member = self._make_member() if config.enable_controller_mode else None
        self.door = self._make_door()

    @property
    def broker(self) -> Broker:
        """The one of now."""
        return self.door.broker

    def open(self) -> None:
        """UsageError if a port is not available or a seed is refused, StorageError if the store cannot be used."""
        self._listen()  # before the store: a process without the port must not touch the store
        self._open_broker(sow=True)

    def _make_door(self) -> BrokerDoor:
        state = self._member.state if self._member is not None else None
        broker = Broker(self._config, self._loop, self._registration, auth=self._plan.auth, set_state=state)
        door = BrokerDoor(broker, self._registration)
        self._grpc = GrpcDoor(broker, door.turned_away, door.gates_at, self._registration)
        door.other_doors["HTTP/2"] = self._grpc.take
        return door

    def _make_member(self) -> SetMember:
        """The member starts as a slave without a master. StorageError."""
        from rmqserver.broker.controlled.controllers import ControllerGroup
        from rmqserver.broker.controlled.member import SetMember
        from rmqserver.store.disk.disk import OsDisk

        config = self._config
        controllers = ControllerGroup(self._loop, self._registration, lambda: config.controller_addresses)
        member = SetMember(
            config, controllers, lambda: self._entrance.registered_addr(controllers.local_host), OsDisk(), self
        )
        member.load()
        config.record({"brokerRole": BrokerRole.SLAVE.value, "brokerId": str(member.state.own_id or 1)})
        return member

    # --- ports and store ---------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        asked_port = self._config.listen_port
        port = self._entrance.listen_twice(asked_port, self.door)
        self._advertise = self._entrance.advertise(port)
        self._config.record({"listenPort": str(port), "brokerIP1": self._advertise.host or ""})
        self._listen_ha()
        self._listen_grpc(is_usual_wanted=self._namesrv is not None and asked_port != 0)
        self.addr = self._entrance.advertised_addr()
        if self._namesrv is not None and self._advertise.is_each_peers_own:
            self._namesrv.nameserver.tell_each_peers_own(self.addr, self._advertise.port)

    def _listen_grpc(self, *, is_usual_wanted: bool) -> None:
        """Opens a port for clients of gRPC beside the broker's own, which takes them as well, if a setting names one;
        or the usual one, which examples of such clients name, if it is free."""
        config = self._config
        is_given = "grpcServerPort" in config.given
        if is_given and not is_installed():
            raise UsageError(f"grpcServerPort={config.grpc_server_port}: {NOT_INSTALLED}")
        if not is_given and not (is_usual_wanted and is_installed()):
            return
        try:
            port = self._entrance.listen(config.grpc_server_port, self.door, main_port=config.listen_port)
        except UsageError as error:
            if is_given:
                error.hint = "choose another grpcServerPort, or leave it out: the broker's own port takes these clients"
                raise
            log.info("event=no-grpc-port port=%d reason=%r", config.grpc_server_port, str(error))
        else:
            self.grpc_addr = self._entrance.local_addr(port)

    def _listen_ha(self) -> None:
        """Opens the port for slaves: one above the broker's, or another free one if no setting names it. A peer that
        reaches it gets the whole log, unencrypted and without authentication. So a guarded broker opens it only if its
        settings expect slaves."""
        config, listen = self._config, self._plan.listen
        host = config.broker_ip2 if "brokerIP2" in config.given else config.broker_ip1
        port = config.ha_listen_port if "haListenPort" in config.given else None
        usual_port = config.listen_port + HA_PORT_DISTANCE
        if self._entrance.is_guarded and not config.given & {"haListenPort", "brokerRole"}:
            log.info(
                "event=slaves-not-served reason='the broker is guarded, and neither brokerRole nor haListenPort is set'"
            )
        else:
            self._ha_listener = open_ha_listener(listen, port, usual_port)
            usual_port = int(self._ha_listener.getsockname()[1])
            log.info("event=slaves-served addr=%s", join(listen, usual_port))
        config.record({"haListenPort": str(usual_port), "brokerIP2": host})

    def _open_broker(self, *, sow: bool) -> None:
        """Opens the broker on its store, with the tables of the seed. StorageError; UsageError for a seed that is
        refused."""
        broker, config = self.broker, self._config
        recovered = self.door.open(self._advertise.record_host())
        if self._namesrv is not None and self._namesrv.takes_brokers_users:
            self._entrance.guard(self._namesrv.nameserver, broker.auth, config.broker_cluster_name)
        self._log_opened(recovered)
        self._sowing = None
        if self._plan.seed is not None and sow:
            from rmqserver.seed.sowing import Sowing

            store_host = broker.address.advertised_host or host_bytes("127.0.0.1", config.listen_port)
            self._sowing = Sowing(broker, self._plan.seed, store_host)
            self._sowing.put_tables()

    def _log_opened(self, recovered: Recovered) -> None:
        """Logs in one line what was opened, where, what was found, and what is promised (docs/durability.md)."""
        config = self._config
        found = "new" if not recovered.end_offset else "clean" if recovered.was_clean else "killed"
        if self._plan.store_dir is None:
            promise = "nothing is kept after the end"
        else:
            promise = _PROMISES[config.flush_mode].format(config.store_options().flush_interval_ms)
        log.info(
            "event=broker-opened name=%s cluster=%s addr=%s store=%s found=%s log_bytes=%d records_read=%d flush=%s "
            "promise=%r",
            config.broker_name, config.broker_cluster_name, self.addr, self.store_dir, found, recovered.end_offset,
            recovered.replayed_count, config.flush_mode.name.lower(), promise,
        )  # fmt: skip

    # --- tasks -------------------------------------------------------------------------------------------------------

    async def start(self, nursery: trio.Nursery, fail: Fail) -> None:
        self._nursery = nursery
        self._fail = fail
        await nursery.start(self._run, self.door)

    async def serve(self) -> None:
        """Puts the seed, and has the broker registered; for a member of a set, its role decides when."""
        await self._sow()
        self._nursery.start_soon(self._reopen_when_there_is_room)
        if self._member is not None:
            self._nursery.start_soon(self._member.run)
            return
        self._register()
        with trio.move_on_after(ANNOUNCED_MAX_S):
            await self._registration.first_round()

    async def _run(self, door: BrokerDoor, task_status: trio.TaskStatus[None]) -> None:
        """Runs the tasks of one broker until ``_tasks`` is cancelled."""
        self._ended = trio.Event()
        async with trio.open_nursery() as self._tasks:
            self._tasks.start_soon(door.run)
            self._tasks.start_soon(self._grpc.run)
            if self._ha_listener is not None:
                self._tasks.start_soon(door.broker.replicas.serve, self._ha_listener)
            task_status.started()
        self._ended.set()

    async def _sow(self) -> None:
        """A message of the seed that is refused or lost ends the server."""
        if self._sowing is not None:
            try:
                await self._sowing.put_messages()
            except RocketMQError as error:
                await self._fail(error)

    def _register(self) -> None:
        self._is_registering = True
        self._tasks.start_soon(self._registration.run, self.broker.topics)

    # --- another broker in its place ---------------------------------------------------------------------------------

    def role_is_known(self) -> None:
        if not self._is_registering:
            self._register()

    def hold_clients(self) -> None:
        """The slaves that watch tables are served: the next master copies them now."""
        watch = self.broker.table_watch
        goes_on = watch.is_watching if watch is not None else lambda each: False
        self._loop.pause(self.door, lambda each: True, goes_on)

    def release_clients(self) -> None:
        self._loop.resume(self.door)

    async def change_role(self, role: BrokerRole, broker_id: int, change: Callable[[], None] | None) -> None:
        """See ``Host``. Until the new broker is there, the nameservers know the broker under its old id. Connections
        stay open and wait, so that peers find a broker with the new role. Closing them is no option: Go's client goes
        on waiting for answers on a closed connection, half a minute for a pull."""
        self._config.record({"brokerRole": role.value, "brokerId": str(broker_id)})
        before = self.door
        self._loop.pause(before, lambda each: each.may_wait)
        await self._end_tasks()
        before.broker.answer_all()
        failure = await self._change_files(change or (lambda: None))
        after = await self._replace(sow=False)
        await self._nursery.start(self._run, after)
        after.broker.clients.take_over(before.broker.clients)
        self._loop.hand_over(before, after)  # nothing was awaited since ``after`` runs
        if self._is_registering:
            self._registration.changed(None)
            self._register()
        if failure is not None:
            raise failure

    async def _reopen_when_there_is_room(self) -> None:
        """Once a write has failed, only the opening of the store finds out what the device holds. If only room was
        missing, nobody has to start the broker for that."""
        again_after_s = ROOM_AGAIN_AFTER_S
        while True:
            await trio.sleep(again_after_s)
            store = self.broker.store
            if not store.flags.has_write_failed:
                again_after_s = ROOM_AGAIN_AFTER_S
            elif _may_open_again(store, self._member):
                again_after_s = _doubled(again_after_s)
                log.warning("event=store-opens-again reason=%r", store.flags.reason)
                if self._member is None:
                    await self.reopen(None, lambda: None, sow=False)
                else:
                    await self._member.open_store_again()

    async def reopen(self, asker: Connection | None, change: Callable[[], None], *, sow: bool) -> None:
        """See ``Reopen``. Clients see the restart of a broker on the same ports."""
        async with self._reopening:
            before = self.door
            self._loop.pause(before, lambda each: each is asker)
            await self._registration.unregister()
            await self._end_tasks()
            failure = await self._change_files(change)
            after = await self._replace(sow=sow)
            self._loop.hand_over(before, after)
            await self._nursery.start(self._run, after)
            await self._sow()
            self._registration.changed(None)
            self._register()
            await self._registration.told()
        if failure is not None:
            raise failure

    async def _end_tasks(self) -> None:
        self._tasks.cancel_scope.cancel()
        await self._ended.wait()

    async def _change_files(self, change: Callable[[], None]) -> OSError | None:
        """Closes the broker, then changes its files."""
        self._is_all_kept &= self.broker.close()
        try:
            await trio.to_thread.run_sync(change)
        except OSError as error:
            return error
        except RocketMQError as error:
            await self._fail(error)
        return None

    async def _replace(self, *, sow: bool) -> BrokerDoor:
        """A slave of a set whose disk is too full to open its store waits for room, as one that does not follow. Any
        other broker ends if it cannot open its store: a master that waited would keep the set from having another."""
        waits = self._member is not None and self._config.broker_role is BrokerRole.SLAVE
        before, again_after_s = self.door, ROOM_AGAIN_AFTER_S
        while True:
            self.door = after = self._make_door()
            try:
                self._open_broker(sow=sow)
                break
            except RocketMQError as error:
                if not (waits and isinstance(error, StorageError) and error.lacks_room):
                    await self._fail(error)
                log.error("event=store-waits-for-room reason=%r again_after_s=%d", str(error), again_after_s)
            self.door = before  # closed, but heartbeats tell its offsets
            await trio.sleep(again_after_s)
            again_after_s = _doubled(again_after_s)
        for tell in self.on_door:
            tell(after)
        return after

    # --- the end -----------------------------------------------------------------------------------------------------

    async def unregister(self) -> None:
        if self._is_registering:
            await self._registration.unregister()

    def close(self) -> bool:
        """False if something that should be on the device is not. Clients still get the answers that the broker gives
        as it ends."""
        return self.broker.close() and self._is_all_kept

    def close_ha(self) -> None:
        if self._ha_listener is not None:
            self._ha_listener.close()
