"""etcd, as seen by controllers that share their state in it: one machine that keeps what it has written, ends leases by
its own clock, and may be out of reach, frozen, or away for a while, like a real etcd without its majority. The network
may lose or delay requests and answers, so that they come long after their sender has asked again. It may also lose a
watch's news, which are not repeated."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from rmqserver.controller.controller_state import BrokerSet, BrokerSets, ControllerEvent, apply_all
from rmqserver.controller.quorum.etcd import EtcdError, KeyCondition, KeyPut, KeyValue, TxnResult
from tests.rmqserver.controller.quorum.etcd_in_memory import EtcdInMemory
from tests.simulation import tasks
from tests.simulation.broker import NAME
from tests.simulation.controller import SimulatedController
from tests.simulation.network import Network
from tests.simulation.world import Machine, World

GROUP = "g"
ROOT = f"/rmqserver/{GROUP}/"
TIMEOUT_S = 1.0
HISTORY_DECISIONS = 4

_EVENTS = msgspec.json.Decoder(list[ControllerEvent])


class SimulatedEtcd(Machine):
    """``on_decided`` is called when a decision is stored, ``on_violation`` if one was not made from the state that the
    previous one left."""

    def __init__(self, world: World, network: Network, product: Any, lease_ttl_s: int):
        super().__init__(world, "etcd")
        network.machines[self.name] = self
        self.network = network
        self.product = product
        self.lease_ttl_s = lease_ttl_s
        self.on_decided: Callable[[], None] = lambda: None
        self.on_violation: Callable[[str], None] = lambda what: None
        self._kept = EtcdInMemory(clock_s=self.monotonic_s)
        self.decisions = 0
        self._replayed: BrokerSets = {}

    def controller(self, name: str) -> SimulatedController:
        return _Sharing(self, name)

    def start(self) -> None:
        """Leases begin anew when etcd's members have a leader again."""
        self.is_up = True
        for lease in self._kept.lease_ends_s:
            self._kept.keep_alive(lease)

    def kill(self, *, is_power_cut: bool) -> None:
        """Loses nothing: it has synced what it answered."""
        self.life += 1
        self.is_up = self.is_frozen = False
        self._kept.watches.clear()

    @property
    def found(self) -> BrokerSet | None:
        row = self._kept.get(f"{ROOT}sets/{NAME}")
        return msgspec.json.decode(row.value, type=BrokerSet) if row is not None else None

    def serve(self, call: str, args: tuple[Any, ...]) -> Any:
        """Raises EtcdError."""
        self._kept.end_leases()
        answer = getattr(self._kept, call)(*args)
        if call == "txn" and answer.is_done and any(put.key == f"{ROOT}head" for put in args[1]):
            self._decided({put.key: put.value for put in args[1]})
        return answer

    def watch(self, key: str, revision: int, tell: Callable[[], None]) -> None:
        self._kept.watch(key, revision, tell)

    def _decided(self, written: dict[str, bytes]) -> None:
        number = msgspec.json.decode(written[f"{ROOT}head"])["number"]
        if number != self.decisions + 1:
            self.on_violation(f"decision {number} is kept behind decision {self.decisions}")
        self.decisions = number
        try:
            self._replayed = apply_all(self._replayed, _EVENTS.decode(written[f"{ROOT}events/{number:020d}"]))
        except KeyError as error:
            self.on_violation(f"decision {number} is about {error}, which those before it have not made")
        if self.found != self._replayed.get(NAME):
            self.on_violation(
                f"decision {number} leaves {self.found}, and all of them lead to {self._replayed.get(NAME)}"
            )
        self.on_decided()


class _Sharing(SimulatedController):
    """One of several controllers."""

    def __init__(self, etcd: SimulatedEtcd, name: str):
        super().__init__(etcd.world, etcd.network, etcd.product, name)
        self._etcd = etcd

    def _make_store(self) -> Any:
        line = Line(self._etcd, self)
        return self.product.quorum_store.QuorumStore(line, GROUP, self._etcd.lease_ttl_s, HISTORY_DECISIONS)


class Line:
    """The ``Etcd`` of one controller."""

    def __init__(self, etcd: SimulatedEtcd, controller: Machine):
        self._etcd = etcd
        self._controller = controller

    async def grant(self, ttl_s: int) -> int:
        return int(await self._call("grant", ttl_s))

    async def keep_alive(self, lease: int) -> int:
        return int(await self._call("keep_alive", lease))

    async def revoke(self, lease: int) -> None:
        await self._call("revoke", lease)

    async def get(self, key: str) -> KeyValue | None:
        found: KeyValue | None = await self._call("get", key)
        return found

    async def get_all(self, prefix: str) -> list[KeyValue]:
        found: list[KeyValue] = await self._call("get_all", prefix)
        return found

    async def txn(
        self,
        conditions: Sequence[KeyCondition],
        puts: Sequence[KeyPut],
        deletes: Sequence[str] = (),
        otherwise: Sequence[str] = (),
    ) -> TxnResult:
        result: TxnResult = await self._call("txn", conditions, puts, deletes, otherwise)
        return result

    async def changed(self, key: str, revision: int, most_s: float) -> None:
        etcd, controller, network = self._etcd, self._controller, self._etcd.network
        life, random = controller.life, network.world.random
        has_come = tasks.Event()

        def tell() -> None:
            if random.random() >= network.loss:
                network.send(etcd, controller, lambda: controller.soon(come))

        def come() -> None:
            if controller.life == life:
                has_come.set()

        if random.random() >= network.loss:
            network.send(controller, etcd, lambda: etcd.soon(lambda: etcd.watch(key, revision, tell)))
        with tasks.move_on_after(most_s):
            await has_come.wait()

    async def _call(self, call: str, *args: Any) -> Any:
        etcd, controller, network = self._etcd, self._controller, self._etcd.network
        life, random = controller.life, network.world.random
        outcome: list[Any] = []
        has_come = tasks.Event()

        def serve() -> None:
            try:
                answer = etcd.serve(call, args)
            except EtcdError as error:
                answer = error
            if random.random() >= network.loss:
                network.send(etcd, controller, lambda: controller.soon(lambda: come(answer)))

        def come(answer: Any) -> None:
            if controller.life == life:
                outcome.append(answer)
                has_come.set()

        if random.random() >= network.loss:
            network.send(controller, etcd, lambda: etcd.soon(serve))
        with tasks.move_on_after(TIMEOUT_S):
            await has_come.wait()
        if not outcome:
            raise EtcdError("no answer")
        if isinstance(outcome[0], EtcdError):
            raise outcome[0]
        return outcome[0]
