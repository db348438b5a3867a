import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import TopicConfig
from rmqproto.message import properties as props
from rmqserver.broker.sending.pending import STORED
from rmqserver.doors.grpc.codes import Code
from rmqserver.doors.grpc.messages import value
from rmqserver.doors.grpc.send_calls import SentTogether, offsets_in, transaction_id
from rmqserver.doors.grpc.stored import SentMessage, checked_message
from tests.rmqserver.doors.grpc.calls import Connect, TopicAndGroup, be_producer, commit, message_to, receive, send
from tests.support import servers
from tests.support.grpc_client import GrpcClient
from tests.support.quick import in_one_test
from tests.support.servers import Fresh, Server


def test_a_message_is_stored_as_the_proxy_stores_it(
    client: GrpcClient, topic_and_group: TopicAndGroup, typed_server: Server
) -> None:
    topic, group = topic_and_group()
    entry = send(client, topic, b"hello", tag="A", keys=["k1", "k2"], user_properties={"colour": "blue"}).entries[0]
    assert (entry.status.code, entry.offset) == (Code.OK, 0)
    with AdminClient(typed_server.namesrv_addr) as admin:
        (stored,) = admin.pull_message(typed_server.broker_addr, MessageQueue(topic, "broker-a", 0), 0).messages
    assert stored.properties.items() >= {
        props.UNIQUE_KEY: entry.message_id, props.PRODUCER_GROUP: topic, props.TAGS: "A", props.KEYS: "k1 k2",
        props.RECONSUME_TIME: "0", props.CLUSTER: "DefaultCluster", props.TRACE_ON: "true", "colour": "blue",
    }.items()  # fmt: skip
    got = receive(client, topic, group)[0]
    system = got.system_properties
    assert (got.body, system.tag, list(system.keys)) == (b"hello", "A", ["k1", "k2"])
    assert dict(got.user_properties) == {"colour": "blue"}
    assert system.body_digest.checksum == "5D41402ABC4B2A76B9719D911017C592"
    assert (system.body_encoding, system.delivery_attempt, system.queue_offset) == (value("Encoding", "IDENTITY"), 1, 0)


def test_one_group_of_messages_has_one_queue(client: GrpcClient, topic_and_group: TopicAndGroup) -> None:
    topic, group = topic_and_group("FIFO", queue_nums=4)
    for number in range(6):
        send(client, topic, b"%d" % number, message_group="g")
    got = receive(client, topic, group)
    assert [each.body for each in got] == [b"%d" % number for number in range(6)]
    assert len({each.system_properties.queue_id for each in got}) == 1


def test_several_messages_have_an_entry_each(client: GrpcClient, topic_and_group: TopicAndGroup) -> None:
    topic, _ = topic_and_group()
    request = {"messages": [message_to(topic, b"1"), message_to(topic, b"2")]}
    answer = client.call("SendMessage", request)
    assert [entry.offset for entry in answer.entries] == [0, 1]


def test_a_delayed_message_comes_in_time_and_may_be_recalled(
    client: GrpcClient, topic_and_group: TopicAndGroup
) -> None:
    topic, group = topic_and_group("DELAY")
    soon = {"seconds": int(time.time()) + 60}
    entry = send(client, topic, b"later", delivery_timestamp=soon).entries[0]
    recalled = client.call("RecallMessage", {"topic": {"name": topic}, "recall_handle": entry.recall_handle})
    assert (recalled.status.code, recalled.message_id) == (Code.OK, entry.message_id)
    send(client, topic, b"now", delivery_timestamp={"seconds": int(time.time()) - 1})
    assert [each.body for each in receive(client, topic, group)] == [b"now"]


# --- transactions ----------------------------------------------------------------------------------------------------


def _half(client: GrpcClient, topic: str, **system: Any) -> Any:
    return send(client, topic, b"half", message_type=value("MessageType", "TRANSACTION"), **system).entries[0]


def _received_ids(client: GrpcClient, topic: str, group: str) -> list[str]:
    return [each.system_properties.message_id for each in receive(client, topic, group)]


