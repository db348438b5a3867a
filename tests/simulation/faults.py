"""Faults: each seed draws which kinds it has, how many, and how long they last. The fault model is that of
docs/replication.md. Machines stop, freeze, sleep, lose power and come back; the network delays, cuts, resets and loses.
Wall clocks jump, timer clocks stand still while a machine sleeps, all clocks stand still while a machine is stopped
with them, and clocks run up to four percent wrong. Nothing lies, and no device forgets what it has synced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from tests.simulation.stored_log import Room
from tests.simulation.world import Freeze

if TYPE_CHECKING:
    from tests.simulation.network import Network
    from tests.simulation.simulation import Simulation
    from tests.simulation.world import World


class Run(Protocol):
    """The simulation, as faults see it. ``start`` starts a machine that is not up."""

    world: World
    random: Random
    network: Network
    machines: list[Any]
    brokers: list[Any]
    is_mended: bool

    def start(self, machine: Any) -> None: ...
    def note(self, who: str, text: str) -> None: ...


Fault = Callable[[Any, float], None]
"""Takes a ``Run`` and a duration in seconds, and begins at once."""


def kill(run: Run, seconds: float) -> None:
    _stop(run, seconds, is_power_cut=False)


def cut_power(run: Run, seconds: float) -> None:
    _stop(run, seconds, is_power_cut=True)


def _stop(run: Run, seconds: float, *, is_power_cut: bool) -> None:
    machine = _victim(run)
    if machine.is_up:
        run.note(machine.name, f"{'loses its power' if is_power_cut else 'is killed'} for {seconds:.2f} s")
        machine.kill(is_power_cut=is_power_cut)
        run.world.after(seconds, lambda: run.start(machine))


def freeze(run: Run, seconds: float) -> None:
    _freeze(run, seconds, Freeze.PROCESS, "freezes")


def sleep(run: Run, seconds: float) -> None:
    """May last longer than a whole lease, or a controller's settling."""
    _freeze(run, seconds * run.random.choice([1, 3]), Freeze.SLEEP, "sleeps")


def stop_with_clocks(run: Run, seconds: float) -> None:
    _freeze(run, seconds, Freeze.CLOCKS, "is stopped with its clocks")


def _freeze(run: Run, seconds: float, freeze: Freeze, text: str) -> None:
    machine = _victim(run)
    if machine.is_up and not machine.is_frozen:
        run.note(machine.name, f"{text} for {seconds:.2f} s")
        machine.freeze(freeze)
        life = machine.life
        run.world.after(seconds, lambda: machine.wake() if machine.life == life else None)


def cut(run: Run, seconds: float) -> None:
    one = _victim(run)
    other = run.random.choice([machine for machine in run.machines if machine is not one])
    run.note(one.name, f"is cut from {other.name} for {seconds:.2f} s")
    run.network.cut(one, other)
    run.world.after(seconds, lambda: run.network.mend(one, other))


def isolate(run: Run, seconds: float) -> None:
    one = _victim(run)
    run.note(one.name, f"is cut from all for {seconds:.2f} s")
    for other in run.machines:
        if other is not one:
            run.network.cut(one, other)
            run.world.after(seconds, lambda other=other: run.network.mend(one, other))


def slow_down(run: Run, seconds: float) -> None:
    run.network.slowness_s = run.random.choice([0.02, 0.1, 0.5])
    run.note("network", f"takes {run.network.slowness_s} s for {seconds:.2f} s")
    run.world.after(seconds, run.network.speed_up)


def lose(run: Run, seconds: float) -> None:
    run.network.loss = run.random.choice([0.05, 0.3])
    run.note("network", f"loses and doubles {run.network.loss:.0%} for {seconds:.2f} s")
    run.world.after(seconds, run.network.stop_losing)


def reset(run: Run, seconds: float) -> None:
    broker = run.random.choice(run.brokers)
    for stream in list(broker.streams):
        stream.reset()
        stream.peer.reset()
    run.note(broker.name, "has its connections of replication reset")


def reset_controller(run: Simulation, seconds: float) -> None:
    """Something between the controller and its brokers ends connections, and the brokers live on."""
    for connection in [connection for each in run.controllers for connection in each.connections]:
        if run.random.random() < 0.5:
            run.note(connection.caller.name, "loses its connection to the controller")
            connection.hang_up_there()
            connection.called_died()


