"""A master and its slaves without controllers, and their nameserver: the product's ``Slave`` with ``HaSlave``,
``MetadataCopy`` and ``SlaveOffsets``, the master's ``HaMaster`` and ``PreOnline``, ``KnownMembers`` and
``Registration`` of both, and ``Nameserver`` with its ``RouteTable``; requests and answers are real frames. Modelled are
the parts that ``__init__.py`` names, and the tables of topics and groups, which never change."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

from rmqproto.bodies.base import DataVersion
from rmqproto.bodies.groups import SubscriptionGroups
from rmqproto.bodies.popping import RequestModes
from rmqproto.bodies.routes import TopicConfig, TopicConfigs
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import RocketMQError
from rmqproto.ha import MASTER_ID
from rmqproto.headers.consuming import QueryConsumerOffsetHeader, UpdateConsumerOffsetHeader, ViewMessageHeader
from rmqproto.names import member_group_topic
from rmqproto.wire.fastjson import dumps
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.config.namesrv_config import NamesrvConfig
from rmqserver.namesrv.kv import KvConfig
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request, success
from rmqserver.remoting.service import Handler, Service
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.options import FlushMode
from tests.crash.recording_disk import Loss, RecordingDisk
from tests.simulation import tasks
from tests.simulation.broker import CLUSTER, NAME, PUT_EXPIRY_EVERY_S, ROOT, Answered, OnAnswer
from tests.simulation.network import Network, Served, Stream, connected
from tests.simulation.stored_log import LogOnDisk, OpenStore, messages
from tests.simulation.world import World

TOPIC, NAMESERVER = "T", "n0"
FLUSH_OFFSETS_S = 1.0
PULL_COUNT = 8

_NAMESRV = NamesrvConfig.from_properties(
    "supportActingMaster=true\nnotifyMinBrokerIdChanged=true\nscanNotActiveBrokerInterval=500\n"
)
_COMMON = (
    f"brokerClusterName={CLUSTER}\nbrokerName={NAME}\nstorePathRootDir={ROOT}\nenableSlaveActingMaster=true\n"
    "timerWheelEnable=false\nbrokerHeartbeatInterval=500\nsyncBrokerMemberGroupPeriod=500\n"
    "syncBrokerMetadataPeriod=1000\nbrokerNotActiveTimeoutMillis=2000\nhaSendHeartbeatInterval=500\n"
    f"haHousekeepingInterval=3000\nflushConsumerOffsetInterval={FLUSH_OFFSETS_S * 1000:.0f}\n"
)


@functools.cache
def settings(name: str, text: str) -> BrokerConfig:
    return BrokerConfig.from_properties(f"{_COMMON}brokerIP2={name}\n{text}")


class SimulatedNameserver(Served):
    """Forgets everything when it ends."""

    def __init__(self, world: World, network: Network, product: Any):
        super().__init__(world, network, NAMESERVER)
        self.known_since_s: dict[str, float] = {}
        """For each known address, when it was registered first."""
        self._product = product

    def start(self) -> None:
        self.is_up = True
        self.service = self._product.nameserver.Nameserver(_NAMESRV, KvConfig(), self.monotonic_s, _Notices(self))
        routes = self.service.routes
        register, unregister = routes.register, routes.unregister

        def registered(new: Any, peer: Any) -> Any:
            self.known_since_s.setdefault(new.addr, self.world.now_s)
            return register(new, peer)

        def unregistered(key: Any, name: str) -> None:
            self.known_since_s.pop(key.addr, None)
            unregister(key, name)

        routes.register, routes.unregister = registered, unregistered
        tasks.spawn(self, self.service.run)

    def kill(self, *, is_power_cut: bool) -> None:
        self.life += 1
        self.is_up = self.is_frozen = False
        self.known_since_s.clear()
        self.end_connections(is_silent=is_power_cut)
        tasks.kill(self)

    @property
    def members(self) -> dict[int, str]:
        found: dict[int, str] = self.service.routes.member_addrs(CLUSTER, NAME)
        return found


class _Notices:
    def __init__(self, nameserver: SimulatedNameserver):
        self._nameserver = nameserver

    async def run(self) -> None:
        await tasks.sleep_forever()

    def post(self, addr: str, code: int, header: object) -> None:
        """The broker asks the nameserver itself, whatever the notice says."""
        network = self._nameserver.network
        broker = network.machines[addr.partition(":")[0]]
        network.post(self._nameserver, broker, lambda: broker.members.look_again())


class ActingBroker(Served):
    """``on_acknowledged`` is called with each message that is answered with 0, and its log offset; ``on_online`` when a
    master is about to register with the nameservers, with the time when it began to ask its slaves; ``on_lost`` with
    the messages that a power cut took from the log."""

    def __init__(
        self, world: World, network: Network, product: Any, name: str, broker_id: int, settings_text: str,
        flush: FlushMode,
    ):  # fmt: skip
        super().__init__(world, network, name)
        role = "" if broker_id == MASTER_ID else f"brokerRole=SLAVE\nbrokerId={broker_id}\n"
        self.config = settings(name, settings_text + role)
        self.broker_id = broker_id
        self.disk = RecordingDisk()
        self.log_on_disk = LogOnDisk()
        self.streams: dict[Stream, None] = {}
        self.snapshots = self.saved_snapshot = 0
        """Snapshots of the offsets: how many were begun, and the number of the newest on the device."""
        self.saved_in: dict[int, int] = {}
        """The newest snapshot on the device, for each life that has ended."""
        self.on_acknowledged: Callable[[ActingBroker, int, int], None] = lambda broker, message, offset: None
        self.on_online: Callable[[ActingBroker, float], None] = lambda broker, begin_s: None
        self.on_lost: Callable[[list[int]], None] = lambda messages: None
        self.on_killed: Callable[[], None] = lambda: None
        self._product = product
        self._flush = flush

    @property
    def is_master(self) -> bool:
        return self.is_up and self.broker_id == MASTER_ID

    # --- its life ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.is_up = True
        self.is_online = False
        product, disk = self._product, self.log_on_disk
        disk.recover()
        self.store: Any = OpenStore(
            product, self, disk, self._flush, self._grown, self._flushed, waits_for_copies=False
        )
        self.files = ConfigFiles(f"{ROOT}/config", self.disk, background=False)
        self.files.save = self._save_soon  # type: ignore[method-assign]
        self.slave: Any = None
        self.replicas = product.ha_master.HaMaster(self.config, self.store)
        self.pending = product.pending.PendingPuts(self.store, _Stats, self.replicas)
        self.replicas.on_report = self.pending.settle
        is_slave = self.broker_id != MASTER_ID
        made = product.slave_offsets.SlaveOffsets if is_slave else product.offsets.ConsumerOffsets
        self.offsets = made(self.files, lambda: int(self.wall_s() * 1000))
        self.offsets.load()
        if not is_slave:
            product.slave_offsets.forget_notes(self.files)
        if not disk.was_closed:
            self.offsets.hold_back(self.store.max_offset)
        disk.was_closed = False
        self.registration = product.registration.Registration(
            self.config, self, [f"{NAMESERVER}:1"], lambda host: f"{self.name}:1"
        )
        self.members = product.members.KnownMembers(self.config, self.registration, lambda: TOPICS.data_version)
        self._make_parts(is_slave)
        tasks.spawn(self, self._run)

    def _make_parts(self, is_slave: bool) -> None:
        product = self._product
        parts = SimpleNamespace(
            config=self.config, store=self.store, files=self.files, topics=TOPICS, groups=_Groups, mappings=_Mappings,
            offsets=self.offsets, replicas=self.replicas, clients=None, former_brokers=None,
            address=SimpleNamespace(ip=lambda local_addr: self.name),
            timer_store=SimpleNamespace(check_path=f"{ROOT}/timercheck"),
        )  # fmt: skip
        self.offset_handlers = product.committed_offsets.OffsetHandlers(parts)
        handlers = self._handlers(product.offset_admin.OffsetAdmin(parts, _Delays))
        if is_slave:
            self.slave = product.slave.Slave(parts, self._make_link, product.ha_slave.HaSlave(self.config, self.store))
            self.slave.load()
            handlers |= self.slave.handlers(handlers)
            self.registration.when_master_is_known(self.slave.take_master)
            self.members.on_found = self.slave.members_found
        else:
            own_addr = self.registration.own_addr
            self.pre_online = product.pre_online.PreOnline(parts, self.members, self._make_link, own_addr)
            handlers |= self.pre_online.handlers(handlers)
            self.registration.before_return = self.pre_online.run
        self.service = Service("broker", handlers)
        self._put = handlers[RequestCode.SEND_MESSAGE_V2]
        self._pull = handlers[RequestCode.PULL_MESSAGE]

    def _handlers(self, offset_admin: Any) -> dict[int, Handler]:
        code = RequestCode
        topics = TopicConfigs(data_version=TOPICS.data_version, topic_config_table=dict(TOPICS.all()))
        return {
            **self.offset_handlers.handlers(),
            code.GET_ALL_CONSUMER_OFFSET: offset_admin.all_offsets,
            code.GET_ALL_DELAY_OFFSET: offset_admin.delay_offsets,
            code.GET_ALL_TOPIC_CONFIG: lambda request, _: success(request, body=dumps(topics)),
            code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: lambda request, _: success(request, body=dumps(_Groups.body)),
            code.GET_ALL_MESSAGE_REQUEST_MODE: lambda request, _: success(request, body=dumps(RequestModes())),
            code.GET_BROKER_HA_STATUS: lambda request, _: success(request, body=dumps(self.replicas.status())),
            code.VIEW_MESSAGE_BY_ID: self._record_at,  # type: ignore[dict-item]
            code.EXCHANGE_BROKER_HA_INFO: lambda request, _: success(request),
            code.INVOKE_BROKER_TO_RESET_OFFSET: lambda request, _: success(request),
            code.SEND_MESSAGE_V2: self._take,  # type: ignore[dict-item]
            code.PULL_MESSAGE: self._read,  # type: ignore[dict-item]
            code.LITE_PULL_MESSAGE: self._read,  # type: ignore[dict-item]
        }

    def _record_at(self, request: Request[ViewMessageHeader], connection: None) -> bytes:
        log_offset = request.header.offset
        record = self.store.get_record(log_offset)
        if record is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {log_offset}")
        return success(request, body=record)

    def _make_link(self) -> Any:
        return self._product.master_link.MasterLink(self, None)

    async def _run(self) -> None:
        async with tasks.open_nursery() as self.nursery:
            self.nursery.start_soon(self.members.run)
            self.nursery.start_soon(self._save_offsets)
            if self.slave is not None:
                self.nursery.start_soon(self.slave.run)
                self.nursery.start_soon(self.registration.run, TOPICS, _Mappings)
            else:
                self.nursery.start_soon(self._expire_puts)
                await self._come_back()

    async def _come_back(self) -> None:
        begin_s = self.world.now_s
        await self.pre_online.run()
        self.is_online = True
        self.on_online(self, begin_s)
        self.nursery.start_soon(self.registration.run, TOPICS, _Mappings)
        await self.pre_online.take_late_commits()

    async def _save_offsets(self) -> None:
        while True:
            await tasks.sleep(FLUSH_OFFSETS_S)
            self.offsets.save()

    def _save_soon(self, name: str, document: Any) -> None:
        """Saves with a delay, like the thread of ``ConfigFiles``."""
        ConfigFiles.save(self.files, name, document)
        self.snapshots += 1
        snapshot = self.snapshots

        def save() -> None:
            self.files.wait_until_saved()
            self.saved_snapshot = max(self.saved_snapshot, snapshot)

        self.after(0.02 * self.world.random.random(), save)

    def kill(self, *, is_power_cut: bool) -> None:
        self.saved_in[self.life] = self.saved_snapshot
        self.on_killed()
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
        self.end_connections(is_silent=is_power_cut)
        for machine in self.network.machines.values():
            if machine is not self:
                machine.caller_died(self, is_silent=is_power_cut)
        tasks.kill(self)

    # --- connections -------------------------------------------------------------------------------------------------

    async def connect(self, service: Any, addr: str) -> Any:
        return (await self.network.reach(self, addr)).connected(self, service)

    async def open_stream(self, addr: str) -> Stream:
        """Connects to a master, as its slave."""
        master: ActingBroker = await self.network.reach(self, addr)
        near, far = connected(self.network, self, master)
        self.streams[near] = None
        self.network.send(self, master, lambda: master.soon(lambda: master.accept(far)))
        return near

    def accept(self, stream: Stream) -> None:
        self.streams[stream] = None
        self.nursery.start_soon(self.replicas._serve, stream)

    # --- clients -----------------------------------------------------------------------------------------------------

    def put(self, message: int, on_answer: OnAnswer) -> None:
        try:
            self._put((message, on_answer), None)  # type: ignore[arg-type]
        except Refused as refusal:
            on_answer(Answered(refusal.code, True))

    def _take(self, request: tuple[int, OnAnswer], connection: None) -> None:
        message, on_answer = request
        log_offset = self.store.append(message)

        def done(outcome: Any) -> None:
            if outcome.code == 0:
                self.on_acknowledged(self, message, log_offset)
            on_answer(Answered(outcome.code, False))

        self.pending.wait(done, until_safe=self.pending.knows_safe)
        self.pending.end_round()

    async def _expire_puts(self) -> None:
        while True:
            await tasks.sleep(PUT_EXPIRY_EVERY_S)
            timeouts_ms = self.config.sync_flush_timeout_ms, self.config.slave_timeout_ms
            self.pending.expire(self.monotonic_s(), *(timeout / 1000 for timeout in timeouts_ms))

    def pull(self, queue_offset: int) -> tuple[int, list[int]] | None:
        """Returns where the next pull begins, and the messages; None if the pull is refused."""
        try:
            header = SimpleNamespace(queue_offset=queue_offset)
            return self._pull(SimpleNamespace(header=header), None)  # type: ignore[arg-type, return-value]
        except Refused:
            return None

    def _read(self, request: Any, connection: None) -> tuple[int, list[int]]:
        """Past the end, a master sets readers back; a slave lets them wait for messages that only its master has."""
        queue_offset = request.header.queue_offset
        end = self.store.max_offset(TOPIC, 0)
        if queue_offset > end:
            return (queue_offset if self.slave is not None else end), []
        size = self.store.confirmed_offset
        found = [message for place, message in messages(self.log_on_disk.data, 0, size)][queue_offset:]
        return queue_offset + len(found[:PULL_COUNT]), found[:PULL_COUNT]

    def committed(self, group: str) -> int | None:
        """Returns None if the group has no offset."""
        header = QueryConsumerOffsetHeader(consumer_group=group, topic=TOPIC, queue_id=0, set_zero_if_not_found=False)
        try:
            found: int = self.offset_handlers.query(header)
        except Refused:
            return None
        return found

    def commit(self, group: str, queue_offset: int) -> Kept | None:
        """Returns None if the commit is refused."""
        header = UpdateConsumerOffsetHeader(consumer_group=group, topic=TOPIC, queue_id=0, commit_offset=queue_offset)
        try:
            is_kept = self.offset_handlers.commit(header)
        except RocketMQError:
            return None
        known = queue_offset if self.slave is None else min(queue_offset, self.store.max_offset(TOPIC, 0))
        return Kept(self, known, self.life, self.snapshots) if is_kept else None

    def _grown(self) -> None:
        if self.replicas.waiting:
            self.replicas.grown()

    def _flushed(self) -> None:
        self.pending.settle()


class Kept(NamedTuple):
    """A commit that a broker has answered in the given life, after that number of snapshots. A slave hands over offsets
    only as far as it has the messages: it cannot know that later ones are still the same."""

    broker: ActingBroker
    queue_offset: int
    life: int
    snapshots: int

    @property
    def is_lost(self) -> bool:
        """Whether the commit was lost with the process, before it was saved."""
        return self.broker.life != self.life and self.broker.saved_in[self.life] <= self.snapshots


class _Topics:
    data_version = DataVersion(timestamp=1)

    def __init__(self) -> None:
        names = TOPIC, member_group_topic(NAME)
        self._topics = {name: TopicConfig(topic_name=name, read_queue_nums=1, write_queue_nums=1) for name in names}

    def all(self) -> Mapping[str, TopicConfig]:
        return self._topics

    def get(self, name: str) -> TopicConfig | None:
        return self._topics.get(name)


TOPICS = _Topics()


class _Groups:
    data_version = DataVersion(timestamp=1)
    body = SubscriptionGroups(data_version=data_version)

    @staticmethod
    def get(name: str) -> object:
        return name


class _Mappings:
    data_version = DataVersion(timestamp=1)

    @staticmethod
    def all() -> dict[str, object]:
        return {}

    @staticmethod
    def infos() -> dict[str, Any]:
        return {}


class _Delays:
    data_version = DataVersion(timestamp=1)
    offsets: dict[int, int] = {}


class _Times:
    @staticmethod
    def note(time_us: int, count: int) -> None: ...


class _Stats:
    put_times = _Times
    put_failed = 0
