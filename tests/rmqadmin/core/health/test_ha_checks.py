"""What doctor and ``check ha`` conclude from the answers of controllers, masters and slaves, without servers."""

from collections.abc import Mapping, Sequence

import msgspec
import pytest

from rmqadmin.commands.checks import checked_set
from rmqadmin.core.health.finding import Check, Grade
from rmqadmin.core.health.ha_checks import behind_findings, controllers_findings, ha_findings, set_findings
from rmqadmin.core.health.plugin_text import PluginState
from rmqadmin.core.servers.ha_sets import (
    AskedController,
    AskedControllers,
    HaFacts,
    HaMember,
    HaSet,
    KnownBroker,
    in_sync_text,
)
from rmqproto.bodies.replication import HaClient, HaStatus, ReplicaIdentity, ReplicaSet
from rmqproto.headers.controller import ControllerMetaAnswer
from tests.support.quick import in_one_test

NOW_MS = 1_700_000_000_000
END = 1 << 30
ADDRS = {broker_id: f"10.0.0.{broker_id}:10911" for broker_id in (1, 2, 3)}


def master(broker_id: int = 1, *, end: int = END, in_sync_slaves: int = 0, epoch: int | None = None) -> HaMember:
    status = HaStatus(master=True, master_commit_log_max_offset=end, in_sync_slave_nums=in_sync_slaves)
    return HaMember(
        broker_id=broker_id, broker_addr=ADDRS[broker_id], is_alive=True, in_sync=True, status=status, last_epoch=epoch
    )


def slave(
    broker_id: int = 2,
    *,
    behind: int = 0,
    read_ms: int = NOW_MS - 1000,
    first_missing_ms: int | None = None,
    in_sync: bool | None = True,
    is_alive: bool | None = True,
) -> HaMember:
    status = HaStatus(
        master=False, ha_client_runtime_info=HaClient(last_read_timestamp=read_ms, max_offset=END - behind)
    )
    return HaMember(
        broker_id=broker_id, broker_addr=ADDRS[broker_id], is_alive=is_alive, in_sync=in_sync, status=status,
        first_missing_ms=first_missing_ms,
    )  # fmt: skip


def dead(broker_id: int) -> HaMember:
    return HaMember(
        broker_id=broker_id, broker_addr=ADDRS[broker_id], is_alive=False, in_sync=False, error="cannot connect"
    )


def controlled(
    *members: HaMember, master_id: int | None = 1, registered_master: int | None = 1, **config: str
) -> HaSet:
    def identities(of: Sequence[HaMember]) -> list[ReplicaIdentity]:
        return [
            ReplicaIdentity(broker_id=each.broker_id, broker_address=each.broker_addr, alive=bool(each.is_alive))
            for each in of
        ]

    known = ReplicaSet(
        in_sync_replicas=identities([each for each in members if each.in_sync]),
        not_in_sync_replicas=identities([each for each in members if not each.in_sync]),
        master_broker_id=master_id,
        master_address=None if master_id is None else ADDRS[master_id],
        master_epoch=3,
    )
    return HaSet(
        cluster="c", broker_name="broker-a", members=list(members), has_controllers=True,
        controller_addrs="10.0.0.9:9878;10.0.0.8:9878", known=known,
        registered_master=None if registered_master is None else ADDRS[registered_master], config=config,
    )  # fmt: skip


def plain(*members: HaMember, **config: str) -> HaSet:
    return HaSet(
        cluster="c", broker_name="broker-a", members=list(members), has_controllers=False,
        registered_master=ADDRS[1], config=config,
    )  # fmt: skip


def told(one: HaSet) -> list[tuple[str, str, str]]:
    """The findings about a set that are not OK: grade, check, what."""
    found = [*set_findings(one, NOW_MS), *behind_findings(one, NOW_MS)]
    assert all(each.fix for each in found if each.grade is not Grade.OK), "each finding says what to do"
    return [(each.grade, each.check, each.what) for each in found if each.grade is not Grade.OK]


def test_check_ha_tells_of_a_frozen_member_while_the_controller_still_counts_it() -> None:
    """It asked the slave, waited for the time-out, and said that all are in sync."""
    frozen = msgspec.structs.replace(slave(3), status=None, error="10.0.0.3:10911 did not answer")
    checked = checked_set(controlled(master(), slave(2), frozen), None, ({}, {}), NOW_MS)
    assert (checked.state, checked.what) == (
        PluginState.WARNING, "broker-a/3 cannot be asked: 10.0.0.3:10911 did not answer"
    )  # fmt: skip
    lead = msgspec.structs.replace(master(), status=None, error="10.0.0.1:10911 did not answer")
    assert checked_set(controlled(lead, slave(2)), None, ({}, {}), NOW_MS).state is PluginState.CRITICAL
    gone = checked_set(controlled(master(), slave(2), dead(3)), None, ({}, {}), NOW_MS)
    assert (gone.state, "cannot be asked" in gone.what) == (PluginState.WARNING, False)


