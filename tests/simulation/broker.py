"""A broker of a set: the product's ``SetMember`` with all of its tasks, and the broker that it opens in each role -
``SetMaster`` and ``SetSlave``, the puts that wait for copies, the refusals of puts - around a modelled log and modelled
requests. It replaces ``broker_host.py`` and ``broker.py`` of a real broker."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers.controller import HaInfoHeader
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.config.setting_values import BrokerRole
from rmqserver.operation import Refused
from rmqserver.store.options import FlushMode
from rmqserver.store.recovery.recovery import Recovered
from tests.crash.recording_disk import Loss, RecordingDisk
from tests.simulation import tasks
from tests.simulation.network import Network, Stream, connected
from tests.simulation.stored_log import RECORD_BYTES, LogOnDisk, OpenStore
from tests.simulation.world import Machine, World

CLUSTER, NAME = "c", "a"
ROOT = "/broker"
PUT_EXPIRY_EVERY_S = 0.5
ROOM_AGAIN_AFTER_S = 1.0
TOLD_TO_EMPTY = "empty this broker's store"


@functools.cache
def settings(machine_name: str, text: str) -> BrokerConfig:
    """Cached for all seeds, since parsing takes longer than simulating a hundred seconds."""
    return BrokerConfig.from_properties(
        f"enableControllerMode=true\nbrokerClusterName={CLUSTER}\nbrokerName={NAME}\nstorePathRootDir={ROOT}\n"
        f"slaveReadEnable=true\n{text}"
    )


class Answered(NamedTuple):
    """The outcome of a put: a code, and whether it was refused before anything was stored."""

    code: int
    is_refused: bool


OnAnswer = Callable[[Answered], None]


class SimulatedBroker(Machine):
    """``on_opened`` is called when it has opened a role; ``on_acknowledged``, with the message and its log offset,
    before a producer is answered with 0; ``on_held`` when it lets its clients wait."""

    def __init__(self, world: World, network: Network, product: Any, name: str, settings_text: str, flush: FlushMode):
        super().__init__(world, name)
        network.machines[name] = self
        self.network = network
        self.product = product
        self.settings_text = settings_text
        self.flush_mode = flush
        self.disk = RecordingDisk()
        self.log_on_disk = LogOnDisk()
        self.streams: dict[Stream, None] = {}
        self.on_opened: Callable[[SimulatedBroker], None] = lambda broker: None
        self.on_acknowledged: Callable[[SimulatedBroker, int, int], None] = lambda broker, message, offset: None
        self.on_lost: Callable[[list[int]], None] = lambda messages: None
        self.on_held: Callable[[SimulatedBroker], None] = lambda broker: None

    # --- its life ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.is_up, self.is_held = True, False
        self.config = settings(self.name, self.settings_text)
        controllers = self.product.controllers.ControllerGroup(self, _Outward, lambda: self.config.controller_addresses)
        self.member = self.product.member.SetMember(self.config, controllers, lambda: f"{self.name}:1", self.disk, self)
        self.member.load()
        own_id = self.member.state.own_id or 1
        self.config.record({"brokerRole": BrokerRole.SLAVE.value, "brokerId": str(own_id)})
        tasks.spawn(self, self._run)

    async def _run(self) -> None:
        self._open()
        async with tasks.open_nursery() as self.nursery:
            self._serve()
            self.nursery.start_soon(self._reopen_when_there_is_room)
            self.nursery.start_soon(self.member.run)

    async def _reopen_when_there_is_room(self) -> None:
        """As in ``broker_host.py``."""
        while True:
            await tasks.sleep(ROOM_AGAIN_AFTER_S)
            store = self.opened.store
            if store.flags.has_only_lacked_room and not store.lack_of_room() and self.member.may_open_store_again:
                await self.member.open_store_again()

    def kill(self, *, is_power_cut: bool) -> None:
        if not is_power_cut:
            for stream in self.streams:
                stream.end()
        self.streams.clear()
        self.life += 1
        self.is_up = self.is_frozen = False
        self.log_on_disk.was_closed = False
        if is_power_cut:
            self.disk = self.disk.image(self.world.random.choice(list(Loss)), self.world.random)
            self.on_lost(self.log_on_disk.cut_power(self.world.random))
        for controller in self.controllers:
            controller.caller_died(self, is_silent=is_power_cut)
        tasks.kill(self)

    def empty_if_told(self) -> None:
        """Does what the log tells an operator to do with a broker whose log has no epoch in common with its
        master's."""
        if not self.is_up or self.opened.slave is None or TOLD_TO_EMPTY not in self.opened.slave.log.problem:
            return
        self.world.note("operator", f"empties the store of {self.name}")
        self.kill(is_power_cut=False)
        self.log_on_disk = LogOnDisk()
        self.disk.unlink(f"{ROOT}/epochFileCheckpoint")
        self.disk.unlink(f"{ROOT}/epochFileCheckpoint.bak")
        self.start()

    controllers: tuple[Any, ...] = ()
    """All controllers that may have a connection from this broker."""

    # --- Host --------------------------------------------------------------------------------------------------------

    @property
    def broker(self) -> OpenBroker:
        return self.opened

    def role_is_known(self) -> None:
        """Nameservers are not simulated."""

    def hold_clients(self) -> None:
        self.is_held = True
        self.on_held(self)

    def release_clients(self) -> None:
        self.is_held = False

    async def change_role(self, role: BrokerRole, broker_id: int, change: Callable[[], None] | None) -> None:
        self.config.record({"brokerRole": role.value, "brokerId": str(broker_id)})
        self._tasks.cancel_scope.cancel()
        await self._ended.wait()
        self._close()
        await tasks.sleep(0.005 + 0.2 * self.world.random.random() ** 3)
        if change is not None:
            change()
        self._open()
        self.is_held = False
        self._serve()

    def _close(self) -> None:
        """After a failed flush the device may lack the log's end."""
        self.opened.close()
        self.log_on_disk.was_closed = not self.opened.store.flags.has_write_failed
        if not self.log_on_disk.was_closed:
            self.on_lost(self.log_on_disk.cut_power(self.world.random))

    def cut_log(self, log_offset: int) -> None:
        self.log_on_disk.cut(log_offset)

    def _open(self) -> None:
        disk = self.log_on_disk
        disk.recover()
        self.opened = OpenBroker(self)
        end = len(disk.data)
        recovered = Recovered(0, end, end, max(end - RECORD_BYTES, 0), 0, 0, disk.was_closed)
        disk.was_closed = False
        state = self.member.state
        state.opened(recovered, 0)
        if state.sync_set is not None:
            self.opened.replicas.hold_back()
        self.on_opened(self)

    def _serve(self) -> None:
        self._ended = tasks.Event()
        self.nursery.start_soon(self._run_broker, self.opened)

    async def _run_broker(self, opened: OpenBroker) -> None:
        async with tasks.open_nursery() as self._tasks:
            if opened.slave is not None:
                self._tasks.start_soon(opened.slave.log.run)
            else:
                self._tasks.start_soon(opened.expire_puts)
        self._ended.set()

    # --- connections -------------------------------------------------------------------------------------------------

    async def connect(self, service: Any, addr: str) -> Any:
        """Connects to a controller."""
        controller = await self.network.reach(self, addr)
        return controller.connected(self, service)

    async def open_stream(self, addr: str) -> Stream:
        """Connects to a master, as its slave."""
        master: SimulatedBroker = await self.network.reach(self, addr)
        near, far = connected(self.network, self, master)
        self.streams[near] = None
        self.network.send(self, master, lambda: master.soon(lambda: master.accept(far)))
        return near

    def accept(self, stream: Stream) -> None:
        self.streams[stream] = None
        if self._ended.is_set() or self._tasks.cancel_scope.cancel_called:
            stream.end()
        else:
            self._tasks.start_soon(self.opened.replicas._serve, stream)

    # --- clients -----------------------------------------------------------------------------------------------------

    def put(self, message: int, on_answer: OnAnswer) -> None:
        if hasattr(self, "opened") and not self.is_held:  # clients that wait are not simulated: it is lost
            self.opened.put(message, on_answer)

    @property
    def shown_end(self) -> int:
        """Log offset up to which readers see its log."""
        opened = self.opened
        may_be_read = opened.slave is None or opened.slave.log.may_be_read
        return opened.store.confirmed_offset if may_be_read else 0

    @property
    def is_master(self) -> bool:
        return self.is_up and self.member.state.sync_set is not None and not self.member.state.is_fenced


