"""The functions of ``time`` that the product's modules use, by the clocks of the machine that runs them."""

from tests.simulation.tasks import running
from tests.simulation.world import EPOCH_S, Machine

CLOCK_MONOTONIC, CLOCK_BOOTTIME = 1, 7


def _machine() -> Machine | None:
    return running.world.machine


def monotonic() -> float:
    machine = _machine()
    return machine.monotonic_s() if machine else running.world.now_s


def monotonic_ns() -> int:
    return int(monotonic() * 1e9)


def clock_gettime_ns(clock: int) -> int:
    machine = _machine()
    if machine is None or clock != CLOCK_BOOTTIME:
        return monotonic_ns()
    return int(machine.boot_s() * 1e9)


def time() -> float:
    machine = _machine()
    return machine.wall_s() if machine else EPOCH_S + running.world.now_s


def time_ns() -> int:
    return int(time() * 1e9)
