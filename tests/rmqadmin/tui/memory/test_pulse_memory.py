"""What the pulse of a cluster derives from readings: problems and since when, changes, and trends."""

from __future__ import annotations

import msgspec
import pytest

from rmqadmin.core.alerts.alert_rules import Condition, parse_alert_rules
from rmqadmin.core.groups.queue_owners import Member, QueueOwners
from rmqadmin.core.health.facts import BrokerFacts, NamesrvFacts
from rmqadmin.core.health.finding import Check, Finding, Grade, Subject, SubjectKind
from rmqadmin.core.messages.dead_letters import DeadLetters
from rmqadmin.core.servers.broker_state import Replica
from rmqadmin.core.servers.ha_sets import HaMember, HaSet
from rmqadmin.core.tables.marks import Mark
from rmqadmin.tui.memory.cluster import SeenBroker
from rmqadmin.tui.memory.history import NumberChange, Series
from rmqadmin.tui.memory.pulse_memory import PulseMemory
from rmqadmin.tui.memory.readings import Depth, GroupLag, GroupLags, GroupState, RowReading, WorstGroup, trend_text
from rmqadmin.tui.memory.wrong_list import Verdict
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.replication import ReplicaSet
from rmqproto.bodies.routes import BrokerData, ClusterInfo, QueueData, TopicRoute
from rmqproto.bodies.statistics import ConsumeOffset
from rmqproto.errors import ConnectError

A, B = "broker-a/0", "broker-b/0"


def test_a_group_whose_consumers_had_crashed_before_the_dashboard_was_opened(pulse: PulseMemory, clock: Clock) -> None:
    for _ in range(3):
        assert wrong(pulse) == []
        pulse.take_lags(GroupLags({"billing": lag(3, last_ms=clock.now_ms - 1000), "old": lag(7)}, {}))
        pulse.groups.take_members("billing", online())
        pulse.groups.take_members("old", online())
        clock.now_ms += 30_000
    pulse.take_lags(GroupLags({"billing": lag(3, last_ms=1000), "old": lag(7)}, {}))
    assert wrong(pulse) == ["billing: nobody is online, and 3 messages wait"]
    assert changes(pulse) == [], "it was so before"


def test_a_group_without_an_offset_has_no_lag_in_its_curve(pulse: PulseMemory, clock: Clock) -> None:
    """The list says that it has none, and its curve said 0."""
    pulse.take_rows(SubjectKind.GROUP, {"young": RowReading({"lag_count": None})})
    for lag_count, value in ((0, None), (5, 5.0), (0, 0.0)):
        clock.now_ms += 1000
        pulse.take_lags(GroupLags({"young": lag(lag_count)}, {}))
        assert pulse.history.values(Series(SubjectKind.GROUP, "young", "lag_count"), 9)[-1] == value


def says(error: str | None = None, config: dict[str, str] | None = None, **info: object) -> BrokerFacts:
    failure = None if error is None else ConnectError(error)
    replica = Replica("C", "broker-a", 0, "h:1", {key: str(value) for key, value in info.items()}, failure)
    return BrokerFacts(replica=replica, asked_ms=1, answered_ms=1, config=config or {})


WELL = says(
    putTps=10.0, getTransferredTps=5.0, commitLogDiskRatio=0.3, putLatency99=1.0, brokerActive="true", bootTimestamp=1
)


def answers(addr: str, *, wiped: str | None = None) -> NamesrvFacts:
    """A name server that knows broker-a. ``wiped``: the broker that nobody may write by what it says."""
    table = {"broker-a": BrokerData(broker_addrs={0: "h:1"}, broker_name="broker-a", cluster="C")}
    names = [] if wiped is None else [wiped]
    queues = [QueueData(broker_name=name, read_queue_nums=1, write_queue_nums=1, perm=4) for name in names]
    routes = {one.broker_name: TopicRoute(queue_datas=[one]) for one in queues}
    return NamesrvFacts(addr=addr, cluster=ClusterInfo(broker_addr_table=table), routes=routes)


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pulse(clock: Clock) -> PulseMemory:
    return PulseMemory(clock)


def seen(*keys: str, gone: dict[str, int] | None = None) -> dict[str, SeenBroker]:
    return {
        key: SeenBroker(Replica("C", key.partition("/")[0], 0, f"{key}:1", {}), (gone or {}).get(key)) for key in keys
    }


def lag(count: int, consumed: int = 0, *, lacking: tuple[str, ...] = (), last_ms: int = 0) -> GroupLag:
    """``last_ms``: when the last message that was consumed was stored."""
    queue = MessageQueue("T", "broker-a", 0)
    entry = ConsumeOffset(broker_offset=consumed + count, consumer_offset=consumed, last_timestamp=last_ms)
    behind = {queue: entry} if count else {}
    return GroupLag(count, consumed, 1 if count else None, behind, ("broker-a",), lacking)


def letters(depth_count: int | None, lacking: tuple[str, ...] = (), *, redriven_count: int | None = 0) -> Depth:
    return Depth(DeadLetters(depth_count=depth_count, redriven_count=redriven_count), lacking)


def online(*names: str, lacks: dict[str, str] | None = None) -> GroupState:
    """Members that have no queue."""
    members = [Member(name, "h:1", "JAVA", 1, frozenset(), {}) for name in names]
    return GroupState(QueueOwners(members, {}, False), lacks or {})