def kill_controller(run: Simulation, seconds: float) -> None:
    """A kind of its own, since ``kill`` seldom draws a controller."""
    controller = run.random.choice(run.controllers)
    if controller.is_up:
        run.note(controller.name, f"is killed for {seconds:.2f} s")
        controller.kill(is_power_cut=False)
        run.world.after(seconds, lambda: run.start(controller))


def set_clock(run: Run, seconds: float) -> None:
    machine = run.random.choice(run.machines)
    machine.wall_offset_s += run.random.choice([-1, 1]) * run.random.choice([1, 60, 86400])
    run.note(machine.name, f"has its clock set: {machine.wall_offset_s:+.0f} s")


def fill_disk(run: Simulation, seconds: float) -> None:
    broker = run.random.choice(run.brokers)
    masters = [each for each in run.brokers if each.is_master]
    broker = run.random.choice(masters) if masters and run.random.random() < 0.6 else broker
    broker.log_on_disk.room = run.random.choice([Room.LITTLE, Room.NONE])
    run.note(broker.name, f"has room: {broker.log_on_disk.room.name.lower()}, for {seconds:.2f} s")
    run.world.after(seconds, broker.log_on_disk.free)


def hand_over(run: Simulation, seconds: float) -> None:
    """Asks every controller; those that do not lead refuse."""
    present = [each for each in run.controllers if each.is_up and not each.is_frozen]
    if present:
        broker_id = run.random.randint(1, len(run.brokers))
        run.note("operator", f"wants id {broker_id} as the master")
        for controller in present:
            controller.soon(lambda controller=controller: controller.designate(broker_id))


KINDS: tuple[Fault, ...] = (
    kill, cut_power, freeze, sleep, stop_with_clocks, cut, isolate, slow_down, lose, reset, reset_controller, set_clock,
    hand_over, fill_disk,
)  # fmt: skip
NOT_COVERED_BY_LEASES = frozenset({stop_with_clocks})
"""See docs/replication.md."""

_SECONDS = ((0.01, 0.2), (0.2, 2), (2, 6))
AT_DECISIONS_MAX = 5


def plan(run: Simulation, begin_s: float, end_s: float) -> None:
    """Plans faults that come alone, or several in the same second: most problems need two at once."""
    allowed = [kind for kind in run.kinds if run.promises_in_sync or kind not in NOT_COVERED_BY_LEASES]
    kinds = plan_of(run, allowed, begin_s, end_s)
    run.world.at(begin_s, lambda: _watch_decisions(run, kinds, run.random.choice([0, 0.3, 0.8])))


def plan_of(run: Run, allowed: Sequence[Fault], begin_s: float, end_s: float) -> list[Fault]:
    """Plans faults, and returns the kinds that were drawn."""
    random = run.random
    kinds = random.sample(allowed, random.randint(1, len(allowed)))
    left = random.choice([1, 4, 10])
    while left > 0:
        first_s = random.uniform(begin_s, end_s)
        for _ in range(min(random.choice([1, 2, 4]), left)):
            left -= 1
            run.world.at(first_s + random.random() ** 2, lambda: _begin(run, kinds))
    return kinds


def _watch_decisions(run: Simulation, kinds: list[Fault], likelihood: float) -> None:
    """Begins faults right after decisions: the worst moment is when no broker has heard of one yet."""
    left = AT_DECISIONS_MAX

    def decided() -> None:
        nonlocal left
        if left and run.random.random() < likelihood and not run.is_mended:
            left -= 1
            delay_s = run.random.choice([0, run.network.slowness_s, 0.05])
            run.world.after(delay_s * run.random.random(), lambda: _begin(run, kinds))

    run.decided.on_decided = decided


def _begin(run: Run, kinds: list[Fault]) -> None:
    if not run.is_mended:
        run.random.choice(kinds)(run, run.random.uniform(*run.random.choice(_SECONDS)))


def _victim(run: Run) -> Any:
    """Picks a machine, most often a master."""
    masters = [broker for broker in run.brokers if broker.is_master]
    return run.random.choice(masters if masters and run.random.random() < 0.6 else run.machines)
