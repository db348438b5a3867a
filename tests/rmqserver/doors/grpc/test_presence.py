import contextlib
import threading
import time
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from rmqclient.admin import AdminClient
from rmqproto.bodies.groups import GroupRetryPolicy
from rmqproto.codes import version_name
from rmqproto.errors import RefusedError
from rmqserver.broker.errors import TooManyClients
from rmqserver.doors.grpc.codes import Code
from rmqserver.doors.grpc.messages import CLASSES, value
from rmqserver.doors.grpc.presence import GrpcPeer, GrpcPeers
from tests.rmqserver.doors.grpc.calls import (
    Connect,
    TopicAndGroup,
    be_consumer,
    be_producer,
    consumer_settings,
    producer_settings,
    receive,
    receive_request,
    send,
    tell_settings,
)
from tests.support.grpc_client import GrpcClient, GrpcError
from tests.support.servers import Fresh, Server, until


def test_settings_are_merged_with_the_brokers(client: GrpcClient, topic_and_group: TopicAndGroup) -> None:
    topic, group = topic_and_group(consume_message_orderly=True, retry_max_times=3)
    _, told = tell_settings(client, producer_settings(topic))
    assert (told.backoff_policy.max_attempts, told.publishing.max_body_size) == (3, 4 << 20)
    assert told.backoff_policy.WhichOneof("strategy") == "exponential_backoff"
    _, told = tell_settings(client, consumer_settings(group, topic))
    assert (told.backoff_policy.max_attempts, told.subscription.fifo) == (4, True)
    assert (told.subscription.receive_batch_size, told.subscription.long_polling_timeout.seconds) == (32, 20)


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (GroupRetryPolicy(), [1.0, 5.0, 10.0, 30.0]),
        (GroupRetryPolicy(customized_retry_policy={"next": [2500, "soon", True, 7000]}), [2.5, 7.0]),
        (GroupRetryPolicy(customized_retry_policy={"next": None}), [1.0, 5.0, 10.0, 30.0]),
        (GroupRetryPolicy(type="EXPONENTIAL", exponential_retry_policy={"initial": 2000, "max": 9000}), (2, 9, 2)),
        (GroupRetryPolicy(type="EXPONENTIAL"), (5, 7200, 2)),
    ],
)  # fmt: skip
def test_a_group_says_when_its_consumers_try_again(
    client: GrpcClient, topic_and_group: TopicAndGroup, policy: GroupRetryPolicy, told: object
) -> None:
    topic, group = topic_and_group(group_retry_policy=policy)
    _, settings = tell_settings(client, consumer_settings(group, topic))
    backoff = settings.backoff_policy
    if isinstance(told, list):
        assert [each.seconds + each.nanos / 1e9 for each in backoff.customized_backoff.next][:4] == told
    else:
        growth = backoff.exponential_backoff
        assert (growth.initial.seconds, growth.max.seconds, growth.multiplier) == told


def test_tools_see_a_client_until_it_leaves(
    connect: Connect, fresh: Fresh, topic_and_group: TopicAndGroup,
    typed_server: Server,
) -> None:  # fmt: skip
    topic, group = topic_and_group()
    consumer, _ = be_consumer(connect, fresh("consumer"), group, topic, expression="A || B")
    be_producer(connect, fresh("producer"), topic)
    with AdminClient(typed_server.namesrv_addr) as admin:
        seen = admin.consumer_connection(typed_server.broker_addr, group)
        assert [(each.language, version_name(each.version)) for each in seen.connection_set] == [("PYTHON", "V5_1_2")]
        assert seen.subscription_table[topic].sub_string == "A || B"
        producers = admin.producer_connection(typed_server.broker_addr, topic).connection_set
        assert [each.language for each in producers] == ["PYTHON"]
        consumer.call("NotifyClientTermination", {"group": {"name": group}})
        with pytest.raises(RefusedError, match="not online"):
            admin.consumer_connection(typed_server.broker_addr, group)
    assert consumer.call("Heartbeat", {"group": {"name": group}}).status.code == Code.UNRECOGNIZED_CLIENT_TYPE


def test_a_consumer_that_leaves_no_group_is_told_so_and_leaves(
    connect: Connect, fresh: Fresh, topic_and_group: TopicAndGroup
) -> None:
    topic, group = topic_and_group()
    consumer, _ = be_consumer(connect, fresh("consumer"), group, topic)
    codes = [consumer.call("NotifyClientTermination", {}).status.code for _ in range(2)]
    assert codes == [Code.ILLEGAL_CONSUMER_GROUP, Code.UNRECOGNIZED_CLIENT_TYPE]


