"""What doctor finds of a server's clock, users and read positions, and of servers in the middle of a handover."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqadmin.core.health.broker_checks import broker_time_ms, clock_skew_ms
from rmqadmin.core.health.cluster_checks import controllers_access, read_controller_configs
from rmqadmin.core.health.facts import BrokerFacts, ClusterFacts
from rmqadmin.core.health.group_checks import position_findings, with_positions
from rmqadmin.core.health.ha_checks import AGAIN_AFTER_S, ServerFacts, read_settled
from rmqadmin.core.servers.broker_state import Replica
from rmqadmin.core.servers.ha_sets import HaFacts, HaSet
from rmqclient.admin import AdminClient
from rmqproto.bodies.statistics import DelayOffsets
from rmqproto.errors import RefusedError
from rmqproto.names import SCHEDULE_TOPIC, TRANSACTION_HALF_TOPIC, revive_topic
from rmqproto.wire.credentials import Credentials
from rmqserver.broker.admin.runtime_info import runtime_text
from tests.rmqadmin.core.health.test_ha_checks import controlled, dead, master, slave
from tests.support import servers


def test_whether_a_controller_asks_who_somebody_is(tmp_path: Path) -> None:
    """127.1 is 127.0.0.1, spelled so that it does not look like an address of this machine alone. One that does not
    answer says nothing. How settings are judged: name servers, in ``test_checks``."""
    user = Credentials("root", "root-secret")
    on = (
        "--set", "authenticationEnabled=true",
        "--set", f'initAuthenticationUser={{"username":"{user.access_key}","password":"{user.secret_key}"}}',
    )  # fmt: skip
    with (
        servers.controller(tmp_path / "open", "--listen", "127.1") as open_to_all,
        servers.controller(tmp_path / "guarded", "--listen", "127.1", *on) as guarded,
        AdminClient("127.0.0.1:1", user) as admin,
    ):
        addrs = [open_to_all.controller_addr, guarded.controller_addr]
        asked = read_controller_configs(admin, [*addrs, "127.0.0.1:1", *addrs])
        found = {one.subject.name: one for one in controllers_access(asked)}
    assert len(found) == 2
    assert (found[addrs[0]].check, found[addrs[0]].grade) == ("access", "warning")
    assert "authenticationEnabled=true in its settings" in (found[addrs[0]].fix or "")
    assert (found[addrs[1]].grade, found[addrs[1]].what) == ("ok", "checks users")


BOOT_MS = 1_700_000_000_000


def told(boot_ms: int, now_ms: int) -> dict[str, str]:
    """The answer of a broker whose clock shows ``now_ms``."""
    return {"bootTimestamp": str(boot_ms), "runtime": runtime_text(now_ms - boot_ms)}


@given(st.integers(0, 10**11), st.integers(-(10**9), 10**9), st.integers(0, 5000))
def test_a_clock_that_is_right_is_never_called_wrong_and_one_that_is_wrong_by_more_than_it_took_is(
    running_ms: int, skew_ms: int, took_ms: int
) -> None:
    asked_ms = BOOT_MS + running_ms + 10**9
    answered_ms = asked_ms + took_ms
    boot_ms = asked_ms + skew_ms - running_ms
    found = clock_skew_ms(told(boot_ms, asked_ms + skew_ms), asked_ms, answered_ms)
    assert found is not None
    assert abs(found) <= abs(skew_ms)
    assert found == 0 or (found > 0) == (skew_ms > 0)
    assert abs(found) >= abs(skew_ms) - took_ms - 1000


def test_a_broker_that_does_not_say_has_no_time() -> None:
    for info in ({}, {"bootTimestamp": "1"}, {"bootTimestamp": "x", "runtime": runtime_text(1)}, {"runtime": "[ ]"}):
        assert broker_time_ms(info) is None
        assert clock_skew_ms(info, 0, 0) is None


AFTER = controlled(master(2), slave(1), master_id=2, registered_master=2)


def looked_at(*readings: HaSet) -> tuple[list[float], HaSet]:
    """How long it waited before each reading but the first, and the set that it took."""
    left, slept_s = [*readings], list[float]()
    cluster: Any = None

    def read() -> ServerFacts:
        return ServerFacts(cluster, HaFacts(sets=[left.pop(0)], controllers=[]))

    found = read_settled(read, lambda text: None, slept_s.append)
    return slept_s, found.ha.sets[0]


@pytest.mark.parametrize(
    "before",
    [
        controlled(master(1), slave(2), master_id=2, registered_master=1),
        controlled(slave(1), master(2), master_id=2, registered_master=1),
        controlled(master(1), master(2), master_id=2, registered_master=2),
        controlled(slave(1, in_sync=False), master(2), master_id=2, registered_master=2),
        controlled(slave(1), master(2), master_id=2, registered_master=None),
    ],
    ids=["elected", "opened", "both", "alone", "not registered"],
)
def test_a_set_that_changes_its_master_is_asked_again(before: HaSet) -> None:
    """Doctor said that a broker had never reached its master, and that one with the id 0 was a slave: errors, where
    nothing was wrong a second later."""
    assert looked_at(before, AFTER) == ([AGAIN_AFTER_S], AFTER)


def test_what_stays_so_is_told() -> None:
    alone = controlled(master(1), slave(2, in_sync=False))
    assert looked_at(alone, alone) == ([AGAIN_AFTER_S], alone)


@pytest.mark.parametrize(
    "found", [AFTER, controlled(master(1), dead(2)), controlled(dead(1), dead(2), master_id=None)],
    ids=["well", "a dead slave", "no master"],
)  # fmt: skip
def test_one_that_does_not_is_asked_once(found: HaSet) -> None:
    assert looked_at(found) == ([], found)


class Broker:
    """Answers as a broker with these delay offsets, committed offsets and ends of queues does."""

    def __init__(self, delays: Mapping[int, int], committed: Mapping[tuple[str, int], int], ends: Mapping[Any, int]):
        self.delays, self.committed, self.ends = delays, committed, ends

    def delay_offsets(self, addr: str) -> DelayOffsets:
        return DelayOffsets(offset_table=dict(self.delays))

    def consumer_offset(self, addr: str, group: str, topic: str, queue_id: int) -> int | None:
        return self.committed.get((topic, queue_id))

    def max_offset(self, addr: str, topic: str, queue_id: int) -> int:
        return self.ends.get((topic, queue_id), 0)


def found(broker: Any, info: Mapping[str, str]) -> list[str]:
    replica = Replica("DefaultCluster", "broker-a", 0, "127.0.0.1:1", dict(info))
    facts = ClusterFacts(namesrvs=[], brokers=[BrokerFacts(replica=replica, asked_ms=0, answered_ms=0)])
    return [one.what for one in position_findings(with_positions(cast(AdminClient, broker), facts))]


def test_positions_within_their_logs_are_well() -> None:
    ends = {(SCHEDULE_TOPIC, 2): 5, (TRANSACTION_HALF_TOPIC, 0): 7}
    broker = Broker({3: 5, 4: 0}, {(TRANSACTION_HALF_TOPIC, 0): 7}, ends)
    assert found(broker, {"timerOffsetBehind": "0"}) == []


def test_each_position_beyond_an_end_is_named() -> None:
    revive = revive_topic("DefaultCluster")
    broker = Broker({3: 6}, {(TRANSACTION_HALF_TOPIC, 0): 8, (revive, 7): 1}, {(SCHEDULE_TOPIC, 2): 5})
    assert found(broker, {"timerOffsetBehind": "-1200"}) == [
        "delayed messages come late or never: it reads on from beyond the end of delay level 3 (6 of 5)",
        f"half messages are not asked about: it reads on from beyond the end of {TRANSACTION_HALF_TOPIC}/0 (8 of 0)",
        "messages that POP consumers did not acknowledge do not come back: it reads on from beyond the end of "
        f"{revive}/7 (1 of 0)",
        "timers are lost: it reads on from beyond the end of the timer topic (by 1,200)",
    ]


def test_what_a_broker_refuses_to_tell_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RefusedError(16, "no")

    broker = Broker({}, {}, {})
    for name in ("delay_offsets", "consumer_offset"):
        monkeypatch.setattr(broker, name, refuse)
    assert found(broker, {}) == []
