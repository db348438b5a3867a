"""A controller: the product's ``Controller`` with its decider, its decisions and its event log, on the file system of
``tests/crash``, which knows what a crash may leave."""

from collections.abc import Callable
from typing import Any

from rmqproto.codes import RequestCode
from rmqproto.headers.base import Header
from rmqproto.headers.controller import ElectMasterHeader
from rmqserver.config.controller_config import ControllerConfig
from rmqserver.controller.controller_state import BrokerSet
from rmqserver.controller.controller_store import ControllerName
from tests.crash.recording_disk import Loss, RecordingDisk
from tests.rmqserver.controller.seats import Seat
from tests.simulation import tasks
from tests.simulation.broker import CLUSTER, NAME
from tests.simulation.network import Network, Served, Stream, connected
from tests.simulation.world import World

CONFIG = ControllerConfig.from_properties("scanNotActiveBrokerInterval=500\nscanInactiveMasterInterval=500\n")


class SimulatedController(Served):
    def __init__(self, world: World, network: Network, product: Any, name: str):
        super().__init__(world, network, name)
        self.product = product
        self.disk = RecordingDisk()
        self.on_decided: Callable[[], None] = lambda: None
        self.on_designated: Callable[[BrokerSet | None], None] = lambda found: None
        """Called with the set as this controller knows it when an operator asks it for another master, or when it wants
        one itself."""

    def start(self) -> None:
        self.is_up = True
        self.controller = self.product.controller.Controller(
            CONFIG, self._make_store(), _Notices(self), self.product.live_brokers.LostConnections(),
            lambda host: f"{self.name}:1", self.monotonic_s,
        )  # fmt: skip
        wanted = self.controller._reliefs.wanted

        def wanted_and_told(now: Any, found: BrokerSet) -> Any:
            if (election := wanted(now, found)) is not None:
                self.on_designated(found)
            return election

        self.controller._reliefs.wanted = wanted_and_told
        self.controller.open()
        self.service = self.controller
        tasks.spawn(self, self._run)

    async def open_stream(self, addr: str) -> Stream:
        """Connects to a broker that may be dead, and sends nothing."""
        near, _ = connected(self.network, self, await self.network.reach(self, addr))
        return near

    def _make_store(self) -> Any:
        store = self.product.event_log.EventLog("/controller", self.disk, snapshot_after_records=8)
        append = store.append

        def append_and_tell(*args: Any) -> None:
            append(*args)
            self.on_decided()

        store.append = append_and_tell
        return store

    async def _run(self) -> None:
        failure = await self.controller.run(ControllerName(self.name, f"{self.name}:1"))
        raise failure

    def kill(self, *, is_power_cut: bool) -> None:
        self.life += 1
        self.is_up = self.is_frozen = False
        if is_power_cut:
            self.disk = self.disk.image(self.world.random.choice(list(Loss)), self.world.random)
        self.end_connections(is_silent=is_power_cut)
        tasks.kill(self)

    # --- operators ---------------------------------------------------------------------------------------------------

    def designate(self, broker_id: int) -> None:
        """Requests a planned handover."""
        header = ElectMasterHeader(
            cluster_name=CLUSTER, broker_name=NAME, broker_id=broker_id, designate_elect=True, invoke_time=1
        )
        self.on_designated(self.found)
        seat = Seat(self.controller)
        seat.exchange(seat.request(RequestCode.CONTROLLER_ELECT_MASTER, header))

    @property
    def found(self) -> BrokerSet | None:
        return self.controller.sets.get(NAME)


class _Notices:
    """``Notices``: a broker that gets a notice asks the controller, whatever it says."""

    def __init__(self, controller: SimulatedController):
        self._controller = controller

    async def run(self) -> None:
        await tasks.sleep_forever()

    def post(self, address: str, code: int, header: Header, body: bytes = b"") -> None:
        network = self._controller.network
        broker = network.machines[address.partition(":")[0]]
        network.post(self._controller, broker, lambda: broker.member.state.look_again())