def owned(**queues: list[int]) -> GroupState:
    """What members say who own these queues of topic T; queue 0 is to be owned."""
    of = {name: frozenset(MessageQueue("T", "broker-a", id) for id in ids) for name, ids in queues.items()}
    members = [Member(name, "h:1", "JAVA", 1, mine, {}) for name, mine in of.items()]
    owners = {MessageQueue("T", "broker-a", 0): [name for name, mine in of.items() if mine]}
    return GroupState(QueueOwners(members, owners, False))


def changes(pulse: PulseMemory) -> list[str]:
    """The texts of the log, oldest first."""
    return [f"{one.subject.name}: {one.text}" if one.subject else one.text for one in pulse.log.newest_first()][::-1]


def wrong(pulse: PulseMemory) -> list[str]:
    """What is wrong. With a ~: as last known."""
    return [f"{one.finding.subject.name}: {'~' * one.is_old}{one.finding.what}" for one in pulse.wrong()]


def test_a_broker_that_goes_and_comes_back(pulse: PulseMemory, clock: Clock) -> None:
    pulse.take_brokers(seen(A, B), {A: WELL, B: WELL})
    clock.now_ms += 12_000
    pulse.take_brokers(seen(A, B, gone={B: 1_000_000}), {A: WELL})
    assert wrong(pulse) == [f"{B}: gone 12 s ago: no name server lists it any more, at {B}:1"]
    assert pulse.brokers.lines()[B].error == "gone 12 s ago"
    clock.now_ms += 40_000
    assert wrong(pulse) == [f"{B}: gone 52 s ago: no name server lists it any more, at {B}:1"], (
        "also while nobody can be asked"
    )
    assert pulse.brokers.lines()[B].in_line == [10.0, None]
    assert pulse.cluster_values("in_tps", 9) == [20.0, None, 10.0], "a gap: the sum over the rest is another sum"
    assert pulse.is_part("in_tps")
    assert pulse.verdict().mark is Mark.BAD
    pulse.take_brokers(seen(A, B), {A: WELL, B: says(putTps=0.0, brokerActive="true", bootTimestamp=2)})
    assert wrong(pulse) == []
    assert changes(pulse) == [f"{B}: is gone", f"{B}: was restarted", f"{B}: is back"]


def test_while_the_name_server_cannot_be_asked_the_log_does_not_know_what_changes(
    pulse: PulseMemory, clock: Clock
) -> None:
    pulse.brokers.take_silence("cannot connect to ns:1")
    assert changes(pulse) == [], "it was so when the dashboard was started"
    pulse.take_brokers(seen(A), {A: WELL})
    for _ in range(3):
        clock.now_ms += 10_000
        pulse.brokers.take_silence("cannot connect to ns:1")
    clock.now_ms += 4_000
    pulse.take_brokers(seen(A), {A: WELL})
    pulse.take_brokers(seen(A), {A: WELL})
    assert changes(pulse) == [
        "cannot ask the name server: cannot connect to ns:1",
        "the name server answers again, after 24 s",
    ]


def test_what_is_found_at_the_first_look_is_no_change(pulse: PulseMemory, clock: Clock) -> None:
    own = says(commitLogDiskRatio=0.8, config={"diskMaxUsedSpaceRatio": "90"})
    other = PulseMemory(clock)
    other.take_brokers(seen(A), {A: own})
    assert wrong(other) == [], "this broker does nothing about its disk yet"
    full = says(commitLogDiskRatio=0.86, brokerActive="true")
    pulse.take_brokers(seen(A), {A: full})
    pulse.take_lags(GroupLags({"billing": lag(7)}, {}))
    pulse.groups.take_members("billing", owned(x=[]))
    assert wrong(pulse) == [
        f"{A}: the disk of its commit log is 86% full: above 85% it deletes messages whatever their age",
        "billing: nobody consumes 1 queue, where messages wait: T/broker-a/0",
    ]
    assert changes(pulse) == []
    pulse.groups.take_members("billing", owned(x=[0], y=[]))
    pulse.groups.take_members("billing", owned(y=[]))
    assert changes(pulse) == [
        "billing: member y joined",
        "billing: queues went to other members between two looks: x gained 1",
        "billing: each queue has one owner again",
        "billing: member x left",
        "billing: nobody consumes 1 queue, where messages wait: T/broker-a/0",
    ]


@pytest.mark.parametrize(
    ("reading", "text"),
    [
        (says(error="cannot connect to broker-a:1: Connection refused"), "cannot connect"),
        (says(brokerActive="false"), "reports that it does not serve"),
        (says(pageCacheLockTimeMills=1500), "a put has held the commit log for 1 s: sends are refused"),
        (says(sendThreadPoolQueueHeadWaitTimeMills=201), "sends have waited for 201 ms: some are refused"),
        (says(putLatency99=300.0), "1 % of puts take more than 300 ms"),
    ],
)
def test_what_is_wrong_with_a_broker(pulse: PulseMemory, reading: BrokerFacts, text: str) -> None:
    pulse.take_brokers(seen(A), {A: reading})
    assert len(wrong(pulse)) == 1
    assert text in wrong(pulse)[0]