def test_a_committed_transaction_is_delivered_once(client: GrpcClient, topic_and_group: TopicAndGroup) -> None:
    topic, group = topic_and_group("TRANSACTION")
    entry = _half(client, topic)
    assert commit(client, topic, entry).status.code == Code.OK
    assert commit(client, topic, entry).status.message == "cannot found transaction data", "it has ended"
    assert [each.body for each in receive(client, topic, group)] == [b"half"]
    next_entry = _half(client, topic)
    commit(client, topic, next_entry)
    assert _received_ids(client, topic, group) == [next_entry.message_id]


def test_a_transaction_ends_by_its_own_id_whatever_message_is_named(
    client: GrpcClient, topic_and_group: TopicAndGroup
) -> None:
    topic, group = topic_and_group("TRANSACTION")
    entry = _half(client, topic)
    named = type(entry)(message_id="Other", transaction_id=entry.transaction_id)
    assert commit(client, topic, named).status.code == Code.OK
    assert _received_ids(client, topic, group) == [entry.message_id]


def test_consumers_read_the_transaction_id_that_its_producer_was_told(
    client: GrpcClient, topic_and_group: TopicAndGroup
) -> None:
    topic, group = topic_and_group("TRANSACTION")
    entry = _half(client, topic)
    assert entry.transaction_id == entry.message_id
    commit(client, topic, entry)
    (got,) = receive(client, topic, group)
    assert got.user_properties[props.TRANSACTION_ID] == entry.transaction_id


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_restart_forgets_no_transaction(tmp_path: Path, how: signal.Signals) -> None:
    with servers.standalone(tmp_path) as first, GrpcClient(first.broker_addr, "before") as client:
        with AdminClient(first.namesrv_addr) as admin:
            config = TopicConfig(topic_name="Topic", read_queue_nums=1, write_queue_nums=1, perm=6,
                                 attributes={"+message.type": "TRANSACTION"})  # fmt: skip
            admin.create_topic(first.broker_addr, config)
        kept, dropped = _half(client, "Topic"), _half(client, "Topic")
        first.stop(how)
    with servers.standalone(tmp_path) as again, GrpcClient(again.broker_addr, "after") as client:
        kept_by_id = type(kept)(message_id="Other", transaction_id=kept.transaction_id)
        assert commit(client, "Topic", kept_by_id).status.code == Code.OK
        assert commit(client, "Topic", dropped, "ROLLBACK").status.code == Code.OK
        assert commit(client, "Topic", dropped).status.message == "cannot found transaction data", "it has ended"
        (got,) = receive(client, "Topic", "Group")
        assert got.system_properties.message_id == kept.message_id


def test_a_rolled_back_transaction_is_not_delivered(client: GrpcClient, topic_and_group: TopicAndGroup) -> None:
    topic, group = topic_and_group("TRANSACTION")
    entry = _half(client, topic)
    assert commit(client, topic, entry, "ROLLBACK").status.code == Code.OK
    assert commit(client, topic, entry).status.code == Code.INTERNAL_SERVER_ERROR
    _half(client, topic)
    committed = _half(client, topic)
    commit(client, topic, committed)
    assert _received_ids(client, topic, group) == [committed.message_id]


def test_the_broker_asks_how_a_transaction_ended(
    connect: Connect, fresh: Fresh, topic_and_group: TopicAndGroup
) -> None:
    topic, group = topic_and_group("TRANSACTION")
    client, telemetry = be_producer(connect, fresh("producer"), topic)
    entry = _half(client, topic, orphaned_transaction_recovery_duration={"seconds": 1})
    asked = next(telemetry).recover_orphaned_transaction_command
    assert asked.message.body == b"half"
    assert asked.message.system_properties.message_id == entry.message_id
    request = {
        "topic": {"name": topic}, "message_id": "Other", "transaction_id": asked.transaction_id,
        "resolution": value("TransactionResolution", "COMMIT"),
        "source": value("TransactionSource", "SOURCE_SERVER_CHECK"),
    }  # fmt: skip
    assert client.call("EndTransaction", request).status.code == Code.OK
    assert [each.body for each in receive(client, topic, group)] == [b"half"]


