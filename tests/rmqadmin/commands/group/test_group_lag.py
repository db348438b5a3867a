"""``group lag`` on a real broker: online members with different subscriptions, queues that nobody consumes or that
stand still, and a lag that shrinks."""

import pytest

from rmqadmin.commands.group.group_lag import GroupLagResult
from rmqadmin.core.groups.consumption import GroupClients
from rmqadmin.core.groups.group_standing import GroupStanding, QueueStanding, StandingsReader
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import ClientConnection, SubscriptionGroupConfig
from rmqproto.bodies.routes import BrokerData
from rmqproto.bodies.statistics import ConsumeOffset, ConsumeRates
from tests.rmqadmin.conftest import Rmqadmin
from tests.rmqadmin.tui.members import ScriptedMember
from tests.support.servers import Fresh, Server, topic_config, until

COUNT = 8


@pytest.fixture
def behind(server: Server, admin: AdminClient, fresh: Fresh) -> tuple[str, str]:
    """A group and a topic of two queues: eight messages wait in the first, none in the second."""
    group, topic = fresh("LagGroup"), fresh("LagTopic")
    admin.create_topic(server.broker_addr, topic_config(topic, 2))
    admin.create_group(server.broker_addr, SubscriptionGroupConfig(group_name=group))
    until(lambda: topic in admin.topic_list())
    for _ in range(COUNT):
        admin.send_message(server.broker_addr, MessageQueue(topic, "broker-a", 0), Message(topic, b"x"))
    for queue_id in (0, 1):
        admin.update_consumer_offset(server.broker_addr, group, topic, queue_id, 0)
    return group, topic


def test_members_that_want_different_things_and_a_queue_that_nobody_consumes(
    rmqadmin: Rmqadmin, server: Server, behind: tuple[str, str]
) -> None:
    group, topic = behind
    queue = MessageQueue(topic, "broker-a", 0)
    with (
        ScriptedMember(server, group, topic, client_id="one", owns=[queue]),
        ScriptedMember(server, group, topic, client_id="two", owns=[], expression="TagA"),
    ):
        ran = rmqadmin("-o", "json", "group", "lag", group, "-t", topic, "--sample", "0.1")
        shown = rmqadmin("group", "lag", group, "--sample", "0")
    assert ran.status == 0, ran.err
    first, second = ran.items
    assert (first["queue_id"], first["lag_count"], first["moved_count"], first["owner"]) == (0, COUNT, 0, "one")
    assert first["problem"] == "stuck"
    assert first["oldest_waiting_ms"] > 0
    assert first["retention_left_ms"] > 0
    assert (second["queue_id"], second["lag_count"], second["problem"]) == (1, 0, "no owner")
    summary = ran.document["summary"]
    assert (summary["lag_count"], summary["course"], summary["client_count"]) == (COUNT, "steady", 2)
    assert summary["drain_ms"] is None
    told = "\n".join(summary["problems"])
    for said in (
        "subscriptions differ: its members take each other's queues",
        f"nobody consumes 1 queue: {topic}/broker-a/1",
        f": {topic}/broker-a/0",
    ):
        assert said in told
    assert "no owner" in shown.out
    assert "warning  " + group + ": subscriptions differ: its members" in shown.out
    assert "stuck" not in shown.out, "one reading cannot tell"


def test_a_lag_that_shrinks_says_when_it_is_gone(server: Server, admin: AdminClient, behind: tuple[str, str]) -> None:
    group, topic = behind
    broker = BrokerData(broker_addrs={0: server.broker_addr}, broker_name="broker-a")

    def consume(_wait_s: float) -> None:
        admin.update_consumer_offset(server.broker_addr, group, topic, 0, COUNT - 2)

    reader = StandingsReader(admin=admin, members=None, sample_s=1.0, now_ms=0, pause=consume)
    (standing,) = reader.read({group: [broker]})
    assert (standing.lag_count, standing.trend.motion, standing.trend.consumed_count) == (2, "shrinking", COUNT - 2)
    assert standing.trend.drain_ms is not None
    assert [queue.moved_count for queue in standing.queues if queue.queue.topic == topic] == [COUNT - 2, 0]
    assert standing.trend.drain_ms == round(2 / ((COUNT - 2) / standing.trend.elapsed_s) * 1000)


def test_a_group_that_does_not_lag_is_read_once(server: Server, admin: AdminClient, behind: tuple[str, str]) -> None:
    group, topic = behind
    admin.update_consumer_offset(server.broker_addr, group, topic, 0, COUNT)

    def pause(_wait_s: float) -> None:
        raise AssertionError("there is nothing to wait for")

    reader = StandingsReader(admin=admin, members=None, sample_s=60, now_ms=0, pause=pause)
    (standing,) = reader.read({group: [BrokerData(broker_addrs={0: server.broker_addr}, broker_name="broker-a")]})
    assert (standing.lag_count, standing.trend) == (0, None)


