"""What consumers say about themselves, on a running server and in mqadmin's words."""

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqadmin.core.groups.client_status import GroupStatus
from rmqadmin.core.groups.consumption import ClientAnswer
from rmqadmin.core.groups.running_info import STUCK_MS, have_same_subscription, queue_problems, running_info_text
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import ClientConnection, ConsumerData, Heartbeat, SubscriptionData
from rmqproto.bodies.statistics import STARTED_MS, ConsumeRates, ConsumerRunningInfo, ProcessQueueInfo
from rmqproto.codes import RequestCode
from rmqproto.wire.fastjson import ObjectMap
from tests.rmqadmin.conftest import Rmqadmin, golden
from tests.support import consumer
from tests.support.consumer import TalkingConsumer
from tests.support.peer import Peer, answer
from tests.support.quick import in_one_test
from tests.support.servers import Fresh, Server

Online = Callable[[str, ConsumerRunningInfo], TalkingConsumer]

QUEUE = MessageQueue("T", "broker-a", 0)
NOW_MS = 10_000_000
PUSH = {"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY", "PROP_CONSUMER_START_TIMESTAMP": "1000"}
ORDERED = {**PUSH, "PROP_CONSUMEORDERLY": "true"}


def info(
    properties: dict[str, str] = PUSH, state: ProcessQueueInfo | None = None, expression: str = "*"
) -> ConsumerRunningInfo:
    return ConsumerRunningInfo(
        properties=properties,
        mq_table=ObjectMap({QUEUE: state or ProcessQueueInfo()}),
        subscription_set=[SubscriptionData(topic="T", sub_string=expression)],
    )


@pytest.fixture
def group(fresh: Fresh) -> str:
    return fresh("StatusGroup")


@pytest.fixture
def online(server: Server, group: str) -> Online:
    """``online("client", info)``: one client of the group, online until its context ends."""

    def connect(client_id: str, said: ConsumerRunningInfo) -> TalkingConsumer:
        member = ConsumerData(group_name=group, subscription_data_set=[SubscriptionData(topic="T")])
        return TalkingConsumer(server.broker_addr, Heartbeat(client_id=client_id, consumer_data_set=[member]), said)

    return connect