def test_a_group_that_consumes_nothing_while_its_lag_grows_is_stuck(pulse: PulseMemory, clock: Clock) -> None:
    for lag_count in (100, 150, 200, 250):
        pulse.take_lags(GroupLags({"billing": lag(lag_count, consumed=40), "idle": lag(0)}, {}))
        clock.now_ms += 30_000
    assert wrong(pulse) == ["billing: stuck: nothing consumed for at least 1m30s, lag 250 and growing"]
    for consumed in (42, 44):
        pulse.take_lags(GroupLags({"billing": lag(260, consumed=consumed), "idle": lag(0)}, {}))
    assert wrong(pulse) == []
    assert changes(pulse)[-1] == "billing: consumes again, or its lag no longer grows"


def test_a_group_that_gets_past_one_message_and_stands_still_again_stays_stuck(
    pulse: PulseMemory, clock: Clock
) -> None:
    """It was forgotten for minutes, each time that it moved by one."""
    for at in range(40):
        pulse.take_lags(GroupLags({"billing": lag(600 + at, consumed=40 + (at > 20))}, {}))
        clock.now_ms += 30_000
        if at >= 2:
            assert len(wrong(pulse)) == 1, at
    assert wrong(pulse) == ["billing: stuck: only 1 consumed for at least 19m30s, lag 639 and growing"]
    assert len(changes(pulse)) == 1, "that it was stuck"


def test_how_long_nothing_was_consumed_has_no_limit(pulse: PulseMemory, clock: Clock) -> None:
    """After 40 minutes it said 4m40s: what the samples hold."""
    for at in range(481):
        pulse.take_lags(GroupLags({"billing": lag(100 + at, consumed=40)}, {}))
        clock.now_ms += 5_000
    assert wrong(pulse) == ["billing: stuck: nothing consumed for at least 40m00s, lag 580 and growing"]


@pytest.mark.parametrize("lost", ["broker-b", "broker-a"])
def test_a_group_that_is_stuck_stays_so_when_a_broker_is_lost(pulse: PulseMemory, clock: Clock, lost: str) -> None:
    def read(count: int, lacking: tuple[str, ...] = ()) -> GroupLag:
        """One queue of each broker; in that of broker-a messages wait."""
        here = {MessageQueue("T", "broker-a", 0): ConsumeOffset(broker_offset=40 + count, consumer_offset=40)}
        if "broker-a" in lacking:
            here, count = {}, 0
        return GroupLag(count, 40 * len(here), 1, here, ("broker-a", "broker-b"), lacking)

    for at in range(4):
        pulse.take_lags(GroupLags({"billing": read(100 + at)}, {}))
        clock.now_ms += 30_000
    assert wrong(pulse) == ["billing: stuck: nothing consumed for at least 1m30s, lag 103 and growing"]
    for at in range(4):
        pulse.take_lags(GroupLags({"billing": read(104 + at, (lost,))}, {lost: "gone 1 s ago"}, (lost,)))
        clock.now_ms += 30_000
    if lost == "broker-b":
        assert wrong(pulse) == ["billing: stuck: nothing consumed for at least 3m30s, lag ≥107 and growing"]
    else:
        assert wrong(pulse) == ["billing: ~stuck: nothing consumed for at least 1m30s, lag 103 and growing"]
    assert len(changes(pulse)) == 1, "that it was stuck"


def test_a_group_that_is_far_behind_and_does_not_catch_up_is_wrong(pulse: PulseMemory, clock: Clock) -> None:
    """As for doctor. One that was 45 minutes behind, and more so each minute, never was."""
    for at in range(4):
        pulse.take_lags(GroupLags({"billing": lag(600 + 60 * at, consumed=100 * at)}, {}))
        pulse.take_worst([WorstGroup("billing", 600 + 60 * at, clock.now_ms - 45 * 60_000)])
        clock.now_ms += 30_000
    assert wrong(pulse) == ["billing: 45m00s behind, growing by 2.0/s: 780 messages wait"]
    for at in range(30):
        pulse.take_lags(GroupLags({"billing": lag(700 - 20 * at, consumed=500 + 100 * at)}, {}))
        pulse.take_worst([WorstGroup("billing", 700 - 20 * at, clock.now_ms - 45 * 60_000)])
        clock.now_ms += 30_000
    assert wrong(pulse) == []
    assert changes(pulse) == ["billing: catches up, or has nothing to consume"]


def test_a_server_that_is_lost_comes_before_what_is_on_it(pulse: PulseMemory, clock: Clock) -> None:
    """The headline stayed what it was when a broker was killed."""
    pulse.take_brokers(seen(A, B), {A: WELL, B: WELL})
    for at in range(4):
        pulse.take_lags(GroupLags({"billing": lag(100 + at, consumed=40)}, {}))
        clock.now_ms += 30_000
    assert pulse.verdict().text.startswith("billing: stuck")
    pulse.take_brokers(seen(A, B, gone={B: clock.now_ms}), {A: WELL})
    assert pulse.verdict() == Verdict(
        f"{B}: gone 0 s ago: no name server lists it any more, at {B}:1, and 1 more", Mark.BAD
    )