def test_a_push_consumer_is_known_by_its_receives_before_it_tells_its_settings(
    connect: Connect, fresh: Fresh, topic_and_group: TopicAndGroup, typed_server: Server
) -> None:
    """After a restart Python's client tells them minutes later."""
    (one, group), (two, _) = topic_and_group(), topic_and_group()
    consumer = connect(fresh("consumer"))
    for topic in (one, two, one):
        send(consumer, topic, b"held")
        assert len(receive(consumer, topic, group, auto_renew=True)) == 1
    assert consumer.call("Heartbeat", {"group": {"name": group}}).status.code == Code.OK
    with AdminClient(typed_server.namesrv_addr) as admin:
        seen = admin.consumer_connection(typed_server.broker_addr, group)
        assert (len(seen.connection_set), set(seen.subscription_table)) == (1, {one, two})
        tell_settings(consumer, consumer_settings(group, two))
        send(consumer, one, b"held")
        assert len(receive(consumer, one, group, auto_renew=True)) == 1
        seen = admin.consumer_connection(typed_server.broker_addr, group)
        assert set(seen.subscription_table) == {two}, "its own settings count"
    consumer.call("NotifyClientTermination", {"group": {"name": group}})
    other, again = connect(fresh("other")), 0
    while again < 3:  # at once, instead of after its invisible time
        again += len(receive(other, one, group))


def test_a_receive_is_no_stream_to_ask_by(
    connect: Connect, fresh: Fresh, topic_and_group: TopicAndGroup, typed_server: Server
) -> None:
    (topic, group), name = topic_and_group(), fresh("consumer")
    waiting = connect(name).open("ReceiveMessage")
    waiting.send(receive_request(topic, group, wait_s=3, auto_renew=True), is_last=True)
    with AdminClient(typed_server.namesrv_addr) as admin:

        def is_known() -> bool:
            with contextlib.suppress(RefusedError):
                return bool(admin.consumer_connection(typed_server.broker_addr, group).connection_set)
            return False

        until(is_known)
        with pytest.raises(RefusedError):
            admin.consumer_running_info(typed_server.broker_addr, group, name, jstack=True)
    assert next(waiting).status.code == Code.MESSAGE_NOT_FOUND


def test_a_consumer_tells_its_stacks_and_consumes_at_once(
    connect: Connect, client: GrpcClient, fresh: Fresh, topic_and_group: TopicAndGroup,
    typed_server: Server,
) -> None:  # fmt: skip
    topic, group = topic_and_group()
    name = fresh("consumer")
    _, telemetry = be_consumer(connect, name, group, topic)
    command = CLASSES["TelemetryCommand"]
    told: list[Any] = []

    def ask(question: Callable[[AdminClient], object]) -> threading.Thread:
        def run() -> None:
            with AdminClient(typed_server.namesrv_addr) as admin:
                told.append(question(admin))

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    asking = ask(lambda admin: admin.consumer_running_info(typed_server.broker_addr, group, name, jstack=True))
    nonce = next(telemetry).print_thread_stack_trace_command.nonce
    answer = command(thread_stack_trace={"nonce": nonce, "thread_stack_trace": "main: waits"})
    telemetry.send(answer)
    asking.join()
    assert told[0].jstack == "main: waits"
    with AdminClient(
        typed_server.namesrv_addr
    ) as admin:  # without its stacks the client is not asked, which may be mute
        known = admin.consumer_running_info(typed_server.broker_addr, group, name)
    assert (known.is_push, [each.topic for each in known.subscription_set]) == (True, [topic])
    entry = send(client, topic, b"verify me").entries[0]
    until(lambda: bool(_stored_id(typed_server, topic, entry.message_id)))
    stored = _stored_id(typed_server, topic, entry.message_id)
    asking = ask(
        lambda admin: admin.consume_message_directly(typed_server.broker_addr, group, name, stored, topic=topic)
    )
    asked = next(telemetry).verify_message_command
    assert asked.message.body == b"verify me"
    telemetry.send(command(status={"code": Code.OK}, verify_message_result={"nonce": asked.nonce}))
    asking.join()
    assert told[1].consume_result == "CR_SUCCESS"


def _stored_id(server: Server, topic: str, unique_key: str) -> str:
    with AdminClient(server.namesrv_addr) as admin:
        found = admin.query_message(server.broker_addr, topic, unique_key, unique_key=True)
    return found[0].message_id if found else ""


def test_settings_of_nobody_are_refused(client: GrpcClient) -> None:
    with pytest.raises(GrpcError, match="there is no publishing or subscription data in settings"):
        tell_settings(client, CLASSES["TelemetryCommand"](settings={"client_type": value("ClientType", "PRODUCER")}))


