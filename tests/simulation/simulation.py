"""Runs one seed: two or three brokers under a controller, producers, readers and faults. Then everything is mended, and
the set must recover."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rmqserver.store.options import FlushMode
from tests.simulation import faults, product, tasks
from tests.simulation.broker import Answered, SimulatedBroker
from tests.simulation.controller import SimulatedController
from tests.simulation.etcd import SimulatedEtcd
from tests.simulation.ledger import Ledger, Violation
from tests.simulation.network import Network
from tests.simulation.world import Machine, World

SETTLED_S = 10.0
"""How long a controller that has just started elects only a first master. Most runs start their brokers after it."""

FAULTS_S = (3.0, 8.0)
"""How long faults may begin after the brokers' start, one of these; LATER_S later everything is mended."""

FAULTS_OF_A_QUORUM_S = (3.0, 8.0, 25.0)
"""Longer, since a new leader elects nobody in its first ten seconds."""

LATER_S = 3.0
MENDED_WITHIN_S = 120.0
CLOCKS_WRONG_PERCENT = 4

_SETTINGS = (
    "brokerHeartbeatInterval=400\ncontrollerHeartBeatTimeoutMills=1200\nhaMaxTimeSlaveNotCatchup=2000\n",
    "brokerHeartbeatInterval=1000\ncontrollerHeartBeatTimeoutMills=3000\n",
)
_MODES = {
    "all in sync": "allAckInSyncStateSet=true\n",
    "two in sync": "allAckInSyncStateSet=true\nminInSyncReplicas=2\n",
    "lease": "",
}


