"""A client of each protocol on one topic: what one has sent, holds or does not decide, the other gets."""

import time

import pytest

from rmqclient import (
    ConsumeFrom,
    LocalTransactionState,
    Message,
    PoppedMessage,
    Producer,
    ReceivedMessage,
    SimpleConsumer,
    TransactionProducer,
)
from rmqclient.admin import AdminClient
from rmqclient.consumers.simple_consumer import BlockingSimpleConsumer
from rmqproto.bodies.statistics import lag_of
from rmqserver.doors.grpc.codes import Code
from rmqserver.doors.grpc.messages import value
from tests.rmqserver.doors.grpc.calls import (
    Connect,
    TopicAndGroup,
    ack,
    be_producer,
    message_to,
    named,
    receive,
    send,
)
from tests.support.grpc_client import GrpcClient
from tests.support.servers import Fresh, Server, until

PROPERTIES = {"colour": "red", "größe": "7"}


def popped(consumer: BlockingSimpleConsumer, topic: str) -> list[PoppedMessage]:
    return consumer.pop(topic, invisible_s=10, wait_s=15)


def simple(server: Server, group: str) -> BlockingSimpleConsumer:
    return SimpleConsumer.blocking(server.namesrv_addr, group, consume_from=ConsumeFrom.FIRST_OFFSET)


def test_tags_keys_and_properties_reach_the_other_kind(
    client: GrpcClient, topic_and_group: TopicAndGroup, typed_server: Server
) -> None:
    topic, group = topic_and_group()
    with Producer.blocking(typed_server.namesrv_addr, "Producers") as producer:
        producer.send(Message(topic, b"to gRPC", tags="A", keys=["k1", "k2"], properties=PROPERTIES))
    (got,) = receive(client, topic, group)
    system = got.system_properties
    assert (got.body, system.tag, list(system.keys), dict(got.user_properties)) == (
        b"to gRPC", "A", ["k1", "k2"], PROPERTIES,
    )  # fmt: skip
    ack(client, topic, group, got)
    request = {"messages": [message_to(topic, b"from gRPC", PROPERTIES, tag="B", keys=["k3", "k4"])]}
    assert client.call("SendMessage", request).status.code == Code.OK
    with simple(typed_server, group) as consumer:
        (message,) = popped(consumer, topic)
        assert (message.body, message.tags, message.keys) == (b"from gRPC", "B", ["k3", "k4"])
        assert PROPERTIES.items() <= message.properties.items()
        consumer.ack([message])


def test_a_delay_holds_for_the_other_kind(
    client: GrpcClient, topic_and_group: TopicAndGroup, typed_server: Server
) -> None:
    topic, group = topic_and_group("DELAY")
    with Producer.blocking(typed_server.namesrv_addr, "Producers") as producer:
        due_s = time.time() + 1
        producer.send(Message(topic, b"to gRPC", delay_s=1.0))
    (got,) = receive(client, topic, group)
    assert time.time() >= due_s - 0.05
    ack(client, topic, group, got)
    due_s = int(time.time()) + 2
    send(client, topic, b"from gRPC", delivery_timestamp={"seconds": due_s})
    with simple(typed_server, group) as consumer:
        (message,) = popped(consumer, topic)
        assert (message.body, time.time() >= due_s) == (b"from gRPC", True)


def test_what_one_kind_holds_and_settles_counts_for_the_other(
    client: GrpcClient, topic_and_group: TopicAndGroup, typed_server: Server
) -> None:
    """One group: hidden messages, attempts, acknowledgements, and the lag that is left."""
    topic, group = topic_and_group()
    send(client, topic, b"held")
    (held,) = receive(client, topic, group)
    send(client, topic, b"other")
    with simple(typed_server, group) as consumer:
        (other,) = popped(consumer, topic)
        assert other.body == b"other", "the first is hidden from the whole group"
        consumer.change_invisible_time(other, 1)
        (again,) = receive(client, topic, group)
        assert (again.body, again.system_properties.delivery_attempt) == (b"other", 2)
        request = named(topic, group, held, invisible_duration={"seconds": 1})
        client.call("ChangeInvisibleDuration", request)
        (back,) = popped(consumer, topic)
        assert (back.body, back.reconsume_times) == (b"held", 1)
        consumer.ack([back])
    ack(client, topic, group, again)
    with AdminClient(typed_server.namesrv_addr) as admin:
        stats = admin.consume_stats
        until(lambda: not sum(map(lag_of, stats(typed_server.broker_addr, group).offset_table.values())))


@pytest.mark.parametrize("first", ["gRPC", "remoting"])
def test_attempts_of_both_kinds_make_one_dead_letter(
    client: GrpcClient, topic_and_group: TopicAndGroup, typed_server: Server, first: str
) -> None:
    topic, group = topic_and_group(retry_max_times=1)
    send(client, topic, b"tried")
    dead = f"%DLQ%{group}"
    with simple(typed_server, group) as consumer:

        def fail_with_grpc() -> None:
            (got,) = receive(client, topic, group)
            client.call("ChangeInvisibleDuration", named(topic, group, got, invisible_duration={"seconds": 1}))

        def fail_with_remoting() -> None:
            (got,) = popped(consumer, topic)
            consumer.change_invisible_time(got, 1)

        both = [fail_with_grpc, fail_with_remoting]
        for fail in both if first == "gRPC" else reversed(both):
            fail()
        assert not receive(client, topic, group, wait_s=5)
    with AdminClient(typed_server.namesrv_addr) as admin:
        until(lambda: dead in admin.topic_list())
        stats = admin.topic_stats(typed_server.broker_addr, dead).offset_table.values()
        assert sum(each.max_offset - each.min_offset for each in stats) == 1


class Commits:
    def execute_local_transaction(self, message: Message) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN

    def check_local_transaction(self, message: ReceivedMessage) -> LocalTransactionState:
        return LocalTransactionState.COMMIT


def test_a_producer_of_the_other_kind_says_how_a_transaction_ended(
    connect: Connect, client: GrpcClient, fresh: Fresh, topic_and_group: TopicAndGroup, typed_server: Server
) -> None:
    """A producer of gRPC is of the group that has the topic's name."""
    topic, group = topic_and_group("TRANSACTION")
    message_type = value("MessageType", "TRANSACTION")
    with TransactionProducer.blocking(typed_server.namesrv_addr, topic, Commits(), topics=[topic]) as producer:
        send(client, topic, b"from gRPC", message_type=message_type)
        assert [each.body for each in receive(client, topic, group)] == [b"from gRPC"]
        sent = producer.send_in_transaction(Message(topic, b"from remoting"))
        assert sent.state == LocalTransactionState.UNKNOWN
    producing, telemetry = be_producer(connect, fresh("producer"), topic)
    asked = next(telemetry).recover_orphaned_transaction_command
    request = {
        "topic": {"name": topic}, "message_id": asked.message.system_properties.message_id,
        "transaction_id": asked.transaction_id, "resolution": value("TransactionResolution", "COMMIT"),
        "source": value("TransactionSource", "SOURCE_SERVER_CHECK"),
    }  # fmt: skip
    assert producing.call("EndTransaction", request).status.code == Code.OK
    assert [each.body for each in receive(client, topic, group)] == [b"from remoting"]