@pytest.mark.parametrize(
    ("kind", "text", "why"), [("TAG", "||", "subString split error"), ("SQL", "", "Expression can't be null! SQL92")]
)
def test_what_is_no_filter_is_refused(
    client: GrpcClient, topic_and_group: TopicAndGroup, kind: str, text: str, why: str
) -> None:
    topic, group = topic_and_group()
    command = consumer_settings(group, topic, expression=text)
    wanted = command.settings.subscription.subscriptions[0].expression
    wanted.type = value("FilterType", kind)
    with pytest.raises(GrpcError, match="expression format is not correct"):
        tell_settings(client, command)
    answers = client.stream("ReceiveMessage", receive_request(topic, group, filter_expression=wanted))
    assert (answers[0].status.code, answers[0].status.message) == (Code.ILLEGAL_FILTER_EXPRESSION, why)


def test_a_new_stream_takes_the_place_of_the_old(
    connect: Connect, fresh: Fresh, topic_and_group: TopicAndGroup, typed_server: Server
) -> None:
    topic, group = topic_and_group()
    name = fresh("consumer")
    be_consumer(connect, name, group, topic)
    be_consumer(connect, name, group, topic)
    with AdminClient(typed_server.namesrv_addr) as admin:
        assert len(admin.consumer_connection(typed_server.broker_addr, group).connection_set) == 1


def test_settings_replace_those_before(connect: Connect, typed_server: Server, topic_and_group: TopicAndGroup) -> None:
    one, two, left, kept = (name for _ in range(2) for name in topic_and_group())
    _, stream = be_producer(connect, "producer", one, left)
    stream.send(producer_settings(left))
    assert next(stream).settings.publishing.topics[0].name == left
    with AdminClient(typed_server.namesrv_addr) as admin:
        producers = admin.producer_connection
        assert producers(typed_server.broker_addr, left).connection_set
        with pytest.raises(RefusedError):
            producers(typed_server.broker_addr, one)
        _, stream = be_consumer(connect, "consumer", two, left)
        stream.send(consumer_settings(kept, left))
        assert next(stream).settings.subscription.group.name == kept
        assert admin.consumer_connection(typed_server.broker_addr, kept).connection_set
        with pytest.raises(RefusedError):
            admin.consumer_connection(typed_server.broker_addr, two)


# --- without a server ------------------------------------------------------------------------------------------------


SILENT_MAX_S = 70


class Members:
    """Takes every heartbeat, and knows no group."""

    def heartbeat(self, *_: Any) -> tuple[bool, Callable[[], None]]:
        return False, lambda: None


@pytest.fixture
def gone() -> list[GrpcPeer]:
    return []


@pytest.fixture
def peers(gone: list[GrpcPeer]) -> GrpcPeers:
    members: Any = Members()
    config: Any = SimpleNamespace(channel_expired_timeout_ms=SILENT_MAX_S * 1000)
    return GrpcPeers(config, members, members, gone.append)


class Call(SimpleNamespace):
    """It can be asked whether anybody knows it."""


def _says(peers: GrpcPeers, client_id: str, command: Any) -> Any:
    call = Call(
        client_id=client_id, metadata={}, address="127.0.0.1:1", born_host=b"", local_addr="",
        local_host=b"", user="", closed=False, send=lambda message: None, finish=lambda: None,
        kind=SimpleNamespace(is_stream=True),
    )  # fmt: skip
    peers.telemetry(call, command)
    return call


def test_a_stream_that_has_ended_is_let_go_though_its_client_may_come_again(peers: GrpcPeers) -> None:
    """It knows its connection, which has ended, too."""
    call = _says(peers, "one", producer_settings())
    peers.expire(time.monotonic())
    assert peers.known(call).is_listening
    call.closed = True
    peers.expire(time.monotonic())
    gone = weakref.ref(call)
    del call
    assert gone() is None


def test_a_client_without_topics_is_forgotten_once_it_is_silent(peers: GrpcPeers, gone: list[GrpcPeer]) -> None:
    _says(peers, "one", producer_settings())
    peers.expire(time.monotonic() + SILENT_MAX_S - 5)
    assert not gone
    peers.expire(time.monotonic() + SILENT_MAX_S + 5)
    assert [each.client_id for each in gone] == ["one"]


def test_settings_fill_memory_up_to_a_limit(peers: GrpcPeers, gone: list[GrpcPeer]) -> None:
    large = producer_settings("T")
    large.settings.user_agent.version = "x" * (6 << 20)
    for number in range(10):
        _says(peers, str(number), large)
        _says(peers, str(number), large)
    with pytest.raises(TooManyClients):
        _says(peers, "one more", large)
    peers.expire(time.monotonic() + SILENT_MAX_S + 5)
    assert len(gone) == 10
    _says(peers, "one more", large)
