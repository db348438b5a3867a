"""A topic that was deleted at one broker only: its name servers go on naming that broker. No command about the topic or
its group fails for that, and nothing that is known of the other broker is hidden."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig
from rmqproto.message import properties as props
from rmqproto.names import dlq_topic
from tests.rmqadmin.conftest import CLUSTER, Rmqadmin
from tests.support import servers
from tests.support.servers import Server, until

TOPIC, GROUP = "orders", "billing"


class HalfGone(NamedTuple):
    """``a`` has the topic and the dead letters, ``b`` had them."""

    namesrv_addr: str
    a: Server
    b: Server


@pytest.fixture(scope="module")
def half_gone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HalfGone]:
    folder = tmp_path_factory.mktemp("gone")
    with (
        servers.namesrv(folder / "namesrv") as namesrv,
        servers.broker(folder / "a", namesrv.namesrv_addr, "broker-a") as a,
        servers.broker(folder / "b", namesrv.namesrv_addr, "broker-b") as b,
        AdminClient(namesrv.namesrv_addr) as admin,
    ):
        for name in (TOPIC, dlq_topic(GROUP)):
            for broker in (a, b):
                config = TopicConfig(topic_name=name, read_queue_nums=1, write_queue_nums=1)
                admin.create_topic(broker.broker_addr, config)
                admin.create_group(broker.broker_addr, SubscriptionGroupConfig(group_name=GROUP))
                admin.update_consumer_offset(broker.broker_addr, GROUP, name, 0, 0)
            until(lambda name=name: len(admin.topic_route(name).broker_datas) == 2)  # type: ignore[misc]
            letter = Message(name, b"m", properties={props.RETRY_TOPIC: TOPIC})
            admin.send_message(a.broker_addr, MessageQueue(name, "broker-a", 0), letter)
            admin.delete_topic_in_broker(b.broker_addr, name)
            assert len(admin.topic_route(name).broker_datas) == 2
        yield HalfGone(namesrv.namesrv_addr, a, b)


@pytest.fixture
def on(run: Rmqadmin, half_gone: HalfGone, monkeypatch: pytest.MonkeyPatch) -> Rmqadmin:
    monkeypatch.setenv("NAMESRV_ADDR", half_gone.namesrv_addr)
    return run


@pytest.mark.parametrize(
    "command",
    [
        f"resetOffset -g {GROUP} -t {TOPIC} --to begin", f"resetOffsetByTime -g {GROUP} -t {TOPIC} -s now",
        f"skipAccumulatedMessage -g {GROUP} -t {TOPIC}", f"cloneGroupOffset -s {GROUP} -d other -t {TOPIC}",
    ],
)  # fmt: skip
def test_a_reset_moves_the_group_where_the_topic_is(on: Rmqadmin, command: str) -> None:
    """They ended with status 5, "topic[orders] not exist"."""
    ran = on("-o", "json", *command.split(), "--dry-run")
    assert (ran.status, [item["broker_name"] for item in ran.items]) == (0, ["broker-a"])


def test_the_other_brokers_dead_letters_are_counted(on: Rmqadmin) -> None:
    """They were unknown, `check dlq` said UNKNOWN, and a deletion did not say what would be lost."""
    ran = on("dlq", "ls", "-o", "json")
    assert (ran.status, [(item["group"], item["left"], item["error"]) for item in ran.items]) == (0, [(GROUP, 1, None)])
    ran = on("check", "dlq", "-g", GROUP)
    assert (ran.status, "1 dead letter" in ran.out) == (1, True)
    ran = on("deleteSubGroup", "-g", GROUP, "-c", CLUSTER, "--dry-run")
    assert (ran.status, "1 dead letter would be lost" in ran.err) == (0, True)


@pytest.mark.parametrize(
    "command",
    [
        f"topicStatus -t {TOPIC}", f"topic describe {TOPIC}", f"consumerProgress -g {GROUP}", "consumerProgress",
        f"group describe {GROUP}", f"group lag {GROUP} --sample 0", "group ls", "topicList -c", "statsAll",
        f"msg cat {TOPIC}", f"printMsg -t {TOPIC}", f"consumeMessage -t {TOPIC}", f"dlq show {GROUP}",
        f"dlq redrive {GROUP} --to same", f"queryMsgByKey -t {TOPIC} -k x", "brokerConsumeStats -b broker-b",
        "export topics", f"exportMetrics -c {CLUSTER}", f"topic delete {TOPIC} --dry-run",
    ],
)  # fmt: skip
def test_what_there_is_is_shown(on: Rmqadmin, command: str) -> None:
    ran = on("-o", "json", *command.split())
    if "queryMsgByKey" in command:
        assert ran.status == 5
    else:
        assert ran.items or "broker-b" in command
        assert ran.status in (0, 1)


def test_doctor_tells_that_a_route_leads_to_a_broker_without_the_topic(on: Rmqadmin, half_gone: HalfGone) -> None:
    """It noted that broker-b lacks the topic, as if nobody went there."""
    ran = on("doctor", "--sample", "0", "-o", "json")
    found = [item for item in ran.items if item["check"] == "routes" and item["severity"] == "warning"]
    assert [(item["subject"], "lists 1 topic on broker-b" in item["what"]) for item in found] == [
        (half_gone.namesrv_addr, True)
    ]
    assert f"rmqadmin updateTopic -t '{TOPIC}' -b {half_gone.b.broker_addr}" in found[0]["fix"]
