"""What each check of doctor concludes from the servers' answers, without servers; and what is said of one topic, or
of one group, in a list."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pytest

from rmqadmin.core.groups.group_standing import NOBODY, GroupStanding, QueueStanding
from rmqadmin.core.groups.lag import Idle, LagTrend
from rmqadmin.core.groups.queue_owners import Member, QueueOwners
from rmqadmin.core.health.broker_checks import broker_findings, is_loopback_addr
from rmqadmin.core.health.cluster_checks import cluster_findings, namesrv_findings
from rmqadmin.core.health.facts import BrokerFacts, ClusterFacts, NamesrvFacts
from rmqadmin.core.health.finding import Finding, Grade
from rmqadmin.core.health.group_checks import (
    STUCK_AFTER_MS,
    STUCK_STEADY_AFTER_MS,
    group_findings,
    group_row_findings,
    groups_findings,
)
from rmqadmin.core.health.topic_checks import topic_row_findings
from rmqadmin.core.servers.broker_state import Replica
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import ClientConnection
from rmqproto.bodies.routes import BrokerData, ClusterInfo, TopicConfig
from rmqproto.bodies.statistics import ConsumeOffset
from rmqproto.errors import ConnectError, RocketMQError
from rmqproto.wording import names_told
from rmqserver.broker.admin.runtime_info import runtime_text
from tests.support.quick import in_one_test

NOW_MS = 1_700_000_000_000
NAMESRV = "10.0.0.9:9876"
QUEUE = MessageQueue("t", "broker-a", 0)


LATE = {"timerReadBehind": "75"}
"""On a slave it says nothing: only a master delivers timers."""


def info(**values: str) -> dict[str, str]:
    """A healthy broker's runtime information."""
    return {
        "brokerActive": "true", "brokerVersionDesc": "V5_5_0", "commitLogDiskRatio": "0.4",
        "consumeQueueDiskRatio": "0.4", "bootTimestamp": str(NOW_MS - 5000), "runtime": runtime_text(5000), **values,
    }  # fmt: skip


def broker(
    name: str = "broker-a",
    id: int = 0,
    addr: str = "10.0.0.1:10911",
    says: Mapping[str, str] | None = None,
    error: str | None = None,
    cluster: str = "c",
    **config: str,
) -> BrokerFacts:
    secure = {"authenticationEnabled": "true", "authorizationEnabled": "true", "flushDiskType": "SYNC_FLUSH"}
    return BrokerFacts(
        replica=Replica(
            cluster, name, id, addr, {} if error else info(**(says or {})), RocketMQError(error) if error else None
        ),
        asked_ms=NOW_MS,
        answered_ms=NOW_MS,
        config={**secure, **config},
    )


def facts(*brokers: BrokerFacts, namesrvs: Iterable[NamesrvFacts] = (NamesrvFacts(addr=NAMESRV),)) -> ClusterFacts:
    return ClusterFacts(namesrvs=list(namesrvs), brokers=list(brokers))


def bad(findings: Iterable[Finding]) -> list[tuple[str, str, str]]:
    return [(one.grade, one.check, one.what) for one in findings if one.grade is not Grade.OK]


def test_of_a_broker_that_is_well_there_is_nothing_to_say() -> None:
    whole = facts(broker())
    assert bad(broker_findings(facts(broker(says={"timerReadBehind": "2"}), broker(id=1, says=LATE)))) == []
    assert bad(broker_findings(whole)) == []
    assert bad(cluster_findings(whole)) == []
    assert len(list(broker_findings(whole))) == 5


def test_a_broker_of_ours_is_said_to_have_its_native_core_or_not() -> None:
    found = next(broker_findings(facts(broker(says={"core": "python"}))))
    assert (found.grade, found.what[-20:]) == (Grade.OK, ", on its python core")


def test_who_alone_reaches_a_broker_elsewhere_is_told_how() -> None:
    found = next(broker_findings(facts(broker(error="cannot connect"))))
    assert "--address-map 10.0.0.1:10911=HOST:PORT" in (found.fix or "")


def test_a_slave_of_apaches_is_not_expected_to_do_the_duties_of_a_master() -> None:
    """It reports false as long as it is a slave, and every one was an error."""
    slave = broker(id=2, says={"brokerActive": "false"})
    assert bad(broker_findings(facts(broker(), slave))) == []