@pytest.mark.parametrize(
    "one",
    [
        controlled(master(), slave(2), slave(3, behind=4096, first_missing_ms=NOW_MS - 200), minInSyncReplicas="2"),
        controlled(master()),
        plain(master(in_sync_slaves=1), slave(), brokerRole="SYNC_MASTER", inSyncReplicas="2"),
        plain(master()),
    ],
    ids=["controlled", "one controlled", "plain", "alone"],
)
def test_of_a_set_that_is_well_there_is_nothing_to_say(one: HaSet) -> None:
    assert told(one) == []


@in_one_test(
    (controlled(master(), dead(2), minInSyncReplicas="2"), "error", "in-sync", "takes no messages: 1 in sync, and"),
    (controlled(master(), dead(2), dead(3)), "warning", "in-sync", "one of 3 is in sync: if 10.0.0.1:10911"),
    (controlled(master(), slave(2), dead(3)), "warning", "in-sync", "2 of 3 are in sync, without broker-a/3"),
    (controlled(slave(1, is_alive=False), slave(2, in_sync=False), master_id=None), "error", "in-sync", "no m"),
    (
        plain(master(), slave(read_ms=0), brokerRole="SYNC_MASTER", inSyncReplicas="2"),
        "error",
        "in-sync",
        "has 1 of the 2 copies that inSyncReplicas wants",
    ),
    (controlled(master(epoch=3), master(2, epoch=3)), "error", "masters", "(epoch 3)"),
    (controlled(master(epoch=2), master(2, epoch=3), master_id=2), "error", "masters", "older epoch takes are cut"),
    (plain(master(), master(2)), "error", "masters", "Messages that one of them takes are missing at the others"),
    (controlled(slave(1), master(2)), "warning", "masters", "10.0.0.2:10911 says that it is"),
    (
        controlled(master(), slave(2), registered_master=2),
        "warning",
        "masters",
        "send clients to 10.0.0.2:10911, and the controller's master is 10.0.0.1:10911",
    ),
    (plain(master(), slave(behind=-2048)), "error", "replica-lag", "2.0 KiB longer than that of its master"),
    (plain(master(), slave(read_ms=0)), "error", "replica-lag", "has never reached its master"),
    (plain(master(), slave(read_ms=NOW_MS - 60_000)), "error", "replica-lag", "heard nothing of its master"),
    (plain(master(), slave(behind=300 << 20)), "warning", "replica-lag", "is 300.0 MiB behind its master"),
    (plain(master(), slave(behind=8192), haMaxGapNotInSync="4096"), "warning", "replica-lag", "is 8.0 KiB behind"),
    (
        plain(master(), slave(behind=8192, first_missing_ms=NOW_MS - 185_000)),
        "warning",
        "replica-lag",
        "is 8.0 KiB behind its master, the first of it waits for 3m05s",
    ),
)  # fmt: skip
def test_what_is_found_of_a_set(one: HaSet, grade: str, check: str, said: str) -> None:
    found = [each for each in told(one) if each[:2] == (grade, check)]
    assert len(found) == 1, told(one)
    assert said in found[0][2]


def test_the_fix_names_the_commands_that_mend_it() -> None:
    fixes = {each.check: each.fix or "" for each in set_findings(controlled(master(), slave(2), dead(3)), NOW_MS)}
    wanted = "rmqadmin cleanBrokerMetadata -a '10.0.0.9:9878;10.0.0.8:9878' -bn broker-a -c c -b '3'"  # any controller
    assert wanted in fixes[Check.IN_SYNC]
    short = set_findings(controlled(master(), dead(2), minInSyncReplicas="2"), NOW_MS)
    fixes = {each.check: each.fix or "" for each in short}
    assert "updateBrokerConfig -b 10.0.0.1:10911 -k minInSyncReplicas -v 1" in fixes[Check.IN_SYNC]
    catching_up = controlled(master(), slave(2, in_sync=False), dead(3))
    fixes = {each.check: each.fix or "" for each in set_findings(catching_up, NOW_MS)}
    assert fixes[Check.IN_SYNC].startswith(
        "Start broker-a/3 at 10.0.0.3:10911, which is dead. rmqadmin getSyncStateSet "
    )
    assert fixes[Check.IN_SYNC].endswith(" --watch shows when broker-a/2 has caught up.")
    alive = set_findings(controlled(master(), slave(2), slave(3, in_sync=False)), NOW_MS)
    fixes = {each.check: each.fix or "" for each in alive}
    assert not {"Start", "cleanBrokerMetadata"} & set(fixes[Check.IN_SYNC].split()), "it lives: it only has to catch up"
    both = controlled(master(), master(2), master_id=2, registered_master=2)
    two = {each.check: each.fix or "" for each in set_findings(both, NOW_MS)}
    assert two[Check.MASTERS].startswith("Stop 10.0.0.1:10911; 10.0.0.2:10911 is the one that counts")