def test_a_group_with_members_that_consumes_nothing_for_minutes_is_stuck_too(pulse: PulseMemory, clock: Clock) -> None:
    """A message that keeps failing holds up an orderly consumer, even if no more messages are sent."""
    pulse.take_lags(GroupLags({"billing": lag(3, consumed=40), "left over": lag(9)}, {}))
    pulse.groups.take_members("billing", online("x"))
    for _ in range(8):
        assert wrong(pulse) == []
        clock.now_ms += 30_000
        pulse.take_lags(GroupLags({"billing": lag(3, consumed=40), "left over": lag(9)}, {}))
    assert wrong(pulse) == ["billing: stuck: nothing consumed for at least 4m00s, lag 3"]
    pulse.take_lags(
        GroupLags({"billing": lag(1, consumed=40, lacking=("broker-b",))}, {"broker-b": "gone 1 s ago"}, ("broker-b",))
    )
    assert changes(pulse) == ["billing: stuck: nothing consumed for at least 4m00s, lag 3"], (
        "what is unknown is not over"
    )


def test_of_a_group_whose_only_broker_is_lost_nothing_is_over(pulse: PulseMemory) -> None:
    pulse.take_lags(GroupLags({"billing": lag(3), "mailer": lag(7)}, {}))
    pulse.groups.take_members("billing", online("z"))
    pulse.groups.take_members("billing", online())
    pulse.groups.take_members("mailer", online("x", "y"))
    told = ["billing: member z left", "billing: nobody is online, and 3 messages wait"]
    assert changes(pulse) == told
    lost = {"billing": lag(0, lacking=("broker-b",)), "mailer": lag(7)}
    pulse.take_lags(GroupLags(lost, {"broker-b": "gone 1 s ago"}, ("broker-b",)))
    pulse.groups.take_members("billing", GroupState(None, {"broker-b": "gone"}))
    pulse.groups.take_members("mailer", online("x", lacks={"broker-b": "gone"}))
    assert changes(pulse) == told
    assert wrong(pulse) == ["billing: ~nobody is online, and 3 messages wait"]
    assert pulse.history.values(Series("group", "billing", "lag_count"), 9)[-1] is None, "0 would be a lie"
    pulse.take_worst([WorstGroup("mailer", 7, 1)])
    assert pulse.groups.worst_lines()["mailer"].lacking == (), "the lost broker had nothing of it"


def test_what_depends_on_members_stays_while_nobody_can_be_asked_for_them(pulse: PulseMemory, clock: Clock) -> None:
    """When the last broker died, "nobody is online" turned into "stuck", and a group that was stuck no longer was."""
    members = {"billing": online(), "mailer": online("x")}
    pulse.groups.take_members("billing", online("y"))
    for at in range(9):
        pulse.take_lags(GroupLags({"billing": lag(100 + at, consumed=40), "mailer": lag(3, consumed=40)}, {}))
        for group, reading in members.items():
            pulse.groups.take_members(group, reading)
        clock.now_ms += 30_000
    for group in members:
        pulse.groups.take_members(group, GroupState(None))
    told = [
        "billing: nobody is online, and 108 messages wait",
        "mailer: stuck: nothing consumed for at least 4m00s, lag 3",
    ]
    assert wrong(pulse) == told
    pulse.groups.take_members("billing", online("y"))
    assert wrong(pulse)[0].startswith("billing: stuck: nothing consumed for at least ")


def test_offsets_that_go_back_are_told(pulse: PulseMemory) -> None:
    pulse.take_lags(GroupLags({"billing": lag(0, consumed=1500)}, {}))
    pulse.take_lags(GroupLags({"billing": lag(1200, consumed=300)}, {}))
    assert changes(pulse) == ["billing: offsets went back by 1,200"]
    pulse.take_lags(GroupLags({"billing": lag(0, consumed=100)}, {}))
    assert len(changes(pulse)) == 1, "a topic was deleted"


def test_a_broker_is_silent_then_gone_then_taken_off_the_list(pulse: PulseMemory, clock: Clock) -> None:
    """The log used to say that a dead broker answered again, and that one taken off the list was back."""
    pulse.take_brokers(seen(A, B), {A: WELL, B: says(commitLogDiskRatio=0.9)})
    pulse.take_brokers(seen(A, B), {A: WELL, B: says(error="cannot connect")})
    pulse.take_brokers(seen(A, B, gone={B: clock.now_ms}), {A: WELL})
    pulse.take_brokers(seen(A), {A: WELL})
    assert changes(pulse) == [f"{B}: does not answer at h:1, which it registered: cannot connect", f"{B}: is gone"]
    assert wrong(pulse) == []


