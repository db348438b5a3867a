"""Masters and slaves on the dashboard: a handover during the session, how to get there, and the memory of brokers that
are gone."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import ClassVar

import pytest

from rmqadmin.tui.screens.pulse import PulseScreen
from rmqclient.admin import AdminClient
from rmqproto.bodies.replication import HaStatus, ReplicaSets
from rmqproto.bodies.routes import ClusterInfo
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError
from tests.rmqadmin.tui.fixed import NOW_MS, FixedSetClient
from tests.rmqadmin.tui.opened import Driver, clients_of, drive
from tests.support import servers
from tests.support.broker_set import BROKER_NAME, BrokerSet
from tests.support.servers import until

WIDE = (200, 40)


@pytest.mark.slow
@pytest.mark.dashboard(make_client=FixedSetClient, size=WIDE, now_ms=NOW_MS)
async def test_the_place_leads_there_and_back_to_the_cluster(driver: Driver) -> None:
    await driver.press("colon")
    await driver.enter("replicas", into="command")
    await driver.until_shown("Brokers › Replicas", "not in sync", "2 sets, 4 brokers")
    await driver.press("escape")
    await driver.until_shown("in/s")


@pytest.fixture
def two(tmp_path: Path) -> Iterator[BrokerSet]:
    with ExitStack() as stack:
        controller = stack.enter_context(servers.controller(tmp_path / "controller"))
        namesrv = stack.enter_context(servers.namesrv(tmp_path / "namesrv"))
        admin = stack.enter_context(AdminClient(namesrv.namesrv_addr, timeout_s=60))
        made = BrokerSet(tmp_path, controller.controller_addr, namesrv, admin)
        for number in (1, 2):
            made.start(number, slaveTimeout="20000")
            until(lambda number=number: number in in_sync(made))
        yield made
        for server in made.brokers.values():
            server.stop()


def in_sync(found: BrokerSet) -> list[int]:
    known = found.admin.replica_sets(found.controller_addr, [BROKER_NAME]).replicas_info_table
    return [one.broker_id for each in known.values() for one in each.in_sync_replicas]


def lines_of(driver: Driver, *words: str) -> list[str]:
    return [line for line in driver.text.splitlines() if all(word in line for word in words)]


@pytest.mark.slow
def test_a_handover_as_it_happens_and_a_master_that_is_killed(two: BrokerSet) -> None:
    first, second = two.brokers[1].broker_addr, two.brokers[2].broker_addr
    until(two.controller_is_settled)
    until(lambda: two.takes(1))

    async def test(driver: Driver) -> None:
        await driver.press("c")
        await driver.until_shown(first, second)
        await driver.press("5")
        await driver.until_shown("every set has its master, and all are in sync", "Changes: 0")
        await driver.until(lambda: bool(lines_of(driver, first, "master", "in sync", " s ")))
        two.admin.elect_master(two.controller_addr, "DefaultCluster", BROKER_NAME, 2, 0)
        await driver.until(lambda: bool(lines_of(driver, f"{second} became its master, after {first}, epoch 1 → 2")))
        await driver.until(lambda: bool(lines_of(driver, first, "slave", "in sync")))
        await driver.until_shown("every set has its master, and all are in sync")
        two.brokers[2].stop(signal.SIGKILL)
        await driver.until(lambda: bool(lines_of(driver, f"{first} became its master, after {second}, epoch 2 → 3")))
        await driver.until_shown("id 2 is not in sync any more, 1 of 2 are", f"if {first} is lost, nobody takes over")
        two.brokers[1].stop(signal.SIGKILL)
        await driver.until_shown("has had no master for", "none that was in sync is alive")
        await driver.press("h")
        await driver.until(lambda: bool(lines_of(driver, f"{first} became its master")))

    drive(clients_of(two.namesrv.namesrv_addr), test, size=WIDE)


class Forgotten(FixedSetClient):
    """The name server has forgotten broker 3, which its controller still knows."""

    def cluster_info(self) -> ClusterInfo:
        found = super().cluster_info()
        del found.broker_addr_table["broker-a"].broker_addrs[3]
        return found


@pytest.mark.slow
@pytest.mark.dashboard(make_client=Forgotten, size=WIDE, now_ms=NOW_MS)
async def test_the_pulse_tells_of_a_slave_that_was_lost_before_it_began(driver: Driver) -> None:
    await driver.until(lambda: bool(lines_of(driver, "broker-a", "2 of 3 are in sync, without broker-a/3")))
    assert "all is well" not in driver.text
    pulse = driver.app.screen
    assert isinstance(pulse, PulseScreen)
    pulse.troubles.focus()
    pulse.troubles.move_to("set of brokers/broker-a/in-sync")
    assert pulse.selected()["BROKER"] == "broker-a"
    await driver.press("l")
    await driver.until_shown("no numbers to plot")
    await driver.press("enter")
    await driver.until_shown("Pulse › Replicas", "not in sync")


class Leaving(FixedSetClient):
    """Broker 2 falls out of the set when the test says so."""

    leaves: ClassVar[list[int]] = []

    def replica_sets(self, controller_addr: str, broker_names: Sequence[str]) -> ReplicaSets:
        found = super().replica_sets(controller_addr, broker_names)
        for one in found.replicas_info_table.values():
            one.in_sync_replicas = [each for each in one.in_sync_replicas if each.broker_id not in self.leaves]
        return found


@pytest.mark.slow
def test_a_change_of_a_set_leads_from_the_pulse_to_masters(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line named no broker and led nowhere."""
    monkeypatch.setattr(Leaving, "leaves", [])

    async def test(driver: Driver) -> None:
        pulse = driver.app.screen
        assert isinstance(pulse, PulseScreen)
        await driver.press("c", "5")
        await driver.until_shown("2 sets, 4 brokers", "Changes: 0")
        Leaving.leaves.append(2)
        await driver.until_shown("id 2 is not in sync any more, 1 of 3 are")
        await driver.press("h")
        await driver.until(lambda: bool(lines_of(driver, "broker-a ", " id 2 is not in sync any more, 1 of 3 are")))
        key = next(one for one in pulse.changes.row_keys() if "not in sync" in pulse.changes.part(one).change.text)
        pulse.changes.focus()
        pulse.changes.move_to(key)
        await driver.until(lambda: driver.app.focused is pulse.changes and pulse.changes.cursor_key == key)
        await driver.press("enter")
        await driver.until_shown("Pulse › Replicas", "2 sets, 4 brokers")

    drive(Leaving, test, size=WIDE, now_ms=NOW_MS)


class Deaf(FixedSetClient):
    """The user may not ask brokers."""

    def broker_config(self, broker_addr: str, *, with_own_defaults: bool = False) -> dict[str, str]:
        raise RefusedError(ResponseCode.NO_PERMISSION, "no", address=broker_addr)

    def ha_status(self, broker_addr: str) -> HaStatus:
        raise RefusedError(ResponseCode.NO_PERMISSION, "no", address=broker_addr)


@pytest.mark.slow
@pytest.mark.dashboard(make_client=Deaf, size=WIDE, now_ms=NOW_MS)
async def test_nothing_is_said_to_be_well_while_no_broker_answers(driver: Driver) -> None:
    await driver.press("c", "5")
    await driver.until_shown("unknown: 4 of 4 brokers cannot be asked", "NO_PERMISSION")
    assert "in sync" not in driver.text
