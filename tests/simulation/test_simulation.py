"""Histories of sets of brokers, and broken rules that they reveal."""

import itertools
from typing import Any

import pytest

from tests.simulation import faults, tasks
from tests.simulation.broker import SimulatedBroker
from tests.simulation.ledger import Violation
from tests.simulation.product import Product
from tests.simulation.simulation import Simulation
from tests.simulation.stored_log import Room
from tests.simulation.variants import (
    AIMS,
    QUORUM_VARIANTS,
    VARIANTS,
    Aim,
    Variant,
    answers_before_etcd_has_it,
    asks_the_next_master_to_hand_over,
    elects_before_the_lease_is_back,
    hands_over_to_one_that_is_behind,
    no_master_opens_its_store_again,
    relieves_nobody,
    slave_reports_before_it_writes,
    takes_messages_with_too_few,
    takes_the_end_of_a_connection_for_death,
)

QUICK_SEEDS = 40
SLOW_SEEDS = 3000
SEEDS_OF_A_VARIANT = 400
"""Each variant is detected within the first 110."""

QUICK_SEEDS_OF_A_QUORUM = 20

LACKED = 1_000_000
"""A message that only the master has."""


def first_caught(variant: Variant, seeds: int, controllers: int = 1) -> int | None:
    broken, aim = Product(variant), AIMS.get(variant, Aim())
    for seed in range(seeds):
        try:
            Simulation(seed, broken, controllers=controllers, mode=aim.mode, kinds=aim.kinds).check()
        except Violation:
            return seed
    return None


def test_nothing_is_lost_and_all_is_well_again() -> None:
    acknowledged = 0
    for seed in range(QUICK_SEEDS):
        run = Simulation(seed)
        run.check()
        acknowledged += len(run.ledger.acknowledged)
    assert acknowledged > 10 * QUICK_SEEDS


@pytest.mark.slow
def test_nor_with_three_controllers_behind_one_etcd() -> None:
    acknowledged = decided = 0
    for seed in range(QUICK_SEEDS_OF_A_QUORUM):
        run = Simulation(seed, controllers=3)
        run.check()
        assert run.etcd is not None
        acknowledged += len(run.ledger.acknowledged)
        decided += run.etcd.decisions
    assert acknowledged > 10 * QUICK_SEEDS_OF_A_QUORUM
    assert decided > 5 * QUICK_SEEDS_OF_A_QUORUM


def test_an_operators_wish_ends_no_term_of_a_master_that_was_not_asked() -> None:
    """The wish came before its broker was in sync, and was decided after: nobody asked the master for its lease."""
    Simulation(751, controllers=3).check()