def test_all_is_well_is_said_of_what_was_looked_at(pulse: PulseMemory) -> None:
    assert pulse.verdict().text == "asking …"
    pulse.brokers.take_name_servers([answers("ns:1")])
    pulse.take_brokers(seen(A), {A: WELL})
    pulse.take_lags(GroupLags({"billing": lag(0), "mailer": lag(0)}, {}))
    assert pulse.verdict().mark is None, "nobody has told of dead letters"
    pulse.take_letters(["billing", "mailer"], {"billing": letters(0)})
    assert pulse.verdict().mark is Mark.GOOD
    well = "all is well: 1 broker, 2 groups, "
    assert pulse.verdict().text == (
        f"{well}dead letters unknown; members of 2 groups unknown; masters and slaves unknown"
    )
    pulse.take_set_findings([], [])
    assert pulse.verdict().text == f"{well}dead letters unknown; members of 2 groups unknown"
    pulse.take_letters(["billing", "mailer"], {"mailer": letters(2)})
    pulse.groups.take_members("billing", online())
    pulse.groups.take_members("mailer", GroupState(None))
    assert pulse.verdict().text == f"{well}2 dead letters; members of 1 group unknown"
    pulse.groups.take_members("mailer", online())
    pulse.take_letters(["billing", "mailer"], {"mailer": letters(2, ("broker-b",))})
    assert pulse.verdict().text == f"{well}≥2 dead letters"
    pulse.take_lags(GroupLags({}, {"broker-a": "no permission"}))
    assert pulse.verdict().text == "unknown how groups are on broker-a: no permission"
    assert pulse.verdict().mark is Mark.WARN


def test_a_slave_does_not_count_what_its_master_takes_once_more(pulse: PulseMemory, clock: Clock) -> None:
    """Apache's slaves report what they copy as incoming, so a cluster with slaves seemed to take twice as much."""
    slave, old = "broker-a/1", "broker-a/0 at a:9"
    of_slave = SeenBroker(Replica("C", "broker-a", 1, "a:2", {}))
    pulse.take_brokers({**seen(A), slave: of_slave}, {A: WELL, slave: WELL})
    assert pulse.cluster_values("in_tps", 1) == [10.0]
    assert pulse.cluster_values("out_tps", 1) == [10.0], "but messages are read from it, too"
    clock.now_ms += 1000
    pulse.take_brokers({**seen(A, old, gone={old: 1_000_000}), slave: of_slave}, {A: WELL, slave: says()})
    assert pulse.cluster_values("in_tps", 1) == [10.0]
    assert not pulse.is_part("in_tps"), "neither slaves nor the master before are missed"


def test_what_a_set_knows_of_a_slave_that_was_lost_before(pulse: PulseMemory) -> None:
    """The name server forgets a dead broker, and the pulse said that all is well."""
    of_set = HaSet(
        cluster="C", broker_name="broker-a", members=[HaMember(broker_id=2, broker_addr="a:2")], has_controllers=True,
        known=ReplicaSet(), controller_addrs="c:1",
    )  # fmt: skip
    lost = Finding(Grade.WARNING, Check.IN_SYNC, Subject(SubjectKind.BROKER_SET, "broker-a"), "1 of 2 are in sync")
    pulse.take_brokers(seen(A), {A: WELL})
    pulse.take_lags(GroupLags({}, {}))
    pulse.take_letters([], {})
    pulse.take_set_findings([of_set], [lost])
    assert pulse.verdict() == Verdict("broker-a: 1 of 2 are in sync", Mark.WARN)
    assert changes(pulse) == [], "what was so at the start is no change"
    pulse.take_set_findings([of_set], [])
    assert changes(pulse) == ["broker-a: its brokers are in sync again"]
    assert pulse.verdict().mark is Mark.GOOD
    pulse.take_set_findings([of_set], [lost])
    pulse.take_set_findings([msgspec.structs.replace(of_set, known=None)], [])
    assert changes(pulse)[1:] == ["broker-a: 1 of 2 are in sync"], "nobody says that it is over"


def test_without_any_broker_nothing_is_well(pulse: PulseMemory) -> None:
    pulse.take_brokers({}, {})
    pulse.take_lags(GroupLags({}, {}))
    pulse.take_letters([], {})
    assert pulse.verdict().text == "the name server knows no broker"


def test_the_lag_of_fewer_brokers_is_no_less_lag(pulse: PulseMemory, clock: Clock) -> None:
    """When a broker died, the trend used to say that the group was catching up."""
    pulse.take_lags(GroupLags({"billing": lag(1000)}, {}))
    clock.now_ms += 10_000
    pulse.take_lags(
        GroupLags({"billing": lag(400, lacking=("broker-b",))}, {"broker-b": "gone 1 s ago"}, ("broker-b",))
    )
    clock.now_ms += 10_000
    pulse.take_lags(
        GroupLags({"billing": lag(500, lacking=("broker-b",))}, {"broker-b": "gone 11 s ago"}, ("broker-b",))
    )
    pulse.take_worst([WorstGroup("billing", 500, clock.now_ms - 60_000)])
    line = pulse.groups.worst_lines()["billing"]
    assert (line.lag_ms, line.trend, line.lacking) == (60_000, "+10.0/s", ("broker-b",))
    assert pulse.is_part("lag_count"), "nor is the lag of all groups"
    assert line.lag_line == [1000, None, 400, 500]
    clock.now_ms += 300_000
    assert pulse.groups.worst_lines()["billing"] == line, "nobody was asked since, so nobody knows that it still waits"


def test_a_fall_that_is_over_does_not_foretell_when_nothing_will_be_left(pulse: PulseMemory, clock: Clock) -> None:
    """The group's offsets were moved to the end, and then it stood still. For five minutes the trend used to say that
    it would be done in 166 ms."""
    for lag_count in (20_000, 20_100, 10, 40, 70, 100):
        pulse.take_lags(GroupLags({"billing": lag(lag_count)}, {}))
        pulse.take_worst([WorstGroup("billing", lag_count, clock.now_ms - 1000)])
        clock.now_ms += 30_000
    assert pulse.groups.worst_lines()["billing"].trend == "+1.0/s"
    assert pulse.over_time(Subject(SubjectKind.GROUP, "billing"), ()).trend == "+1.0/s"