def test_what_cannot_be_stored_does_not_cost_those_beside_it_their_answers() -> None:
    answers: list[Any] = []
    call: Any = SimpleNamespace(answer=answers.append, address="127.0.0.1:1")

    def put(call: Any, asked: SentMessage, config: Any, on_sent: Any) -> None:
        if asked.body == b"bad":
            raise OverflowError("more than a struct takes")
        on_sent(SimpleNamespace(appended=SimpleNamespace(queue_offset=7), recall_handle=None))(STORED)

    asked = [checked_message(message_to("T", body), 0, "h:1") for body in (b"good", b"bad", b"good")]
    sending: Any = SimpleNamespace(put=put)
    config: Any = None
    SentTogether(sending, call, asked, config).put()
    (codes,) = [[entry.status.code for entry in answer.entries] for answer in answers]
    assert codes == [Code.OK, Code.INTERNAL_SERVER_ERROR, Code.OK]


def test_the_id_of_a_check_says_where_the_copy_is() -> None:
    assert offsets_in(transaction_id(4711, 12, "A-B")) == (4711, 12)


@in_one_test("", "x", "1-2", "1-2-", "g-2-ID", "1--ID", f"{'1' * 40}-2-ID", "-1-2-ID")
def test_another_text_is_no_transaction_id(text: str) -> None:
    assert offsets_in(text) is None


def test_what_is_not_the_users_stays_hidden(client: GrpcClient, topic_and_group: TopicAndGroup) -> None:
    topic, group = topic_and_group("FIFO")
    send(client, topic, b"x", message_group="g", trace_context="trace")
    (got,) = receive(client, topic, group)
    assert got.user_properties == {props.TRACE_CONTEXT: "trace", props.SHARDING_KEY: "g"}
    assert (got.system_properties.message_group, got.system_properties.trace_context) == ("g", "trace")


def test_the_user_sets_what_the_proxy_lets_through(client: GrpcClient, topic_and_group: TopicAndGroup) -> None:
    topic, group = topic_and_group()
    given = {
        props.TRACE_CONTEXT: "t", props.TRANSACTION_ID: "i", props.TRANSACTION_CHECK_TIMES: "3",
        props.CHECK_IMMUNITY_TIME_IN_SECONDS: "3", "имя": "日本", "a": "b=c", "REDIRECT": "/there",
        "PROPERTY_FORWARD_QUEUE_ID": "1", "__RMQ.TRANSIENT.TOPIC_SYS_FLAG": "1",
    }  # fmt: skip
    keys = ["ключ", "a\u00a0b", "c\u3000d"]
    assert send(client, topic, b"x", user_properties=given, keys=keys).status.code == Code.OK
    (got,) = receive(client, topic, group)
    assert (dict(got.user_properties), list(got.system_properties.keys)) == (given, keys)


def test_an_empty_tag_group_or_lite_topic_is_none(client: GrpcClient, topic_and_group: TopicAndGroup) -> None:
    topic, group = topic_and_group()
    assert send(client, topic, b"x", tag="", message_group="", lite_topic="").status.code == Code.OK
    (got,) = receive(client, topic, group)
    assert got.system_properties.message_type == value("MessageType", "NORMAL")
    assert not got.system_properties.HasField("tag")


@pytest.mark.parametrize("more", [{"keys": ["k" * 16_384]}, {"tag": "t" * 16_384}])
def test_tag_and_keys_count_as_properties(
    client: GrpcClient, topic_and_group: TopicAndGroup, more: dict[str, Any]
) -> None:
    topic, _ = topic_and_group()
    assert send(client, topic, b"x", **more).status.code == Code.OK
    refused = send(client, topic, b"x", user_properties={"n": ""}, **more)
    assert refused.status.code == Code.MESSAGE_PROPERTIES_TOO_LARGE


@pytest.mark.parametrize("field", ["message_id", "trace_context", "born_host"])
def test_no_field_brings_properties_along(client: GrpcClient, topic_and_group: TopicAndGroup, field: str) -> None:
    topic, _ = topic_and_group()
    answer = send(client, topic, b"x", **{field: f"text\x02{props.TAGS}\x01smuggled"})
    assert answer.status.code in (Code.ILLEGAL_MESSAGE_ID, Code.BAD_REQUEST)
