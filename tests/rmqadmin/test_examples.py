"""The examples in every command's help, run as they stand but for addresses, ids and the end of a watch."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pytest

from rmqadmin import watch as watching
from rmqadmin.command_tree import all_commands
from rmqadmin.registry import Effect
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqproto.bodies import (
    ConsumerData,
    ConsumerRunningInfo,
    Heartbeat,
    MessageQueue,
    ProcessQueueInfo,
    ProducerData,
    SubscriptionData,
    SubscriptionGroupConfig,
    TopicConfig,
)
from rmqproto.fastjson import ObjectMap
from tests.rmqadmin.conftest import Rmqadmin
from tests.support.consumer import TalkingConsumer
from tests.support.servers import Server, until

# spark-replay starts Spark; tests/spark_tools/spark/test_redrive_command.py runs it.
# The dashboard's need a terminal: ``tui/test_terminal.py``.
EXAMPLES = [
    example
    for command in all_commands()
    if command.entry.effect is not Effect.SCREEN
    for example in command.examples
    if not example.startswith("rmqadmin spark-replay")
]


@pytest.fixture(scope="module")
def replaced(server: Server) -> Iterator[dict[str, str]]:
    """What the examples speak of exists: OrderTopic with the key ORDER-1, OrderGroup online and behind, OldTopic."""
    group = SubscriptionData(topic="OrderTopic")
    beat = Heartbeat(
        client_id="example",
        consumer_data_set=[ConsumerData(group_name="OrderGroup", subscription_data_set=[group])],
        producer_data_set=[ProducerData(group_name="OrderProducer")],
    )
    addr = server.broker_addr
    info = ConsumerRunningInfo(mq_table=ObjectMap({MessageQueue("OrderTopic", "broker-a", 0): ProcessQueueInfo()}))
    with AdminClient(server.namesrv_addr) as admin, TalkingConsumer(addr, beat, info):
        for topic in ("OrderTopic", "OldTopic"):
            admin.create_topic(addr, TopicConfig(topic_name=topic, read_queue_nums=4, write_queue_nums=4))
        for name in ("OrderGroup", "OtherGroup"):
            admin.create_group(addr, SubscriptionGroupConfig(group_name=name))
        queue = MessageQueue("OrderTopic", "broker-a", 0)
        sent = [admin.send_message(addr, queue, Message("OrderTopic", b"order", keys="ORDER-1")) for _ in range(6)]
        until(lambda: len(admin.query_message(addr, "OrderTopic", "ORDER-1")) == len(sent))
        admin.update_consumer_offset(addr, "OrderGroup", "OrderTopic", 0, 6)
        yield {
            "127.0.0.1:10911": addr,
            "127.0.0.1:9876": server.namesrv_addr,
            "7F00000100002A9F00000000000007DA": sent[0].offset_message_id,
            "7F000001041D4E0E2F2A69B4378A0009": sent[0].message_id,
        }


@pytest.fixture
def one_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C at the first pause of a watch."""

    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(watching.time, "sleep", interrupt)


@pytest.mark.usefixtures("one_tick")
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_in_a_help_works(rmqadmin: Rmqadmin, server: Server, replaced: dict[str, str], example: str) -> None:
    with AdminClient(server.namesrv_addr) as admin:  # an earlier example may have deleted them
        if "deleteTopic" in example:
            admin.create_topic(server.broker_addr, TopicConfig(topic_name="OldTopic"))
        if "deleteSubGroup" in example:
            admin.create_group(server.broker_addr, SubscriptionGroupConfig(group_name="OldGroup"))
    for written, meant in replaced.items():
        example = example.replace(written, meant)
    ran = rmqadmin(*shlex.split(example)[1:])
    if "wipeWritePerm" in example:  # other tests write to the same server
        assert rmqadmin("addWritePerm", "-b", "broker-a").status == 0
    assert ran.status == (130 if "--watch" in example and "--until" not in example else 0), ran.err
    assert ran.out


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 30
    assert all(example.startswith("rmqadmin ") for example in EXAMPLES)