def test_what_waits_may_be_deleted_soon(pulse: PulseMemory, clock: Clock) -> None:
    hour_ms = 3_600_000
    clock.now_ms = 100 * hour_ms
    pulse.take_lags(GroupLags({"billing": lag(5)}, {}))
    pulse.take_worst([WorstGroup("billing", 5, 29 * hour_ms, 72 * hour_ms)])
    assert wrong(pulse) == ["billing: soon loses messages: they may be deleted in 1h00m: T/broker-a/0"]
    clock.now_ms += 2 * hour_ms
    pulse.take_worst([WorstGroup("billing", 5, 29 * hour_ms, 72 * hour_ms)])
    assert wrong(pulse) == ["billing: soon loses messages: they may be deleted at any time now: T/broker-a/0"]
    pulse.take_lags(GroupLags({"billing": lag(0)}, {}))
    assert wrong(pulse) == []


def test_what_screens_read_becomes_samples_unless_a_broker_is_missing(pulse: PulseMemory, clock: Clock) -> None:
    pulse.take_lags(GroupLags({"billing": lag(100)}, {}))
    clock.now_ms += 10_000
    whole = RowReading({"lag_count": 200, "consume_tps": 3.5})
    pulse.take_rows(SubjectKind.GROUP, {"billing": whole})
    pulse.take_rows(SubjectKind.GROUP, {"billing": RowReading({"lag_count": 7}, ("broker-b",))})
    subject = Subject(SubjectKind.GROUP, "billing")
    over = pulse.over_time(subject, ("lag_count", "consume_tps"))
    assert over.lines == {"lag_count": [100, 200], "consume_tps": [3.5]}
    assert over.trend == "+10.0/s"
    pulse.take_lags(GroupLags({"billing": lag(50, lacking=("broker-b",))}, {"broker-b": "gone 1 s ago"}, ("broker-b",)))
    pulse.take_rows(SubjectKind.GROUP, {"billing": whole})
    assert pulse.over_time(subject, ("lag_count",)).lines == {"lag_count": [100, 200, None, 50]}


def test_dead_letters_grow(pulse: PulseMemory, clock: Clock) -> None:
    pulse.take_letters(["billing"], {"billing": letters(3)})
    assert changes(pulse) == [], "those there were"
    clock.now_ms += 60_000
    pulse.take_letters(["billing", "mailer"], {"billing": letters(5), "mailer": letters(1)})
    assert changes(pulse) == ["billing: 2 new dead letters", "mailer: 1 new dead letter"]
    assert wrong(pulse) == ["billing: 2 new dead letters in 1m00s, 5 in all"]
    pulse.take_letters(["billing"], {"billing": letters(9, ("broker-b",))})
    assert changes(pulse)[2:] == [], "another sum is not growth"


def test_topics_and_groups_come_and_go_but_not_with_their_broker(pulse: PulseMemory) -> None:
    pulse.take_topics(["orders", "%RETRY%x", "TBW102"], ["broker-a", "broker-b"])
    pulse.take_topics(["orders", "flights", "%RETRY%y", "%DLQ%x"], ["broker-a", "broker-b"])
    assert changes(pulse) == ["flights: topic is new"]
    pulse.take_topics(["orders"], ["broker-a"])
    pulse.take_topics(["orders"], ["broker-a"])
    pulse.take_topics(["orders", "flights"], ["broker-a", "broker-b"])
    assert len(changes(pulse)) == 1
    pulse.take_topics([f"t{number}" for number in range(9)], ["broker-a", "broker-b"])
    assert changes(pulse)[1:] == ["9 topics are new: t0, t1, t2, t3, t4 and 4 more", "flights: topic was deleted",
                                  "orders: topic was deleted"]  # fmt: skip
    pulse.take_lags(GroupLags({"a": lag(0)}, {}))
    pulse.take_lags(GroupLags({"a": lag(0), "b": lag(0)}, {}))
    pulse.take_lags(
        GroupLags(
            {"a": lag(0, lacking=("broker-b",)), "c": lag(0, lacking=("broker-b",))},
            {"broker-b": "gone"},
            ("broker-b",),
        )
    )
    pulse.take_lags(GroupLags({"a": lag(0), "b": lag(0)}, {}))
    assert changes(pulse)[4:] == ["b: group is new", "c: group is new", "c: group was deleted"]


def test_trends_in_words() -> None:
    assert trend_text(None, 5) == ""
    assert trend_text(NumberChange(0.0, 1000), 5) == "steady"
    assert trend_text(NumberChange(-4.0, 290_000), 7) == "steady", "and not -0.0/s, done in 8m27s"
    assert trend_text(NumberChange(120.0, 10_000), 500) == "+12.0/s"
    assert trend_text(NumberChange(-100.0, 10_000), 500) == "-10.0/s, done in 50 s"
    assert trend_text(NumberChange(-2175.0, 10_000), 3) == "-217.5/s", "and not: done in 14 ms"


