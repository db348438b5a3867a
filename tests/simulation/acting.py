"""Runs one seed of a master whose slaves act for it: producers, and consumers that read and commit wherever the
nameserver sends them, while machines fail. Then everything is mended, and the brokers must recover.

Invariants:

- Consumers never lose their place: in the end the master knows every offset whose commit was answered, unless the
  broker that answered was killed before it had saved it. When a master tells the nameserver that it is back, it has
  asked all slaves known there, and has their offsets.
- Offsets are monotone: consumers here never go back, so no broker's table does while it runs.
- Only confirmed messages are read: all readers see the same message at each queue offset, at any broker and at any
  time. So only the master takes messages, and not while a slave that it has asked has a longer log.
- A slave that knows that its log differs from its master's is not read.
- All acknowledged messages are there in the end.

A message that a power cut took from a log before it was on the device is excused, as in ``ledger.py``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rmqproto.ha import MASTER_ID
from rmqproto.perm import PERM_WRITE
from rmqserver.broker.replicas.same_log import WHAT_TO_DO
from rmqserver.store.options import FlushMode
from tests.simulation import faults, product, tasks
from tests.simulation.acting_machines import TOPIC, ActingBroker, Kept, SimulatedNameserver
from tests.simulation.broker import Answered
from tests.simulation.ledger import Violation
from tests.simulation.network import Network
from tests.simulation.simulation import CLOCKS_WRONG_PERCENT, logged_to
from tests.simulation.stored_log import RECORD_BYTES, message_at, messages
from tests.simulation.world import Machine, World

BEGIN_S = 2.0
FAULTS_S = (5.0, 15.0)
LATER_S = 3.0
MENDED_WITHIN_S = 120.0
ANSWER_TIMEOUT_S = 3.0
ROUTE_EVERY_S = 4.0
GROUPS = ("G", "H")
KINDS: tuple[faults.Fault, ...] = (
    faults.kill, faults.kill, faults.cut_power, faults.freeze, faults.sleep, faults.stop_with_clocks, faults.cut,
    faults.isolate, faults.slow_down, faults.lose, faults.reset, faults.set_clock,
)  # fmt: skip


class ActingSimulation:
    """Call ``check`` once."""

    def __init__(self, seed: int, of: Any = None, *, kinds: Sequence[faults.Fault] = KINDS, is_recorded: bool = False):
        self.world = world = World(seed)
        if is_recorded:
            world.lines = []
        self.random = random = world.random
        self.network = Network(world)
        self._kinds = kinds
        self.is_mended = False
        self.violation = ""
        self.acknowledged: dict[int, int] = {}
        self.handed_over = 0
        of = of or product.as_it_is()
        copies = random.choice([1, 2])
        flush = random.choice([FlushMode.SYNC, FlushMode.ASYNC])
        text = f"brokerRole={'SYNC' if copies > 1 else 'ASYNC'}_MASTER\ninSyncReplicas={copies}\n"
        slaves = random.choice([1, 1, 2])
        self.note("world", f"seed {seed}: {slaves} slaves, {copies} copies, flush {flush.name.lower()}")
        self.nameserver = SimulatedNameserver(world, self.network, of)
        self.brokers = [
            ActingBroker(world, self.network, of, f"b{number}", number, text if number == MASTER_ID else "", flush)
            for number in range(slaves + 1)
        ]
        self.master = self.brokers[0]
        self.machines: list[Any] = [self.nameserver, *self.brokers]
        self._faults_end_s = BEGIN_S + random.choice(FAULTS_S)
        self._client = Machine(world, "client")
        self._client.is_up = True
        self._message = 0
        self._producer = _Route(self)
        self._consumers = [_Consumer(self, group) for group in GROUPS]
        self._shown: dict[int, int] = {}
        self._let_off: set[int] = set()
        self._has_lost = False
        self._unlike: set[ActingBroker] = set()
        """Slaves whose logs are not the beginning of their master's."""
        self._told: set[ActingBroker] = set()
        """Slaves of ``_unlike`` that have reported it; they know it until a power cut."""

    def note(self, who: str, text: str) -> None:
        self.world.note(who, text)

    def violated(self, what: str) -> None:
        self.violation = self.violation or what
        self.world.stop()

    # --- the run -----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raises Violation, or what the product raised."""
        tasks.running.world = self.world
        with logged_to(self.world):
            for machine in self.machines:
                machine.rate = 1 + self.random.uniform(-1, 1) * CLOCKS_WRONG_PERCENT / 100
                self.world.at(0.5 * self.random.random(), lambda machine=machine: self.start(machine))
            for broker in self.brokers:
                broker.on_acknowledged = self._acknowledged
                broker.on_online = self._online
                broker.on_lost = partial(self._lost, broker)
            self.master.on_killed = self._master_killed
            faults.plan_of(self, self._kinds, BEGIN_S, self._faults_end_s)
            self.world.at(BEGIN_S / 2, self._produce)
            for consumer in self._consumers:
                self.world.at(BEGIN_S / 2, consumer.step)
            self.world.at(BEGIN_S, self._look_at_offsets)
            try:
                self.world.run_until(self._faults_end_s + LATER_S)
                if not self.violation:
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
        for machine in self.machines:
            machine.wake()
            self.start(machine)

    # --- clients -----------------------------------------------------------------------------------------------------

    def ask(self, machine: Any, question: Callable[[], Any], on_answer: Callable[[Any], None]) -> None:
        """Makes a client's request. Without an answer in time, ``on_answer`` gets None, and the request or its answer
        never arrives."""
        is_open = True

        def answered(answer: Any) -> None:
            nonlocal is_open
            if is_open:
                is_open = False
                on_answer(answer)

        def arrive() -> None:
            if is_open and machine.is_up:
                machine.soon(serve)

        def serve() -> None:
            if is_open:
                answer = question()
                self.network.send(machine, self._client, lambda: answered(answer))

        self.network.send(self._client, machine, arrive)
        self.world.after(ANSWER_TIMEOUT_S, lambda: answered(None))

    def _produce(self) -> None:
        self._message += 1
        message, broker = self._message, self._producer.broker

        def put() -> bool:
            broker.put(message, answered)
            return True

        def answered(answer: Answered) -> None:
            if answer.code:
                self.note(broker.name, f"answers {message} with {answer.code}")

        is_careless = self.random.random() < 0.1  # like a tool that is told which broker to ask
        if broker is not None and (self._producer.may_write or is_careless):
            self.ask(broker, put, lambda is_there: self._producer.failed() if is_there is None else None)
        burst = self.random.random() < 0.7
        self.world.after(self.random.random() * (0.05 if burst else 1.0), self._produce)

    def _acknowledged(self, broker: ActingBroker, message: int, log_offset: int) -> None:
        self.note(broker.name, f"acknowledges {message} at {log_offset}")
        self.acknowledged[message] = log_offset

    def _lost(self, broker: ActingBroker, lost: list[int]) -> None:
        self._told.discard(broker)
        self._let_off.update(lost)
        for consumer in self._consumers:
            consumer.hold_back(broker)
        self._has_lost = True

    def _master_killed(self) -> None:
        for consumer in self._consumers:
            consumer.lose_what_was_handed_over()

    def read(self, broker: ActingBroker, first: int, found: list[int]) -> None:
        for place, message in enumerate(found, first):
            before = self._shown.setdefault(place, message)
            if before != message and not {before, message} & self._let_off:
                self.violated(f"{broker.name} shows message {message} at {place}, where readers have seen {before}")
            self._shown[place] = message

    # --- what must be true -------------------------------------------------------------------------------------------

    def _look_at_offsets(self) -> None:
        """Checks that offsets do not go back; not after a power cut, which sets consumers and their commits back."""
        for broker in self.brokers:
            if broker in self._unlike and broker.is_up and WHAT_TO_DO in broker.slave.log.problem:
                self._told.add(broker)
            if broker.is_up and not broker.is_frozen and not self._has_lost:
                for consumer in self._consumers:
                    consumer.look_at(broker)
        self.world.after(0.1, self._look_at_offsets)

    def _online(self, master: ActingBroker, begin_s: float) -> None:
        self.note(master.name, "is online")
        asked = [broker for broker in self.brokers if f"{broker.name}:1" in master.pre_online._done]
        for broker in asked:
            if len(broker.log_on_disk.data) > len(master.log_on_disk.data):
                self.violated(f"{master.name} is online, and the slave {broker.name} that it has asked has more")
        for addr, since_s in self.nameserver.known_since_s.items():
            if since_s < begin_s and addr not in {f"{broker.name}:1" for broker in [*asked, master]}:
                self.violated(f"{master.name} is online, and has not asked {addr}")
        for consumer in self._consumers:
            self.handed_over += consumer.check(master, [*asked, master], begin_s)
        for broker in self.brokers:
            if broker not in asked and not master.log_on_disk.data.startswith(broker.log_on_disk.data):
                self._unlike.add(broker)
                for consumer in self._consumers:
                    consumer.forget(broker)

    def _look_whether_well(self) -> None:
        for broker in self.brokers:
            self._operate(broker)
        if self._is_well():
            self.world.stop()
        self.world.after(0.2, self._look_whether_well)

    def _operate(self, broker: ActingBroker) -> None:
        """Does what the logs tell an operator to do. If a slave's log is longer than its master's, the master gets that
        log, as if the slave had taken its place; a slave with another log is emptied."""
        if not broker.is_up:
            return
        if broker.slave is None and "make the slave the master" in broker.pre_online._problem:
            longest = max(self.brokers, key=lambda each: len(each.log_on_disk.data))
            self._replace_log(broker, bytes(longest.log_on_disk.data))
        elif broker.slave is not None and WHAT_TO_DO in broker.slave.log.problem and self.master.is_online:
            self._empty(broker)

    def pull(self, broker: ActingBroker, queue_offset: int) -> tuple[int, list[int]] | None:
        """A slave that was away may have messages that a power cut took from its master. It does not follow, and must
        not be read. A slave that could not compare its log, since its master is away now, would act for it with that
        log; this case is left out here (docs/replication.md)."""
        if broker in self._unlike and broker not in self._told:
            self.world.after(0, lambda: self._empty(broker))
            return None
        answer = broker.pull(queue_offset)
        if broker in self._told and answer is not None and answer[1]:
            self.violated(f"{broker.name} shows {answer[1]}, and knows that its log is another than its master's")
        return answer

    def is_unlike(self, broker: ActingBroker) -> bool:
        return broker in self._unlike

    def _empty(self, broker: ActingBroker) -> None:
        self._unlike.discard(broker)
        self._told.discard(broker)
        for consumer in self._consumers:
            consumer.forget(broker)
        self._replace_log(broker, b"")

    def _replace_log(self, broker: ActingBroker, data: bytes) -> None:
        self.note("operator", f"gives {broker.name} another log")
        before, kept = ({message for _, message in messages(log, 0)} for log in (broker.log_on_disk.data, data))
        self._let_off |= before - (kept or {message for _, message in messages(self.master.log_on_disk.data, 0)})
        was_up = broker.is_up
        if was_up:
            broker.kill(is_power_cut=False)
        broker.log_on_disk.data[:] = data
        broker.log_on_disk.synced_bytes = len(data)
        if was_up:
            self.start(broker)

    def _is_well(self) -> bool:
        master, slaves = self.master, self.brokers[1:]
        route = self.nameserver.service.routes.route(TOPIC)
        return (
            all(broker.is_up for broker in self.brokers)
            and master.is_online
            and self.nameserver.members == {broker.broker_id: f"{broker.name}:1" for broker in self.brokers}
            and bool(route.queue_datas[0].perm & PERM_WRITE)
            and all(slave.log_on_disk.data == master.log_on_disk.data for slave in slaves)
            and all(master.committed(group) in (None, slave.committed(group)) for slave in slaves for group in GROUPS)
            and all(not slave.offsets._noted for slave in slaves)
            and bool(self.acknowledged)
            and max(self.acknowledged) > self._message - 20
        )

    def _check_end(self) -> None:
        if not self.violation and not self._is_well():
            perm = self.nameserver.service.routes.route(TOPIC).queue_datas[0].perm
            described = (
                f"members {self.nameserver.members}, perm {perm}, {max(self.acknowledged)} of {self._message}, "
                + ", ".join(
                    f"{broker.name}: log {len(broker.log_on_disk.data)} offsets {broker.offsets.committed_table} "
                    f"noted {broker.offsets._noted if broker.slave is not None else None}"
                    for broker in self.brokers
                )
            )
            self.violated(f"not well {MENDED_WITHIN_S:g} s after everything was mended: {described}")
        data = self.master.log_on_disk.data
        for message, log_offset in self.acknowledged.items():
            if message not in self._let_off and message_at(data, log_offset) != message:
                self.violated(f"message {message} was acknowledged, and is not there")
        for consumer in self._consumers:
            consumer.check(self.master, self.brokers, self.world.now_s)
        if self.violation:
            raise Violation(self.violation)