@pytest.mark.parametrize(
    ("reason", "goes_on"),
    [
        ("disk of /data has 200 MiB left, the limit is 256 MiB", True),
        ("cannot write commit log file /data/0: No space left on device; disk of /data is 91% full", True),
        ("cannot write consume queue /data/T/0: Disk quota exceeded", True),
        ("cannot flush /data/0: Input/output error; disk of /data is 91% full", False),
    ],
)
def test_a_broker_that_waits_for_room_is_not_to_be_started_again(reason: str, goes_on: bool) -> None:
    one = facts(broker(says={"unwriteableReason": reason}))
    (found,) = [each for each in broker_findings(one) if each.grade is Grade.ERROR]
    assert ("goes on by itself" in str(found.fix)) is goes_on


def with_users(**config: str) -> BrokerFacts:
    return msgspec.structs.replace(broker(**config), user_count=2)


@in_one_test(
    (broker(error="cannot connect"), "error", "reachable", "does not answer at 10.0.0.1:10911, which"),
    (broker(addr="127.0.0.1:10911"), "warning", "reachable", "which only its own machine can reach"),
    (broker(says={"brokerActive": "false"}), "error", "serving", "does not serve"),
    (broker(says={"unwriteableReason": "disk full"}), "error", "serving", "writes no messages: disk full"),
    (broker(says={"followingProblem": "full"}), "error", "serving", "does not follow its master: full"),
    (broker(says=LATE), "warning", "timers", "timer messages come 1m15s late"),
    (broker(says={"runtime": runtime_text(5000 + 9000)}), "warning", "clock", "9 s ahead of"),
    (broker(says={"bootTimestamp": str(NOW_MS - 905_000)}), "error", "clock", "14m59s behind"),
    (broker(says={"commitLogDiskRatio": "0.76"}), "warning", "disk", "commit log is 76% full: above 75%"),
    (broker(says={"commitLogDiskRatio": "0.86"}), "error", "disk", "above 85% it deletes messages whatever"),
    (broker(says={"consumeQueueDiskRatio": "0.91"}), "error", "disk", "above 90% it takes no messages"),
    (broker(diskMaxUsedSpaceRatio="30"), "warning", "disk", "above 30%"),
    (broker(brokerPermission="4"), "warning", "permission", "permits only R (4) to all clients"),
    (broker(flushDiskType="ASYNC_FLUSH"), "note", "flush", "a power cut loses"),
    (broker(authenticationEnabled="false"), "warning", "access", "listens on 10.0.0.1:10911 and serves anybody"),
    (broker(authenticationEnabled="", bindAddress="0.0.0.0"), "warning", "access", "listens on 0.0.0.0"),
    (with_users(authenticationEnabled=""), "warning", "access", "keeps 2 users and checks none: authentication is"),
    (with_users(authenticationEnabled="", bindAddress="::1"), "note", "access", "keeps 2 users and checks none"),
    (broker(authorizationEnabled="false"), "warning", "access", "lets each do everything"),
    (broker(authenticationEnabled="", aclEnable="true"), "warning", "access", "plain_acl.yml"),
    (
        broker(addr="127.0.0.1:1", authenticationEnabled="", aclEnable="true", bindAddress="127.0.0.1"),
        "note",
        "access",
        "or takes no notice of aclEnable",
    ),
)
def test_what_a_broker_says_of_itself(one: BrokerFacts, grade: str, check: str, said: str) -> None:
    found = [each for each in bad(broker_findings(facts(one))) if each[:2] == (grade, check)]
    assert found, list(broker_findings(facts(one)))
    assert said in found[0][2]
    assert all(each.fix for each in broker_findings(facts(one)) if each.grade is not Grade.OK)