class OpenBroker:
    """A broker in one role (``ServedBroker``): ``Broker`` and its handlers."""

    def __init__(self, host: SimulatedBroker):
        product, state, config = host.product, host.member.state, host.config
        self.host = host
        self.config = config
        self.epoch = state.master_epoch
        self.store: Any = OpenStore(product, host, host.log_on_disk, host.flush_mode, self._grown, self._flushed)
        self.replicas = product.set_master.SetMaster(config, self.store, state)
        self.pending = product.pending.PendingPuts(self.store, _Stats, self.replicas)
        self.replicas.on_report = self.pending.settle
        self.replicas.on_need = self._need_changed
        self.table_watch = None  # no tables here
        self.slave: _Slave | None = None
        if config.broker_role is BrokerRole.SLAVE:
            self.slave = _Slave(host, product.set_slave.SetSlave(config, self.store, state.epochs, state.cut))
        handlers = product.role_answers.MemberRequests(state, self.replicas)
        code = RequestCode.SEND_MESSAGE_V2
        self._guarded_put = handlers.handlers({code: self._put})[code]
        self._need_changed()

    def _need_changed(self) -> None:
        self._knows_safe = self.pending.knows_safe

    def _grown(self) -> None:
        if self.replicas.waiting:
            self.replicas.grown()

    def _flushed(self) -> None:
        self.pending.settle()

    def put(self, message: int, on_answer: OnAnswer) -> None:
        if self.slave is not None:
            on_answer(Answered(2, True))
            return
        try:
            self._guarded_put((message, on_answer), None)
        except Refused as refusal:
            on_answer(Answered(refusal.code, True))

    def _put(self, request: tuple[int, OnAnswer], connection: None) -> None:
        message, on_answer = request
        if reason := self.store.why_not_writeable():
            raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, reason)
        log_offset = self.store.append(message)

        def done(outcome: Any) -> None:
            if outcome.code == 0:
                self.host.on_acknowledged(self.host, message, log_offset)
            on_answer(Answered(outcome.code, False))

        self.pending.wait(done, until_safe=self._knows_safe)
        self.pending.end_round()

    async def expire_puts(self) -> None:
        while True:
            await tasks.sleep(PUT_EXPIRY_EVERY_S)
            timeouts_ms = self.config.sync_flush_timeout_ms, self.config.slave_timeout_ms
            self.pending.expire(self.host.monotonic_s(), *(timeout / 1000 for timeout in timeouts_ms))

    def close(self) -> None:
        self.store.close()
        self.pending.settle()


class _Slave:
    """The parts of ``Slave`` that ``SetMember`` uses."""

    def __init__(self, host: SimulatedBroker, log: Any):
        self.log = log
        self.master_addr: str | None = None
        self.topics_known_until = None  # no topics here
        self._host = host

    async def ask_ha_info(self, addr: str) -> HaInfoHeader:
        master: SimulatedBroker = await self._host.network.reach(self._host, addr)
        return HaInfoHeader(master_ha_address=addr if master.opened.slave is None else None)

    def take_master(self, addr: str, ha_addr: str) -> None:
        self.master_addr = addr
        self.log.follow(ha_addr)


class _Times:
    @staticmethod
    def note(time_us: int, count: int) -> None: ...


class _Stats:
    put_times = _Times
    put_failed = 0


class _Outward:
    credentials = None

    @staticmethod
    def make_pump() -> None: ...