def test_a_broker_that_is_down_is_named_and_the_others_are_told_of(
    server: Server, admin: AdminClient, behind: tuple[str, str]
) -> None:
    group, _ = behind
    here = BrokerData(broker_addrs={0: server.broker_addr}, broker_name="broker-a")
    gone = BrokerData(broker_addrs={0: "127.0.0.1:1"}, broker_name="broker-b")
    reader = StandingsReader(admin=admin, members=None, sample_s=0, now_ms=0)
    (standing,) = reader.read({group: [gone, here]})
    assert (standing.lag_count, list(standing.lacking)) == (COUNT, ["broker-b"])
    (nothing,) = reader.read({group: [gone]})
    assert nothing.error is not None


def test_a_group_that_consumes_and_has_committed_nothing_is_not_taken_for_one_without_lag(
    rmqadmin: Rmqadmin, server: Server, behind: tuple[str, str], fresh: Fresh
) -> None:
    """Brokers report nothing about a topic in which a group has no offset. A group whose first ordered message failed
    for ever used to be ``OK - 0 messages behind``."""
    _, topic = behind
    group = fresh("NewGroup")
    with ScriptedMember(server, group, topic, client_id="one", owns=[MessageQueue(topic, "broker-a", 0)]):
        lag = rmqadmin("group", "lag", group, "--sample", "0")
        check = rmqadmin("check", "lag", "-g", group, "-w", "1k")
        named = rmqadmin("check", "lag", "-g", group, "-t", topic, "-w", "1k")
    nothing = f"nothing in {topic} ({COUNT} messages)"
    assert f"warning  {group}: it has committed {nothing}: what waits there is not known\n" in lag.out
    unknown = f"UNKNOWN - {group}: 0 messages behind, nothing committed{nothing.removeprefix('nothing')} | "
    assert (check.status, check.out[: len(unknown)]) == (3, unknown)
    assert (named.status, named.out.split(" | ")[0].split(",")[0]) == (0, f"OK - {group}: {COUNT} messages behind")


def test_what_members_manage_and_what_a_peak_needs(rmqadmin: Rmqadmin, server: Server, behind: tuple[str, str]) -> None:
    """Three members for two queues: two tell what they manage, as Java's do, and one does not."""
    group, topic = behind
    first, second = (MessageQueue(topic, "broker-a", queue_id) for queue_id in (0, 1))
    rates = ConsumeRates(consume_ok_tps=100.0, consume_rt=40.0)
    with (
        ScriptedMember(server, group, topic, client_id="one", owns=[first], rates=rates),
        ScriptedMember(server, group, topic, client_id="two", owns=[second], rates=rates),
        ScriptedMember(server, group, topic, client_id="spare", owns=[]),
    ):
        told = rmqadmin("-o", "json", "group", "lag", group, "--sample", "0.1", "--peak", "250")
        shown = rmqadmin("group", "lag", group, "--sample", "0", "--cores", "4", "--computing-ms", "10")
        check = rmqadmin("check", "lag", "-g", group, "-w", "1k")
    summary = told.document["summary"]
    assert summary["drain"] == "never at this rate"
    one = {"consumed_tps": 100.0, "consume_ms": 40.0, "thread_count": 20}
    assert {each["client_id"]: each["manages"] for each in summary["members"]} == {
        "one": one,
        "two": one,
        "spare": None,
    }
    needed = summary["needs"]
    assert (needed["member_tps"], needed["member_count"], needed["thread_count"]) == (100.0, 3, 10)
    assert "more members than queues, 3 members for 2: idle are spare" in "".join(summary["problems"])
    assert "one manages: 100.0/s, 40 ms each, 20 threads\n" in shown.out
    assert "spare manages: not known\n" in shown.out
    assert "threads of one machine: 16, by cores x (waiting + computing) / computing\n" in shown.out
    assert f"OK - {group}: {COUNT} messages behind" in check.out
    assert ", more members than queues" in check.out


@pytest.mark.parametrize("words", [["--cores", "4"], ["--computing-ms", "2"], ["--waiting-ms", "30"]])
def test_half_of_what_the_formula_needs_is_refused(rmqadmin: Rmqadmin, words: list[str]) -> None:
    rmqadmin("group", "lag", "G", *words, status=2, err="--cores and --computing-ms go together")


def test_nobody_is_advised_to_call_the_command_that_was_just_called() -> None:
    """The line ``fix: rmqadmin group lag billing`` used to stand below the table."""
    one = ClientConnection(client_id="one", client_addr="192.0.2.1:1", language="JAVA", version=1)
    clients = GroupClients({"one": one}, {"one": ["broker-a"]}, {}, None, None, None)
    entry = ConsumeOffset(broker_offset=10, consumer_offset=5)
    waiting = QueueStanding(queue=MessageQueue("t", "broker-a", 0), entry=entry, oldest_waiting_ms=0)
    standing = GroupStanding(group="billing", queues=[waiting], clients=clients, member_count=1)
    assert GroupLagResult(standing, 3_600_000).summary().problems == ["1h00m behind: 5 messages wait"]


def test_a_group_that_nobody_knows(rmqadmin: Rmqadmin, fresh: Fresh) -> None:
    assert rmqadmin("group", "lag", fresh("NoGroup")).status == 5