@pytest.mark.sweep
@pytest.mark.parametrize(("controllers", "seeds"), [(1, SLOW_SEEDS), (3, SLOW_SEEDS // 3)])
def test_nothing_is_lost_in_thousands_of_histories(controllers: int, seeds: int) -> None:
    for seed in range(QUICK_SEEDS, seeds):
        try:
            Simulation(seed, controllers=controllers).check()
        except Exception as error:
            error.add_note(f"python -m tests.simulation --seed {seed} --controllers {controllers}")
            raise


def test_who_hears_no_controller_keeps_no_lost_one_in_the_set() -> None:
    """A slave that only the controller takes for dead has all acknowledged messages, and its master wants to drop
    another slave. The master's proposal named the first slave and was refused, so the master answered each send with 12
    until the controller heard that slave."""
    told = 0
    for seed in range(12):
        run = Simulation(seed, mode="all in sync", kinds=[lambda run, seconds: None])
        if len(run.brokers) == 3:
            told += 1
            assert _acknowledged_without_one(run) > 0, seed
    assert told > 3


def _acknowledged_without_one(run: Simulation, *, leaves: bool = False) -> int:
    """Messages acknowledged after a slave is killed while the other one hears no controller, and with ``leaves`` has
    left the set for a moment."""
    run._begin_s, run._faults_end_s = 10.0, 22.0
    seen: list[int] = []

    def slaves() -> list[SimulatedBroker]:
        return [broker for broker in run.brokers if not broker.is_master]

    def cut() -> None:
        assert len(slaves()) == 2
        run.network.cut(slaves()[0], run.controllers[0])

    def leave() -> None:
        for stream in list(slaves()[0].streams):
            stream.reset()
            stream.peer.reset()

    run.world.at(13.0, cut)
    if leaves:
        run.world.at(16.5, leave)
    run.world.at(18.5, lambda: slaves()[1].kill(is_power_cut=False))
    for second in (20.5, 24.5):
        run.world.at(second, lambda: seen.append(len(run.ledger.acknowledged)))
    run.check()
    return seen[1] - seen[0]


@pytest.mark.slow
def test_nor_does_one_that_would_join() -> None:
    """A slave follows its master, and the controller does not hear it."""
    told = 0
    for seed in range(12):
        run = Simulation(seed, mode="all in sync", kinds=[lambda run, seconds: None])
        if len(run.brokers) == 3:
            told += 1
            assert _acknowledged_without_one(run, leaves=True) > 0, seed
    assert told > 3


def handovers_lose(of: Product | None) -> bool:
    """Whether a history with handovers, on a slow network, and without other faults loses a message although only the
    master was asked."""
    handed_over = 0
    for seed in range(50, 70):  # with one in which a hasty master's messages are lost
        run = Simulation(seed, of, mode="lease", kinds=[faults.hand_over, faults.slow_down])
        run.check()
        handed_over += len(run.ledger.masters) > 1
        for broker in run.brokers:
            run.ledger.check_has_all(broker)
        if run.ledger.violation:
            return True
    assert handed_over > 2
    return False


@pytest.mark.slow
def test_a_handover_loses_nothing_even_if_only_the_master_was_asked() -> None:
    assert not handovers_lose(None)
    assert handovers_lose(Product(hands_over_to_one_that_is_behind))


def killed_in_a_handover(of: Product | None) -> Simulation:
    """A history in which a successor is cut off from its master, which is killed before it can hand over."""
    runs = (Simulation(seed, of, mode="all in sync", kinds=[lambda run, seconds: None]) for seed in itertools.count())
    run = next(each for each in runs if len(each.brokers) == 3)
    run._begin_s, run._faults_end_s = 10.0, 16.0

    def begin() -> None:
        (master,) = [broker for broker in run.brokers if broker.is_master]
        successor = next(broker for broker in run.brokers if broker is not master)
        run.network.cut(master, successor)
        master.soon(lambda: master.put(LACKED, lambda answer: None))
        run.world.after(0.1, lambda: run.controllers[0].designate(successor.member.state.own_id))
        run.world.after(0.4, lambda: master.kill(is_power_cut=False))

    run.world.at(14.0, begin)
    return run


def test_a_handover_ends_with_its_master() -> None:
    """The next master was asked for its lease, too, and let its clients wait."""
    killed_in_a_handover(None).check()
    with pytest.raises(Violation, match="lets its clients wait in epoch 2"):
        killed_in_a_handover(Product(asks_the_next_master_to_hand_over)).check()


def test_a_lease_goes_on_while_a_successor_is_behind() -> None:
    """An operator repeats a handover until it succeeds. The master's lease was not renewed meanwhile."""

    async def is_behind(*args: Any) -> bool:
        await tasks.sleep(1)
        return False

    def change(product: Product) -> None:
        product.member.has_caught_up = is_behind

    run = Simulation(1, Product(change), mode="lease", kinds=[lambda run, seconds: None])
    run._begin_s, run._faults_end_s = 10.0, 22.0
    seen: list[int] = []

    def again() -> None:
        (slave, *_) = [broker for broker in run.brokers if not broker.is_master]
        run.controllers[0].designate(slave.member.state.own_id)
        if run.world.now_s < 22:
            run.world.after(0.1, again)

    run.world.at(14.0, again)
    for second in (18.0, 22.0):
        run.world.at(second, lambda: seen.append(len(run.ledger.acknowledged)))
    run.check()
    assert seen[1] > seen[0] + 10


@pytest.mark.parametrize("controllers", [1, 3])
def test_a_seed_is_a_history(controllers: int) -> None:
    runs = [Simulation(7, controllers=controllers, is_recorded=True) for _ in range(2)]
    for run in runs:
        run.check()
    assert runs[0].world.lines == runs[1].world.lines
    assert len(runs[0].world.lines or ()) > 40


@pytest.mark.parametrize(
    "variant",
    [
        slave_reports_before_it_writes, takes_messages_with_too_few, takes_the_end_of_a_connection_for_death,
        elects_before_the_lease_is_back,
    ],
)  # fmt: skip
def test_a_broken_rule_shows_soon(variant: Variant) -> None:
    assert first_caught(variant, QUICK_SEEDS) is not None


def test_a_broken_quorum_shows_soon() -> None:
    assert first_caught(answers_before_etcd_has_it, QUICK_SEEDS, 3) is not None


@pytest.mark.slow
@pytest.mark.parametrize("variant", QUORUM_VARIANTS)
def test_every_broken_rule_of_a_quorum_shows(variant: Variant) -> None:
    assert first_caught(variant, SEEDS_OF_A_VARIANT, 3) is not None


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_broken_rule_shows(variant: Variant) -> None:
    assert first_caught(variant, SEEDS_OF_A_VARIANT) is not None


def relieved(mode: str, room: Room, of: Product | None = None) -> Simulation:
    """A history in which the first master's disk is full, as nothing else fails, until everything is mended."""
    run = Simulation(3, of, mode=mode, kinds=[lambda run, seconds: None])
    run._begin_s, run._faults_end_s = 10.0, 20.0

    def fill() -> None:
        (master,) = [broker for broker in run.brokers if broker.is_master]
        master.log_on_disk.room = room
        taken = len(run.ledger.acknowledged)

        def look() -> None:
            if len(run.ledger.acknowledged) < taken + 10:
                run.ledger.violated("no broker takes messages, and only one disk is full")

        run.world.at(20.0, look)

    run.world.at(14.0, fill)
    return run


@pytest.mark.parametrize("room", [Room.LITTLE, Room.NONE])
@pytest.mark.parametrize("mode", ["all in sync", "two in sync", "lease"])
def test_a_master_whose_disk_is_full_hands_over(mode: str, room: Room) -> None:
    """Its set took no messages until somebody noticed."""
    run = relieved(mode, room)
    run.check()
    for broker in run.brokers:
        run.ledger.check_has_all(broker)
    assert not run.ledger.violation


def test_without_that_the_set_takes_no_messages() -> None:
    with pytest.raises(Violation, match="only one disk is full"):
        relieved("all in sync", Room.LITTLE, Product(relieves_nobody)).check()


def full_alone(of: Product | None = None) -> Simulation:
    """A history in which the other brokers are dead, and the master's disk is full for a while."""
    run = Simulation(3, of, mode="all in sync", kinds=[lambda run, seconds: None])
    run._begin_s, run._faults_end_s = 10.0, 60.0

    def begin() -> None:
        (master,) = [broker for broker in run.brokers if broker.is_master]
        for broker in run.brokers:
            if broker is not master:
                broker.kill(is_power_cut=False)
        run.world.at(40.0, lambda: fill(master))
        run.world.at(44.0, lambda: freed(master))

    def fill(master: SimulatedBroker) -> None:
        master.log_on_disk.room = Room.NONE
        master.opened.store._failed("flush")

    def freed(master: SimulatedBroker) -> None:
        master.log_on_disk.free()
        taken = len(run.ledger.acknowledged)
        run.world.at(59.0, lambda: look(taken))

    def look(taken: int) -> None:
        if len(run.ledger.acknowledged) < taken + 10:
            run.ledger.violated("the disk has room again, and no messages are taken")

    run.world.at(14.0, begin)
    return run


def test_a_master_that_is_alone_takes_messages_when_its_disk_has_room_again() -> None:
    """It waited until somebody had started it again."""
    full_alone().check()
    with pytest.raises(Violation, match="the disk has room again"):
        full_alone(Product(no_master_opens_its_store_again)).check()