def test_a_group_that_fails_now_and_then_does_not_fill_the_log(pulse: PulseMemory, clock: Clock) -> None:
    """One letter every few seconds used to take a line each, which soon pushed other changes out of sight."""

    def look(depth_count: int) -> None:
        pulse.take_letters(["billing"], {"billing": letters(depth_count)})
        clock.now_ms += 30_000

    look(7)
    look(8)
    pulse.take_brokers(seen(A), {A: WELL})
    pulse.take_brokers(seen(A, B), {A: WELL, B: WELL})
    for depth_count in (8, 9, 9, 12):
        look(depth_count)
    assert changes(pulse) == [f"{B}: broker is new", "billing: 5 new dead letters in 2m00s"]
    for _ in range(10):
        look(12)
    look(13)
    assert changes(pulse)[1:] == ["billing: 5 new dead letters in 2m00s", "billing: 1 new dead letter"]


RULES = parse_alert_rules("""
[[alert]]
when = "lag"
above = 10
until = 5
[[alert]]
when = "lag-time"
above = "5m"
level = "critical"
[[alert]]
when = "disk"
above = 50
[[alert]]
when = "broker-gone"
bell = false
[[alert]]
when = "dead-letters"
above = 1
[[alert]]
when = "zero-rate"
group = "billing"
[[alert]]
when = "zero-rate"
topic = "orders"
""")


def news(pulse: PulseMemory) -> list[str]:
    return [f"{one.subject.name}: {one.text}{' *' if one.rings else ''}" for one in pulse.alerts.take_news()]


def test_alerts_begin_and_end_and_are_news_once(clock: Clock) -> None:
    pulse = PulseMemory(clock, RULES)
    pulse.take_brokers(seen(A), {A: says(commitLogDiskRatio=0.6)})
    assert news(pulse) == [f"{A}: alert: disk 60.0%, more than 50.0% *"]
    assert news(pulse) == []
    assert wrong(pulse) == [f"{A}: alert: disk 60.0%, more than 50.0%"]
    pulse.take_brokers(seen(A, gone={A: clock.now_ms}), {})
    assert news(pulse) == [f"{A}: alert: gone"], "and of the disk nothing is known"
    assert f"{A}: alert: disk 60.0%, more than 50.0%" in wrong(pulse)
    pulse.take_brokers(seen(A), {A: says(commitLogDiskRatio=0.4)})
    assert news(pulse) == [f"{A}: alert is over: disk", f"{A}: alert is over: gone"]
    assert changes(pulse)[-3:] == [f"{A}: is back", f"{A}: alert is over: disk", f"{A}: alert is over: gone"]


def test_alerts_of_groups_know_what_a_sum_lacks(clock: Clock) -> None:
    pulse = PulseMemory(clock, RULES)
    pulse.take_lags(GroupLags({"billing": lag(11)}, {}))
    pulse.take_worst([WorstGroup("billing", 11, clock.now_ms - 600_000)])
    assert news(pulse) == [
        "billing: alert: lag 11, more than 10 *",
        "billing: alert: lag time 10m00s, more than 5m00s *",
    ]
    assert pulse.findings(SubjectKind.GROUP)["billing"][0].grade is Grade.ERROR
    pulse.take_lags(GroupLags({"billing": lag(3, lacking=("broker-b",))}, {"broker-b": "gone 1 s ago"}, ("broker-b",)))
    assert news(pulse) == [], "the lag may be more"
    pulse.take_lags(GroupLags({"billing": lag(7)}, {}))
    assert news(pulse) == [], "not below the end yet"
    pulse.take_lags(GroupLags({"billing": lag(5, consumed=9)}, {}))
    pulse.take_worst([])
    assert news(pulse) == ["billing: alert is over: lag"]
    pulse.take_lags(GroupLags({"billing": lag(0, consumed=9)}, {}))
    pulse.take_worst([])
    assert news(pulse) == ["billing: alert: nothing consumed *", "billing: alert is over: lag time"]
    pulse.take_lags(GroupLags({}, {}))
    assert news(pulse) == [], "it was deleted"
    assert wrong(pulse) == []


def test_redriven_letters_are_not_shown_as_left(pulse: PulseMemory) -> None:
    pulse.brokers.take_name_servers([answers("ns:1")])
    pulse.take_brokers(seen(A), {A: WELL})
    pulse.take_set_findings([], [])
    pulse.take_lags(GroupLags({}, {}))
    pulse.take_letters(["billing", "mailer"], {"billing": letters(5, redriven_count=5)})
    pulse.take_letters(["billing", "mailer"], {"mailer": letters(4, redriven_count=1)})
    assert pulse.verdict().text == "all is well: 1 broker, 0 groups, 3 dead letters"
    pulse.take_letters(["billing", "mailer"], {"mailer": letters(4, redriven_count=4)})
    assert pulse.verdict().text == "all is well: 1 broker, 0 groups, no dead letters left"