class Simulation:
    """Call ``check`` once."""

    def __init__(
        self,
        seed: int,
        of: Any = None,
        *,
        controllers: int = 1,
        mode: str | None = None,
        kinds: Sequence[faults.Fault] = faults.KINDS,
        is_recorded: bool = False,
    ):
        """``of`` is the product, or a broken variant. Several ``controllers`` share one etcd. The seed draws the mode,
        unless one is given, and some of the ``kinds`` of faults."""
        self.world = world = World(seed)
        if is_recorded:
            world.lines = []
        self.random = random = world.random
        self.network = Network(world)
        self._product = of or product.as_it_is()
        drawn = random.choice([*_MODES])
        mode = mode or drawn
        self.kinds = kinds
        self.promises_in_sync = mode != "lease"
        flush = random.choice([FlushMode.SYNC, FlushMode.ASYNC])
        count = random.choice([2, 3])
        addrs = ";".join(f"n{number}:1" for number in range(controllers))
        settings = f"controllerAddr={addrs}\n{random.choice(_SETTINGS)}{_MODES[mode]}"
        self._begin_s = random.choice([0.0, SETTLED_S, SETTLED_S, SETTLED_S])
        self._faults_end_s = self._begin_s + random.choice(FAULTS_OF_A_QUORUM_S if controllers > 1 else FAULTS_S)
        self.is_mended = False
        self.note("world", f"seed {seed}: {count} brokers, {mode}, flush {flush.name.lower()}")
        self.etcd: SimulatedEtcd | None = None
        self.controllers: list[SimulatedController]
        if controllers > 1:
            self.etcd = etcd = SimulatedEtcd(world, self.network, self._product, random.choice([1, 2, 5]))
            self.controllers = [etcd.controller(f"n{number}") for number in range(controllers)]
        else:
            self.controllers = [SimulatedController(world, self.network, self._product, "n0")]
        self.decided = self.etcd or self.controllers[0]
        self.brokers = [
            SimulatedBroker(world, self.network, self._product, f"b{number}", settings, flush)
            for number in range(1, count + 1)
        ]
        copies = 2 if mode == "two in sync" else 1
        self.ledger = Ledger(self.decided, self.brokers, copies, promises_in_sync=self.promises_in_sync)
        if self.etcd is not None:
            self.etcd.on_violation = self.ledger.violated
        self.machines: list[Any] = [*self.controllers, *self.brokers, *([self.etcd] if self.etcd else [])]
        self._client = Machine(world, "client")
        self._client.is_up = True
        self._message = 0
        self._target: SimulatedBroker = self.brokers[0]

    def note(self, who: str, text: str) -> None:
        self.world.note(who, text)

    # --- the run -----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raises Violation, or what the product raised."""
        random = self.random
        tasks.running.world = self.world
        with logged_to(self.world):
            for machine in self.machines:
                machine.rate = 1 + random.uniform(-1, 1) * CLOCKS_WRONG_PERCENT / 100
                begin_s = self._begin_s if machine in self.brokers else 0.0
                self.world.at(begin_s + 0.5 * random.random(), lambda machine=machine: self.start(machine))
            for broker in self.brokers:
                broker.controllers = tuple(self.controllers)
                broker.on_opened = self.ledger.opened
                broker.on_acknowledged = self._acknowledged
                broker.on_lost = self.ledger.let_off.update
                broker.on_held = self.ledger.held
            for controller in self.controllers:
                controller.on_designated = self.ledger.designated
            faults.plan(self, self._begin_s + 1, self._faults_end_s)
            self.world.at(self._begin_s + 0.5, self._produce)
            self.world.at(self._begin_s + 0.5, self._read)
            try:
                self.world.run_until(self._faults_end_s + LATER_S)
                if not self.ledger.violation:
                    self._mend()
                self._look_whether_well()
                self.world.run_until(self._faults_end_s + LATER_S + MENDED_WITHIN_S)
                self._check_end()
            finally:
                for machine in self.machines:
                    machine.life += 1
                    tasks.kill(machine)

    def start(self, machine: Any) -> None:
        if not machine.is_up:
            self.note(machine.name, "starts")
            self.world.machine = machine
            machine.start()
            self.world.machine = None

    def _mend(self) -> None:
        self.note("world", "all is mended")
        self.is_mended = True
        self.network.mend_all()
        self.network.speed_up()
        self.network.stop_losing()
        for broker in self.brokers:
            broker.log_on_disk.free()
        for machine in self.machines:
            machine.wake()
            self.start(machine)

    # --- clients -----------------------------------------------------------------------------------------------------

    def _produce(self) -> None:
        """Sends one message, and later the next. After a refusal, the next broker to ask is drawn."""
        self._message += 1
        message, broker = self._message, self._target

        def answered(answer: Answered) -> None:
            if answer.is_refused:
                self.ledger.refused.add(message)
            if answer.code:
                self.note(broker.name, f"answers {message} with {answer.code}")
            self.network.send(broker, self._client, lambda: heard(answer.code))

        def heard(code: int) -> None:
            if code and broker is self._target:
                self._ask_another()

        self.network.send(self._client, broker, lambda: broker.soon(lambda: broker.put(message, answered)))
        if not broker.is_up or self.random.random() < 0.1:
            self._ask_another()
        burst = self.random.random() < 0.7
        self.world.after(self.random.random() * (0.05 if burst else 1.0), self._produce)

    def _ask_another(self) -> None:
        self._target = self.random.choice(self.brokers)

    def _acknowledged(self, broker: SimulatedBroker, message: int, log_offset: int) -> None:
        self.note(broker.name, f"acknowledges {message} at {log_offset}, epoch {broker.member.state.master_epoch}")
        self.ledger.acknowledge(broker, message, log_offset)

    def _read(self) -> None:
        for broker in self.brokers:
            if broker.is_up and not broker.is_frozen and hasattr(broker, "opened"):
                self.ledger.look(broker)
        self.world.after(self.random.random(), self._read)

    # --- the end -----------------------------------------------------------------------------------------------------

    def _look_whether_well(self) -> None:
        for broker in self.brokers:
            broker.empty_if_told()
        if self._is_well():
            self.world.stop()
        self.world.after(0.2, self._look_whether_well)

    def _is_well(self) -> bool:
        masters = [broker for broker in self.brokers if broker.is_master]
        if len(masters) != 1:
            return False
        (master,) = masters
        sync_set = master.member.state.sync_set
        return (
            len(sync_set.members) == len(self.brokers)
            and sync_set.proposed is None
            and all(broker.log_on_disk.data == master.log_on_disk.data for broker in self.brokers)
            and bool(self.ledger.acknowledged)
            and max(self.ledger.acknowledged) > self._message - 20
        )

    def _check_end(self) -> None:
        if self.ledger.violation:
            raise Violation(self.ledger.violation)
        if not self._is_well():
            raise Violation(
                f"not well {MENDED_WITHIN_S:g} s after everything was mended: "
                + "; ".join(map(_described, self.brokers))
            )
        for broker in self.brokers:
            self.ledger.look(broker)
            if self.promises_in_sync:
                self.ledger.check_has_all(broker)
        if self.ledger.violation:
            raise Violation(self.ledger.violation)


def _described(broker: SimulatedBroker) -> str:
    state = broker.member.state
    in_sync = sorted(state.sync_set.members) if state.sync_set is not None else None
    return (
        f"{broker.name} epoch {state.master_epoch} in sync {in_sync} fenced {state.is_fenced} "
        f"log {len(broker.log_on_disk.data)}"
    )


class _ToHistory(logging.Handler):
    def __init__(self, world: World):
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        machine = self._world.machine
        self._world.note(machine.name if machine else "", record.getMessage())


@contextmanager
def logged_to(world: World) -> Iterator[None]:
    """Adds what the product logs to the history."""
    logger = logging.getLogger("rmqserver")
    before = logger.level, logger.propagate, logger.handlers
    logger.propagate = False
    logger.handlers = [_ToHistory(world)]
    logger.setLevel(logging.INFO if world.lines is not None else logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.level, logger.propagate, logger.handlers = before
        logger.setLevel(before[0])