class _Route:
    """A client's knowledge of the topic's route. It asks again from time to time, and soon after a broker fails."""

    def __init__(self, run: ActingSimulation):
        self.broker: ActingBroker | None = None
        self.may_write = False
        self._run = run
        run.world.at(BEGIN_S / 2, self._ask)

    def failed(self) -> None:
        self.broker = None

    def _ask(self) -> None:
        run, nameserver = self._run, self._run.nameserver
        run.ask(nameserver, lambda: nameserver.service.routes.route(TOPIC), self._told)
        run.world.after(run.random.random() * (0.5 if self.broker is None else ROUTE_EVERY_S), self._ask)

    def _told(self, route: Any) -> None:
        if route is not None:
            addr = route.broker_datas[0].broker_addrs.get(MASTER_ID)
            self.broker = self._run.network.machines[addr.partition(":")[0]] if addr else None
            self.may_write = bool(route.queue_datas[0].perm & PERM_WRITE)


class _Consumer:
    """The only consumer of its group. It goes on at its own position wherever it is sent, and commits until everything
    is mended."""

    def __init__(self, run: ActingSimulation, group: str):
        self.group = group
        self._kept: list[tuple[Kept, float]] = []
        """Answered commits, and when each was answered."""
        self._run = run
        self._route = _Route(run)
        self._next = 0
        self._is_waiting = False
        self._seen: dict[str, tuple[int, int, float]] = {}
        """For each broker: its life, the offset that it had, and when."""

    def step(self) -> None:
        run, broker = self._run, self._route.broker
        if broker is not None and not self._is_waiting:
            self._is_waiting = True
            if run.random.random() < 0.3 and not run.is_mended:
                self._commit(broker, self._next)
            else:
                self._pull(broker, self._next)
        run.world.after(run.random.random() * 0.3, self.step)

    def _pull(self, broker: ActingBroker, first: int) -> None:
        def pulled(answer: tuple[int, list[int]] | None) -> None:
            self._is_waiting = False
            if answer is None:
                self._route.failed()
            else:
                self._next, found = answer
                if self._next < first:  # messages that it had read are gone
                    self._kept.clear()
                self._run.read(broker, first, found)

        self._run.ask(broker, lambda: self._run.pull(broker, first), pulled)

    def _commit(self, broker: ActingBroker, queue_offset: int) -> None:
        def committed(kept: Kept | None) -> None:
            self._is_waiting = False
            if kept is not None and self._run.is_unlike(broker):
                self._run.note(broker.name, f"has another log, and {queue_offset} committed for {self.group}")
            elif kept is not None:
                self._run.note(broker.name, f"has {queue_offset} committed for {self.group}")
                self._kept.append((kept, self._run.world.now_s))
            else:
                self._route.failed()

        self._run.ask(broker, lambda: broker.commit(self.group, queue_offset), committed)

    def look_at(self, broker: ActingBroker) -> None:
        offset, now_s = broker.committed(self.group) or 0, self._run.world.now_s
        life, before, looked_s = self._seen.get(broker.name, (broker.life, 0, now_s))
        if life == broker.life and offset < min(before, self._kept_until(self._run.brokers, looked_s)):
            self._run.violated(f"{broker.name} goes back from {before} to {offset} for {self.group}")
        self._seen[broker.name] = broker.life, offset, now_s

    def lose_what_was_handed_over(self) -> None:
        """The master is killed, maybe before it has saved the offsets that slaves have handed over and then forgotten:
        these commits no longer count."""
        self._kept = [
            (kept, answered_s)
            for kept, answered_s in self._kept
            if kept.broker.broker_id == MASTER_ID or f"{TOPIC}@{self.group}" in kept.broker.offsets._noted
        ]

    def hold_back(self, broker: ActingBroker) -> None:
        """The broker's log is shorter now, and limits the offsets committed there."""
        count = len(broker.log_on_disk.data) // RECORD_BYTES
        self._kept = [
            (kept._replace(queue_offset=min(kept.queue_offset, count)) if kept.broker is broker else kept, answered_s)
            for kept, answered_s in self._kept
        ]

    def forget(self, broker: ActingBroker) -> None:
        """Drops commits at a broker whose messages are not those of its master."""
        self._kept = [each for each in self._kept if each[0].broker is not broker]

    def _kept_until(self, brokers: list[ActingBroker], when_s: float) -> int:
        """The furthest offset that these brokers have answered before ``when_s`` and have not lost."""
        kept = [each for each, answered_s in self._kept if answered_s < when_s and each.broker in brokers]
        return max((each.queue_offset for each in kept if not each.is_lost), default=0)

    def check(self, master: ActingBroker, asked: list[ActingBroker], until_s: float) -> int:
        """Checks that the master knows the furthest offset answered by the ``asked`` brokers before ``until_s``, and
        returns that offset."""
        wanted = min(self._kept_until(asked, until_s), master.store.max_offset(TOPIC, 0))
        if (known := master.committed(self.group) or 0) < wanted:
            self._run.violated(f"{master.name} is online, and knows {known} for {self.group}, where {wanted} was kept")
        return wanted