def test_who_listens_on_loopback_alone_needs_no_users() -> None:
    local = facts(broker(addr="127.0.0.1:1", authenticationEnabled="", bindAddress="127.0.0.1"), namesrvs=[])
    assert bad(broker_findings(local)) == []
    assert [is_loopback_addr(addr) for addr in ("127.9.0.1:1", "[::1]:1", "localhost:1", "10.0.0.1:1", "x", "h:1")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip


@in_one_test(
    ([broker(), broker(addr="10.0.0.2:10911")], "broker-names", "two brokers of this name and id"),
    ([broker(), broker(addr="10.0.0.2:10911", cluster="d")], "broker-names", "of several clusters: c, d"),
    ([broker(), broker("broker-b")], "broker-names", "is registered as several brokers: broker-a/0, broker-b/0"),
    ([broker(brokerName="broker-z")], "broker-names", "calls itself broker-z"),
    ([broker(id=1)], "roles", "has no master"),
    ([broker(brokerRole="SLAVE")], "roles", "registered with the id 0, and its role is SLAVE"),
    ([broker(brokerRole="SYNC_MASTER")], "roles", "without a slave that answers"),
    (
        [broker(), broker("broker-b", addr="10.0.0.2:1", says={"brokerVersionDesc": "V5_3_3"})],
        "versions",
        "different versions: V5_3_3: broker-b/0; V5_5_0: broker-a/0",
    ),
    (
        [broker(), broker("broker-b", addr="10.0.0.2:1", flushDiskType="ASYNC_FLUSH")],
        "flush",
        "depends on the broker",
    ),
)
def test_what_brokers_together_show(brokers: list[BrokerFacts], check: str, said: str) -> None:
    found = [what for _, name, what in bad(cluster_findings(facts(*brokers))) if name == check]
    assert any(said in what for what in found), found


def namesrv(addr: str, *topics: str, **brokers: str) -> NamesrvFacts:
    table = {name: BrokerData(broker_addrs={0: at}, broker_name=name, cluster="c") for name, at in brokers.items()}
    info = ClusterInfo(broker_addr_table=table, cluster_addr_table={"c": list(table)})
    return NamesrvFacts(addr=addr, cluster=info, topics=frozenset(topics))


def test_name_servers_that_do_not_answer_know_nobody_or_tell_different_things() -> None:
    one, two = namesrv("n1:1", "t", "u", a="h:1", b="h:2"), namesrv("n2:1", "t", a="h:1")
    assert bad(namesrv_findings(facts(namesrvs=[one, one]))) == []
    (brokers,) = bad(namesrv_findings(facts(namesrvs=[one, two])))
    assert brokers[:2] == ("error", "agreement")
    assert "does not know b" in brokers[2]
    (topics,) = bad(namesrv_findings(facts(namesrvs=[one, namesrv("n2:1", "t", a="h:1", b="h:2")])))
    assert topics == ("warning", "agreement", "lacks 1 topic that other name servers have: u")
    silent = NamesrvFacts(addr="n3:1", error="cannot connect")
    assert bad(namesrv_findings(facts(namesrvs=[silent]))) == [("error", "name-server", "cannot connect")]
    assert bad(namesrv_findings(facts(namesrvs=[namesrv("n1:1")]))) == [("error", "name-server", "knows no broker")]


@pytest.mark.parametrize(
    ("config", "grade", "said"),
    [
        ({"bindAddress": "0.0.0.0", "namesrvAuthEnabled": "false"}, "warning", "listens on 0.0.0.0 and serves anybody"),
        ({"bindAddress": "10.0.0.9", "namesrvAuthEnabled": "true"}, "ok", "checks users"),
        ({"bindAddress": "127.0.0.1", "namesrvAuthEnabled": "false"}, "ok", "listens only on 127.0.0.1"),
        ({"bindAddress": "0.0.0.0"}, "note", "it checks no users, as all of Apache's"),
        ({"bindAddress": "::1"}, "ok", "listens only on ::1"),
    ],
)
def test_whether_a_name_server_asks_who_somebody_is(config: dict[str, str], grade: str, said: str) -> None:
    one = msgspec.structs.replace(namesrv("n1:1", a="h:1"), config=config)
    (found,) = (each for each in namesrv_findings(facts(namesrvs=[one])) if each.check == "access")
    assert (found.grade, found.subject.name) == (grade, "n1:1")
    assert said in found.what
    assert (found.fix is None) is (grade == "ok")


def standing(entry: ConsumeOffset, *, owners: QueueOwners | None = None, **queue: Any) -> GroupStanding:
    one = connection()
    clients = NOBODY if owners is None else type(NOBODY)({"1": one}, {"1": ["broker-a"]}, {}, None, None, None)
    return GroupStanding(
        group="g", queues=[QueueStanding(queue=QUEUE, entry=entry, **queue)], clients=clients, owners=owners,
        trend=LagTrend(6.0, 5, 5, 0), member_count=clients.count,
    )  # fmt: skip


def connection() -> ClientConnection:
    return ClientConnection(client_id="1", client_addr="192.0.2.1:1", language="JAVA", version=1)


BEHIND = ConsumeOffset(broker_offset=10, consumer_offset=5)
HOUR_MS = 3_600_000


def one_member(*queues: MessageQueue) -> QueueOwners:
    member = Member("1", "192.0.2.1:1", "JAVA", 1, frozenset(queues), {})
    return QueueOwners([member], {QUEUE: ["1"] if QUEUE in queues else []}, False)


@in_one_test(
    (standing(BEHIND, min_offset=7), "error", "has lost 2 messages, deleted unconsumed: t/broker-a/0"),
    (
        standing(BEHIND, oldest_waiting_ms=NOW_MS - 71 * HOUR_MS, reserved_ms=72 * HOUR_MS),
        "warning",
        "soon loses messages: they may be deleted in 1h00m",
    ),
    (
        standing(BEHIND, oldest_waiting_ms=NOW_MS - 73 * HOUR_MS, reserved_ms=72 * HOUR_MS),
        "error",
        "may be deleted at any time now",
    ),
    (
        standing(BEHIND, owners=one_member()),
        "error",
        "nobody consumes 1 queue, where messages wait: t/broker-a/0",
    ),
    (standing(BEHIND, owners=one_member(QUEUE), is_stuck=True), "warning", "1 queue did not move in 6 s"),
    (standing(BEHIND), "note", "nobody is online, and 5 messages wait"),
    (
        standing(BEHIND, owners=one_member(QUEUE), oldest_waiting_ms=NOW_MS - HOUR_MS),
        "warning",
        "1h00m behind, not catching up: 5 messages wait",
    ),
)
def test_what_is_wrong_with_a_group(one: GroupStanding, grade: str, said: str) -> None:
    found = [(each.grade, each.what) for each in group_findings(one, NOW_MS)]
    assert any(each == grade and said in what for each, what in found), found


@in_one_test(
    (1, STUCK_AFTER_MS, None, "error"),
    (1, STUCK_AFTER_MS - 1, 1, None),
    (0, STUCK_STEADY_AFTER_MS, 1, "warning"),
    (0, STUCK_STEADY_AFTER_MS, None, None),
    (-5, STUCK_STEADY_AFTER_MS - 1, 1, None),
    (1, STUCK_AFTER_MS, 0, None),
)
def test_when_a_group_that_is_watched_is_stuck(
    grown: int, idle_ms: int, member_count: int | None, grade: str | None
) -> None:
    one = msgspec.structs.replace(standing(BEHIND), idle=Idle(idle_ms, grown), member_count=member_count)
    assert [each.grade for each in group_findings(one, NOW_MS) if each.check == "stuck"] == ([grade] if grade else [])


@pytest.mark.parametrize(("was_online", "grade"), [(False, Grade.NOTE), (True, Grade.WARNING)])
def test_members_that_are_gone_are_missed_by_who_saw_them(was_online: bool, grade: Grade) -> None:
    (found,) = group_findings(msgspec.structs.replace(standing(BEHIND), was_online=was_online), NOW_MS)
    assert (found.grade, found.check) == (grade, "lag")


@in_one_test(
    (23, Idle(STUCK_AFTER_MS, 0), None, Grade.WARNING),
    (23, None, LagTrend(6, 5, 5, 0), Grade.WARNING),
    (24, None, None, Grade.NOTE),
    (23, Idle(STUCK_AFTER_MS - 1, 0), None, Grade.NOTE),
    (23, None, LagTrend(6, 5, 5, 1), Grade.NOTE),
)
def test_a_group_that_was_online_within_a_day_is_missed_by_who_never_saw_it(
    consumed_hours: int, idle: Idle | None, trend: LagTrend | None, grade: Grade
) -> None:
    """All its consumers had crashed before the dashboard was opened, and nothing was wrong. Some consume without being
    members, as Flink's do."""
    entry = msgspec.structs.replace(BEHIND, last_timestamp=NOW_MS - consumed_hours * HOUR_MS)
    (found,) = group_findings(msgspec.structs.replace(standing(entry), idle=idle, trend=trend), NOW_MS)
    assert (found.grade, found.what) == (grade, "nobody is online, and 5 messages wait")


def test_who_is_told_to_keep_more_is_told_where() -> None:
    """The command used to contain the word ADDRESS."""
    kept = {"reserved_ms": 72 * HOUR_MS, "broker_addr": "192.0.2.1:10911"}
    for one in (
        standing(BEHIND, min_offset=7, **kept),
        standing(BEHIND, oldest_waiting_ms=NOW_MS - 71 * HOUR_MS, **kept),
    ):
        (fix,) = [each.fix for each in group_findings(one, NOW_MS) if each.check == "retention"]
        assert "rmqadmin updateBrokerConfig -b 192.0.2.1:10911 -k fileReservedTime -v HOURS (72 now)" in str(fix)


def test_what_is_the_same_of_many_groups_is_told_once() -> None:
    offline = [msgspec.structs.replace(standing(BEHIND), group=f"g{at}") for at in range(7)]
    unknown = [GroupStanding(group=f"u{at}", clients=NOBODY, error=ConnectError("no way")) for at in range(9)]
    lost = standing(BEHIND, min_offset=7)
    found = {one.subject.name: one for one in groups_findings([*offline, *unknown, lost], NOW_MS)}
    assert set(found) == {"g", "7 groups", "9 groups"}
    assert found["7 groups"].what == "nobody is online, and messages wait: g0, g1, g2, g3, g4 and 2 more"
    assert found["9 groups"].what == "where they stand is not known (no way): u0, u1, u2, u3, u4 and 4 more"
    assert found["9 groups"].grade is Grade.WARNING
    assert len(list(groups_findings(offline[:5], NOW_MS))) == 5


def test_a_group_that_is_well() -> None:
    well = standing(ConsumeOffset(broker_offset=5, consumer_offset=5), owners=one_member(QUEUE))
    (found,) = group_findings(well, NOW_MS)
    assert (found.grade, found.what) == (Grade.OK, "0 messages behind, 1 member online")


def test_many_names_are_not_all_told() -> None:
    assert names_told(["a", "b"]) == "a, b"
    assert names_told(list("abcdefg")) == "a, b, c, d, e and 2 more"


def config(perm: int = 6, read: int = 4, write: int = 4) -> TopicConfig:
    return TopicConfig(topic_name="orders", perm=perm, read_queue_nums=read, write_queue_nums=write)


@in_one_test(
    (config(), config(), 0, []),
    (config(perm=4), config(perm=4), None, ["no write permission"]),
    (config(perm=4), config(), None, ["no write permission on broker-a"]),
    (config(), config(perm=2), None, ["no read permission on broker-b"]),
    (config(perm=0), config(perm=0), None, ["no write permission", "no read permission"]),
    (config(perm=7), config(), None, ["permissions differ between brokers"]),
    (config(read=2), config(), None, ["consumers read 6 of 8 queues"]),
    (config(read=2), config(), 7, ["7 messages in queues that consumers do not read"]),
    (config(), config(), 1, ["1 message in queues that consumers do not read"]),
)
def test_a_topic(a: TopicConfig, b: TopicConfig, unread_count: int | None, said: list[str]) -> None:
    found = topic_row_findings("orders", {"broker-a": a, "broker-b": b}, unread_count)
    assert [one.what for one in found] == said
    assert all(one.is_bad for one in found)


def test_a_topic_that_no_group_reads() -> None:
    (found,) = topic_row_findings("orders", {"broker-a": config()}, 0, is_read=False)
    assert (found.what, found.is_bad) == ("no group reads it", True)


def test_a_topic_that_only_the_name_server_knows() -> None:
    assert topic_row_findings("orders", {}, None) == []


@pytest.mark.parametrize(
    ("may_consume", "said"),
    [(True, []), (False, ["may not consume"]), (None, ["may consume on some brokers"])],
)
def test_a_group(may_consume: bool | None, said: list[str]) -> None:
    assert [one.what for one in group_row_findings("billing", may_consume)] == said
