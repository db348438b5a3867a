"""Which brokers the memory of a cluster knows, and what the log says when they change their ids."""

from __future__ import annotations

import msgspec
import pytest

from rmqadmin.core.health.facts import BrokerFacts
from rmqadmin.tui.memory.cluster import ClusterMemory
from rmqadmin.tui.memory.pulse_memory import PulseMemory
from rmqproto.bodies.routes import BrokerData, ClusterInfo

ONE, TWO = "127.0.0.1:1", "127.0.0.1:2"
NEW = "127.0.0.1:9"


class Watched:
    """A set of brokers as the dashboard watches it."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.memory = ClusterMemory(lambda: self.now_ms)
        self.pulse = PulseMemory(lambda: self.now_ms)

    def look(self, broker_addrs: dict[int, str]) -> dict[str, str]:
        """Takes what the name server lists ten seconds later, and returns the address of each broker, and whether it is
        gone."""
        self.now_ms += 10_000
        table = {"a": BrokerData(broker_addrs=broker_addrs, broker_name="a", cluster="C")} if broker_addrs else {}
        seen = self.memory.see(ClusterInfo(broker_addr_table=table, cluster_addr_table={"C": list(table)})).seen
        readings = {
            key: BrokerFacts(
                replica=msgspec.structs.replace(one.replica, info={"bootTimestamp": one.replica.broker_addr[-1]}),
                asked_ms=self.now_ms,
                answered_ms=self.now_ms,
            )
            for key, one in seen.items()
            if one.gone_since_ms is None
        }
        self.pulse.take_brokers(seen, readings)
        return {
            key: one.replica.broker_addr + ("" if one.gone_since_ms is None else f" {self.now_ms - one.gone_since_ms}")
            for key, one in seen.items()
        }

    def told(self) -> list[str]:
        found = [f"{one.subject.name} {one.text}" for one in self.pulse.log.newest_first() if one.subject]
        return found[::-1]


@pytest.fixture
def watched() -> Watched:
    found = Watched()
    assert found.look({0: ONE, 2: TWO}) == {"a/0": ONE, "a/2": TWO}
    return found


def test_a_handover_is_no_restart(watched: Watched) -> None:
    assert watched.look({0: TWO, 1: ONE}) == {"a/0": TWO, "a/1": ONE}
    assert watched.told() == [f"a/0 is {TWO} now, was {ONE}", "a/1 was a/0 before"]


def test_a_master_that_dies_stays_in_the_list_though_its_slave_has_its_id(watched: Watched) -> None:
    lost = f"a/0 at {ONE}"
    assert watched.look({0: TWO}) == {"a/0": TWO, lost: f"{ONE} 10000"}
    assert watched.look({0: TWO}) == {"a/0": TWO, lost: f"{ONE} 20000"}
    assert [one.finding.subject.name for one in watched.pulse.wrong()] == [lost]
    assert watched.told() == [f"a/0 is {TWO} now, was {ONE}", f"{lost} is gone"]
    assert watched.look({0: TWO, 1: ONE}) == {"a/0": TWO, "a/1": ONE}
    assert not watched.pulse.wrong()


def test_nor_is_it_forgotten_if_nobody_was_master_meanwhile(watched: Watched) -> None:
    assert watched.look({2: TWO}) == {"a/0": f"{ONE} 10000", "a/2": TWO}
    assert watched.look({0: TWO}) == {"a/0": TWO, f"a/0 at {ONE}": f"{ONE} 20000"}
    watched.memory.forget(f"a/0 at {ONE}")
    assert watched.look({0: TWO}) == {"a/0": TWO}


def test_a_broker_that_has_moved_is_not_gone(watched: Watched) -> None:
    assert watched.look({0: NEW, 2: TWO}) == {"a/0": NEW, "a/2": TWO}
    assert watched.told() == [f"a/0 is {NEW} now, was {ONE}"]