def test_a_client_stays_online(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the tests of one file take longer than a broker waits for a heartbeat."""
    monkeypatch.setattr(consumer, "BEAT_EVERY_S", 0.01)
    with Peer(answer) as broker, TalkingConsumer(broker.address, Heartbeat(client_id="one"), info()):
        broker.wait_for(lambda: broker.codes().count(RequestCode.HEART_BEAT) >= 3)


def test_all_clients_of_a_group_are_asked(
    rmqadmin: Rmqadmin, group: str, online: Online, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    args = ("consumerStatus", "-g", group)
    assert rmqadmin(*args).status == 5
    stuck = ProcessQueueInfo(cached_msg_count=7, last_consume_timestamp=1)
    with online("one", info(state=stuck)), online("two", info(expression="TagA")):
        ran = rmqadmin("-o", "json", *args)
        first, second = sorted(ran.items, key=lambda row: str(row["client_id"]))
        assert (first["client_id"], first["consume_type"], first["queue_count"]) == (
            "one",
            PUSH["PROP_CONSUME_TYPE"],
            1,
        )
        assert (first["cached_count"], len(first["problems"])) == (7, 1)
        assert second["problems"] == ["has other subscriptions than most"]
        assert ran.document["summary"] == {"same_subscription": False, "problem_count": 2}
        assert list(tmp_path.glob("*/one")) == []  # only mqadmin's format writes files
        text = rmqadmin(*args, "--output", "mqadmin").out
        assert text.endswith("\n\nWARN: Different subscription in the same group of consumer!!!")
        (path,) = tmp_path.glob("*/one")
        assert str(path.relative_to(tmp_path)) in text
        assert path.read_text().startswith("#Consumer Properties#\n")


def test_clients_that_have_just_started_are_compared_too(
    rmqadmin: Rmqadmin, group: str, online: Online, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said yes for two minutes, while the doctor that had named the command said no, and then no with 0 problems.
    Only mqadmin's text waits."""
    monkeypatch.chdir(tmp_path)
    young = {**PUSH, STARTED_MS: str(int(time.time() * 1000))}
    args = ("consumerStatus", "-g", group)
    with online("one", info(young)), online("two", info(young)), online("three", info(young, expression="TagA")):
        ran = rmqadmin("-o", "json", *args)
        assert ran.document["summary"] == {"same_subscription": False, "problem_count": 1}
        assert {row["client_id"]: len(row["problems"]) for row in ran.items} == {"one": 0, "two": 0, "three": 1}
        assert "Same subscription in the same group" in rmqadmin(*args, "--output", "mqadmin").out


def test_whether_a_client_that_does_not_answer_wants_the_same_is_unknown(
    rmqadmin: Rmqadmin, group: str, online: Online
) -> None:
    with online("one", info()), online("two", info()) as broken:
        same = rmqadmin("-o", "json", "consumerStatus", "-g", group).document["summary"]
        assert same == {"same_subscription": True, "problem_count": 0}
        broken.info_body = b"["
        summary = rmqadmin("-o", "json", "consumerStatus", "-g", group).document["summary"]
        assert summary == {"same_subscription": None, "problem_count": 0}


def test_one_client_in_detail(rmqadmin: Rmqadmin, server: Server, group: str, online: Online) -> None:
    said = info(state=ProcessQueueInfo(commit_offset=5, locked=True))
    said.jstack = "TID: 1"
    with online("one", said):
        args = ("consumerStatus", "-g", group, "-b", server.broker_addr)
        ran = rmqadmin("-o", "json", *args, "-i", "one", "-s")
        (row,) = ran.items
        assert (row["topic"], row["committed_offset"], row["locked"]) == ("T", 5, True)
        assert ran.document["summary"]["properties"] == PUSH
        assert ran.document["summary"]["jstack"] == "TID: 1"
        unknown = rmqadmin(*args, "-i", "nobody")
        assert (unknown.status, "It has: one." in unknown.err) == (5, True)


def test_a_person_reads_what_is_wrong_and_with_s_the_stacks(rmqadmin: Rmqadmin, group: str, online: Online) -> None:
    """At 80 columns a problem used to be cut off after the beginning of the client's id. -s, which doctor and a page
    advise, used to show stacks only in mqadmin's format."""
    said = info(state=ProcessQueueInfo(cached_msg_count=7, last_consume_timestamp=time.time_ns() // 1_000_000 - 70_000))
    said.jstack = "main  TID: 1\n  at Listener.consume\n"
    with online("one", said), online("two", info()):
        ran = rmqadmin("consumerStatus", "-g", group, "-s")
        assert re.search(r"^one .*  blocked for 1m1\ds: T/broker-a/0$", ran.out, re.MULTILINE), ran.out
        assert "\nThreads of one:\nmain  TID: 1\n  at Listener.consume\n" in ran.out
        assert "\nThreads of two:\nIt does not tell their stacks.\n" in ran.out
        items = rmqadmin("-o", "json", "consumerStatus", "-g", group, "-s").items
        assert sorted(str(row["jstack"]) for row in items) == ["None", said.jstack]


def test_a_client_that_says_nothing_has_a_row_that_says_why(rmqadmin: Rmqadmin, group: str, online: Online) -> None:
    with online("one", info()) as consumer:
        consumer.info_body = b"no json"
        ran = rmqadmin("-o", "json", "consumerStatus", "-g", group)
    assert ran.status == 1
    assert ran.items[0]["error"]
    assert "the client: JSON" in ran.err


@in_one_test(
    (PUSH, ProcessQueueInfo(cached_msg_count=1, last_consume_timestamp=NOW_MS - STUCK_MS - 1), "blocked, 60001ms"),
    (PUSH, ProcessQueueInfo(cached_msg_count=0), None),
    (PUSH, ProcessQueueInfo(cached_msg_count=1, last_consume_timestamp=NOW_MS - STUCK_MS), None),
    (ORDERED, ProcessQueueInfo(last_lock_timestamp=NOW_MS - 5), "can't lock for a while, 5ms"),
    (ORDERED, ProcessQueueInfo(locked=True, droped=True, try_unlock_times=3), "unlock 3 times, still failed"),
    (ORDERED, ProcessQueueInfo(locked=True), None),
    ({}, ProcessQueueInfo(cached_msg_count=1), None),
)  # fmt: skip
def test_a_queue_that_does_not_get_on_is_a_problem(
    properties: dict[str, str], state: ProcessQueueInfo, problem: str | None
) -> None:
    found = queue_problems(info(properties, state), NOW_MS)
    if problem is None:
        assert found == []
    else:
        told = found[0].mqadmin_text("c")
        assert told.startswith("c MessageQueue [topic=T, brokerName=broker-a, queueId=0] ")
        assert told.endswith(problem)


def test_clients_that_have_just_started_may_want_something_else() -> None:
    differ = {"a": info(expression="*"), "b": info(expression="TagA")}
    assert not have_same_subscription(differ, NOW_MS)
    assert have_same_subscription(differ, 1000 + 60_000)
    assert have_same_subscription({"a": info(), "b": info()}, NOW_MS)


# --- mqadmin's text --------------------------------------------------------------------------------------------------


def test_the_running_info_of_a_client(utc: None) -> None:
    """Apache's client sends its properties in another order than the tool prints. test_mqadmin_texts_of_servers tests
    that order; this test ignores it."""
    text = golden("consumerStatus", "client")
    queues = re.findall(
        r"(?m)^(\S+) +broker-a +(\d+) +ProcessQueueInfo \[commitOffset=(\d+).*lastLockTimestamp=(\d+), droped=false, "
        r"lastPullTimestamp=(\d+), lastConsumeTimestamp=(\d+)\]",
        text,
    )
    said = ConsumerRunningInfo(
        mq_table=ObjectMap({
            MessageQueue(topic, "broker-a", int(queue_id)): ProcessQueueInfo(
                commit_offset=int(offset), locked=True, last_lock_timestamp=millis(lock),
                last_pull_timestamp=millis(pull), last_consume_timestamp=millis(consume),
            )
            for topic, queue_id, offset, lock, pull, consume in reversed(queues)
        }),
        subscription_set=[
            SubscriptionData(topic="NormalTopic", sub_string="TagA || TagB"),
            SubscriptionData(topic="%RETRY%NormalGroup", sub_string="*"),
        ],
        status_table={"NormalTopic": ConsumeRates(), "%RETRY%NormalGroup": ConsumeRates()},
    )  # fmt: skip
    shown = running_info_text(said)
    without_properties = re.sub(r"(?s)(?<=#Consumer Properties#\n).*?(?=\n\n#Consumer Subscription#)", "", text)
    assert shown == without_properties


def millis(digits: str) -> int:
    from datetime import UTC, datetime

    moment = datetime.strptime(digits[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    return int(moment.timestamp()) * 1000 + int(digits[14:])


def test_the_clients_of_a_group() -> None:
    client = ClientConnection(
        client_addr="127.0.0.1:51614", client_id="127.0.0.1@NormalGroup", language="JAVA", version=513
    )
    shown = GroupStatus([ClientAnswer(client, info())], 1795264732376)
    assert shown.mqadmin_text() == golden("consumerStatus", "ok")