def controllers(answers: Mapping[str, ControllerMetaAnswer | None], *, knows: bool = True) -> AskedControllers:
    return AskedControllers(
        controllers=[
            AskedController(addr=addr, meta=meta, error=None if meta else f"cannot connect to {addr}")
            for addr, meta in answers.items()
        ],
        broker_names=["broker-a"],
        known={} if knows else None,
        error=None if knows else "no right",
    )


def meta(leader: str | None, *, leads: bool = False, group: str = "group1") -> ControllerMetaAnswer:
    return ControllerMetaAnswer(group=group, controller_leader_address=leader, is_leader=leads)


@in_one_test(
    (controllers({"a:1": meta("a:1", leads=True), "b:1": meta("a:1")}), "ok", "a:1 leads, 2 controllers answer"),
    (controllers({"a:1": meta("a:1"), "b:1": meta(None)}), "ok", "a:1 leads"),
    (controllers({"a:1": None, "b:1": None}), "error", "no controller answers (cannot connect to a:1; cannot"),
    (controllers({"a:1": meta("a:1"), "b:1": None}), "warning", "does not answer: cannot connect to b:1"),
    (controllers({"a:1": meta("a:1"), "b:1": meta("b:1")}), "error", "b:1 says that b:1 leads"),
    (controllers({"a:1": meta("a:1", leads=True), "b:1": meta("a:1", leads=True)}), "error", "each of a:1 and b:1"),
    (controllers({"a:1": meta("a:1"), "b:1": meta("a:1", group="g2")}), "error", "b:1 is of the group g2"),
    (controllers({"a:1": meta(None), "b:1": meta("")}), "error", "no controller leads"),
    (controllers({"a:1": meta("a:1")}, knows=False), "warning", "does not report its sets: no right"),
)
def test_what_is_found_of_controllers(one: AskedControllers, grade: str, said: str) -> None:
    (found,) = controllers_findings(one)
    assert (found.grade, found.check) == (grade, Check.CONTROLLERS)
    assert said in found.what
    assert bool(found.fix) is (grade != "ok")


def test_brokers_of_a_set_that_name_different_controllers() -> None:
    one, other = controllers({"a:1": meta("a:1")}), controllers({"b:1": meta("b:1")})
    found = [each.what for each in ha_findings(HaFacts(sets=[], controllers=[one, other]), NOW_MS) if each.fix]
    assert found == ["its brokers name different controllers: a:1 and b:1"]
    turned = [
        controllers({"a:1": meta("a:1"), "b:1": meta("a:1")}),
        controllers({"b:1": meta("a:1"), "a:1": meta("a:1")}),
    ]
    assert [each for each in ha_findings(HaFacts(sets=[], controllers=turned), NOW_MS) if each.fix] == []


@pytest.mark.parametrize(
    ("config", "addrs"),
    [
        ({"enableControllerMode": "true", "controllerAddr": "a:1;b:2"}, ("a:1", "b:2")),
        ({"enableControllerMode": "false", "controllerAddr": "a:1"}, ()),
        ({"enableControllerMode": "true", "controllerAddr": "no address"}, ()),
        ({"enableControllerMode": "true"}, ()),
    ],
)
def test_which_controllers_a_broker_names(config: dict[str, str], addrs: tuple[str, ...]) -> None:
    one = KnownBroker(cluster="c", broker_name="a", broker_id=0, broker_addr="h:1", config=config)
    assert one.controller_addrs == addrs


def test_a_broker_of_which_no_slave_is_known_is_in_sync_with_nobody() -> None:
    """``check ha`` said of single brokers that all were in sync."""
    alone, two = plain(master()), plain(master(in_sync_slaves=1), slave())
    assert in_sync_text([alone, alone]) == "no slave is known"
    assert in_sync_text([two, two]) == "all are in sync"
    assert in_sync_text([alone, two]) == "no slave is known of 1; the others are in sync"