def test_dead_letters_that_have_come_are_not_over_because_a_broker_is_gone(clock: Clock) -> None:
    """The remaining brokers have a different sum, known only for the last seconds, in which no letter came."""
    pulse = PulseMemory(clock, RULES)

    def look(depth_count: int, lacking: tuple[str, ...] = ()) -> None:
        clock.now_ms += 10_000
        pulse.take_letters(["billing"], {"billing": letters(depth_count, lacking)})

    look(3)
    look(5)
    assert news(pulse) == ["billing: alert: new dead letters 2, more than 1 *"]
    for _ in range(40):
        look(2, ("broker-b",))
    look(5)
    look(5)
    assert news(pulse) == []
    for _ in range(30):
        look(5)
    assert news(pulse) == ["billing: alert is over: new dead letters"]


def test_alerts_of_dead_letters_and_topics(clock: Clock) -> None:
    pulse = PulseMemory(clock, RULES)
    pulse.take_letters(["billing"], {"billing": letters(3)})
    clock.now_ms += 10_000
    pulse.take_letters(["billing"], {"billing": letters(5)})
    assert news(pulse) == ["billing: alert: new dead letters 2, more than 1 *"]
    clock.now_ms += 400_000
    pulse.take_letters(["billing"], {"billing": letters(5)})
    clock.now_ms += 1000
    pulse.take_letters(["billing"], {"billing": letters(5)})
    assert news(pulse) == ["billing: alert is over: new dead letters"]
    assert pulse.alerts.wanted(Condition.ZERO_RATE, "topic", ["orders"]) == ["orders"]
    assert pulse.alerts.wanted(Condition.ZERO_RATE, "group", ["orders"]) == []
    for in_tps in (3.0, 0.0, None, 1.0):
        pulse.take_rows(SubjectKind.TOPIC, {"orders": RowReading({"in_tps": in_tps}), "flights": RowReading({})})
    assert news(pulse) == ["orders: alert: nothing came in *", "orders: alert is over: nothing came in"]


def test_a_deleted_topic_has_no_alert_any_more_but_one_of_a_lost_broker_has(clock: Clock) -> None:
    pulse = PulseMemory(clock, RULES)
    brokers = {"a/0": says(brokerActive="true"), "b/0": says(brokerActive="true")}
    pulse.take_brokers(seen(*brokers), brokers)
    pulse.take_topics(["flights", "orders"], ["a", "b"])
    pulse.take_rows(SubjectKind.TOPIC, {"orders": RowReading({"in_tps": 0.0})})
    assert wrong(pulse) == ["orders: alert: nothing came in"]
    pulse.take_brokers(seen(*brokers, gone={"b/0": clock.now_ms}), {"a/0": brokers["a/0"]})
    for _ in range(2):
        pulse.take_topics(["flights"], ["a"])
    assert "orders: alert: nothing came in" in wrong(pulse)
    pulse.take_brokers(seen(*brokers), brokers)
    pulse.take_topics(["flights"], ["a", "b"])
    assert wrong(pulse) == []


def test_a_name_server_that_is_silent_and_a_wiped_permission_are_wrong(pulse: PulseMemory) -> None:
    pulse.take_brokers(seen(A), {A: WELL})
    pulse.brokers.take_name_servers([answers("ns:1"), answers("ns:2")])
    pulse.brokers.take_name_servers([answers("ns:1", wiped="broker-a"), NamesrvFacts(addr="ns:2", error="no answer")])
    pulse.take_brokers(seen(A), {A: WELL})
    closed = f"{A}: no write permission at ns:1: it was wiped, and producers that ask there send it nothing"
    assert wrong(pulse) == ["ns:2: no answer", closed]
    pulse.brokers.take_name_servers([answers("ns:1"), answers("ns:2")])
    pulse.take_brokers(seen(A), {A: WELL})
    assert wrong(pulse) == []
    assert changes(pulse) == ["ns:2: no answer", closed, "ns:2: answers again", f"{A}: has its write permission again"]


def test_until_each_name_server_was_asked_that_is_said(pulse: PulseMemory) -> None:
    pulse.take_brokers(seen(A), {A: WELL})
    pulse.take_lags(GroupLags({}, {}))
    pulse.take_letters([], {})
    pulse.take_set_findings([], [])
    assert pulse.verdict().text == "all is well: 1 broker, 0 groups, no dead letters; each name server unknown"


def test_letters_of_which_nobody_knows_whether_they_were_redriven_are_not_counted_as_left(
    pulse: PulseMemory, clock: Clock
) -> None:
    """A ledger that cannot be read counted as one that has nothing."""
    for depth_count in (3, 5):
        pulse.take_letters(["billing"], {"billing": letters(depth_count, redriven_count=None)})
        clock.now_ms += 30_000
    assert pulse.letters.text() == "dead letters unknown"
    assert wrong(pulse) == ["billing: 2 new dead letters in 30 s, 5 in all"]


def test_many_members_that_join_or_leave_at_once_are_one_change(pulse: PulseMemory) -> None:
    """A thousand of them used to push everything else out of the log."""
    names = [f"m{number}" for number in range(9)]
    pulse.groups.take_members("billing", online("m0"))
    pulse.groups.take_members("billing", online(*names))
    assert changes(pulse) == ["billing: 8 members joined: m1, m2, m3, m4, m5 and 3 more"]
    pulse.groups.take_members("billing", online("m7", "m8"))
    assert changes(pulse)[1:] == ["billing: 7 members left: m0, m1, m2, m3, m4 and 2 more"]
