import struct
import threading
import zlib
from unittest.mock import Mock

import h2.settings
import pytest

from rmqclient.admin import AdminClient
from rmqproto.codes import RequestCode
from rmqproto.headers.sending import SendHeaderV2
from rmqproto.message.record import BatchItem, encode_batch
from rmqserver.broker.consuming.holds import DEADLINE_SWEEP_S
from rmqserver.doors.grpc.codes import Code
from rmqserver.doors.grpc.messages import CLASSES, value
from rmqserver.doors.grpc.receive_calls import ReceiveCalls
from tests.rmqserver.doors.grpc.calls import (
    Connect,
    TopicAndGroup,
    ack,
    be_consumer,
    message_to,
    named,
    receive,
    receive_request,
    send,
)
from tests.support.grpc_client import GrpcClient, Stream
from tests.support.servers import Fresh, Server, topic_config


def _bodies(poll: Stream) -> list[bytes]:
    """Of the messages that it gets."""
    return [each.message.body for each in poll if each.HasField("message")]


def test_what_is_acknowledged_does_not_come_again(client: GrpcClient, topic_and_group: TopicAndGroup) -> None:
    topic, group = topic_and_group()
    send(client, topic, b"one")
    (got,) = receive(client, topic, group)
    told = ack(client, topic, group, got)
    assert (told.status.code, told.entries[0].status.code) == (Code.OK, Code.OK)
    send(client, topic, b"next")
    assert [each.body for each in receive(client, topic, group)] == [b"next"]


def test_a_message_with_unreadable_properties_does_not_cost_those_beside_it(
    client: GrpcClient, topic_and_group: TopicAndGroup, typed_server: Server
) -> None:
    topic, group = topic_and_group()
    body = encode_batch([BatchItem(0, b"damaged", b"a\x01\xff\x02"), BatchItem(0, b"whole", b"a\x01b\x02")])
    header = SendHeaderV2(
        producer_group="P", topic=topic, default_topic="", default_topic_queue_nums=0, queue_id=0, born_timestamp=1,
        batch=True, broker_name="broker-a",
    )  # fmt: skip
    with AdminClient(typed_server.namesrv_addr) as admin:
        admin.call(typed_server.broker_addr, RequestCode.SEND_BATCH_MESSAGE, header, body)
    assert [each.body for each in receive(client, topic, group)] == [b"whole"]


def test_large_messages_of_many_queues_come_in_several_answers(
    client: GrpcClient, topic_and_group: TopicAndGroup
) -> None:
    """Together they are more than a connection may leave unread."""
    topic, group = topic_and_group("FIFO", queue_nums=4)
    one_a_queue = {zlib.crc32(name.encode()) % 4: name for name in map(str, range(40))}
    for name in one_a_queue.values():
        assert send(client, topic, bytes(3 << 20), message_group=name).status.code == Code.OK
    got = 0
    while got < len(one_a_queue):
        got += len(receive(client, topic, group))
    assert got == 4


@pytest.mark.parametrize("properties", [{}, {"odd": "\N{SNOWMAN}"}], ids=["plain", "general"])
def test_polls_that_are_answered_at_once_do_not_end_their_connection(
    client: GrpcClient, connect: Connect, topic_and_group: TopicAndGroup, properties: dict[str, str]
) -> None:
    """The client reads nothing until all have their answers, which are more than it may leave unread."""
    topic, group = topic_and_group()
    groups = [group, *(topic_and_group()[1] for _ in range(3))]
    polls = [client.open("ReceiveMessage") for _ in groups]
    for name, poll in zip(groups, polls, strict=True):
        poll.send(receive_request(topic, name), is_last=True)
    message = message_to(topic, bytes(3 << 20), properties)
    assert connect().call("SendMessage", {"messages": [message]}).status.code == Code.OK
    codes = [next(poll).status.code for poll in polls]
    assert sorted(codes) == [Code.OK, Code.OK, Code.TOO_MANY_REQUESTS, Code.TOO_MANY_REQUESTS]
    for name, code in zip(groups, codes, strict=True):
        if code != Code.OK:
            assert len(receive(client, topic, name)) == 1


def test_a_poll_waits_for_a_message(client: GrpcClient, connect: Connect, topic_and_group: TopicAndGroup) -> None:
    topic, group = topic_and_group()
    waiting = client.open("ReceiveMessage")
    waiting.send(receive_request(topic, group).SerializeToString(), is_last=True)
    send(connect("sender"), topic, b"late")
    assert _bodies(waiting) == [b"late"]


@pytest.mark.parametrize("how", ["cancel", "disconnect"])
def test_a_poll_that_has_ended_takes_nothing(
    connect: Connect, client: GrpcClient, topic_and_group: TopicAndGroup, how: str
) -> None:
    topic, group = topic_and_group()
    gone = connect("gone")
    poll = gone.open("ReceiveMessage")
    poll.send(receive_request(topic, group, invisible_s=600).SerializeToString(), is_last=True)
    gone.call("QueryRoute", {"topic": {"name": topic}})  # so the broker has seen the poll
    if how == "cancel":
        poll.cancel()
        gone.call("QueryRoute", {"topic": {"name": topic}})
    else:
        gone.close()
    send(client, topic, b"one")
    assert [each.body for each in receive(client, topic, group)] == [b"one"]


def test_a_cancel_that_crosses_the_whole_answer_gives_its_messages_back(
    client: GrpcClient, topic_and_group: TopicAndGroup
) -> None:
    """The client sees none of them: its library drops what it has read of a call that is cancelled."""
    topic, group = topic_and_group(consume_message_orderly=True)
    send(client, topic, b"one")
    poll = client.open("ReceiveMessage")
    poll.send(receive_request(topic, group, invisible_s=600), is_last=True)
    assert _bodies(poll) == [b"one"]
    client.socket.sendall(struct.pack(">HBBBII", 0, 4, 3, 0, poll.number, 8))
    assert [each.body for each in receive(client, topic, group)] == [b"one"]


def test_filters_choose(client: GrpcClient, topic_and_group: TopicAndGroup) -> None:
    topic, group = topic_and_group()
    for tag in ("A", "B"):
        send(client, topic, tag.encode(), tag=tag, user_properties={"n": tag})
    by_tag = {"type": value("FilterType", "TAG"), "expression": "B"}
    assert [each.body for each in receive(client, topic, group, filter_expression=by_tag)] == [b"B"]
    topic, group = topic_and_group()
    for tag in ("A", "B"):
        send(client, topic, tag.encode(), user_properties={"n": tag})
    by_sql = {"type": value("FilterType", "SQL"), "expression": "n = 'A'"}
    assert [each.body for each in receive(client, topic, group, filter_expression=by_sql)] == [b"A"]


def test_a_tag_with_the_hash_of_another_is_passed_over(client: GrpcClient, topic_and_group: TopicAndGroup) -> None:
    topic, group = topic_and_group()
    for tag in ("BB", "Aa"):
        send(client, topic, tag.encode(), tag=tag)
    wanted = {"type": value("FilterType", "TAG"), "expression": "Aa"}
    assert [each.body for each in receive(client, topic, group, filter_expression=wanted)] == [b"Aa"]
    send(client, topic, b"again", tag="Aa")
    assert [each.body for each in receive(client, topic, group, filter_expression=wanted)] == [b"again"]


def test_a_changed_time_gives_a_new_handle(client: GrpcClient, topic_and_group: TopicAndGroup) -> None:
    topic, group = topic_and_group()
    send(client, topic, b"one")
    (got,) = receive(client, topic, group)
    changed = client.call("ChangeInvisibleDuration", named(topic, group, got, invisible_duration={"seconds": 0}))
    assert changed.status.code == Code.OK
    assert len(changed.receipt_handle.split()) == 10
    (again,) = receive(client, topic, group)
    assert (again.body, again.system_properties.delivery_attempt) == (b"one", 2)
    assert ack(client, topic, group, again).status.code == Code.OK


def test_a_message_goes_to_the_dead_letters(client: GrpcClient, topic_and_group: TopicAndGroup) -> None:
    topic, group = topic_and_group(consume_message_orderly=True)
    send(client, topic, b"bad")
    (got,) = receive(client, topic, group)
    request = named(topic, group, got)
    calls = [client.open("ForwardMessageToDeadLetterQueue") for _ in range(2)]  # again, without the answer to the first
    for call in calls:
        call.send(CLASSES["ForwardMessageToDeadLetterQueueRequest"](**request), is_last=True)
    assert [[each.status.code for each in call] for call in calls] == [[Code.OK], [Code.OK]]
    assert client.call("ForwardMessageToDeadLetterQueue", request).status.code == Code.OK
    (dead,) = receive(client, f"%DLQ%{group}", "Golden_Ordered")
    system = dead.system_properties
    assert (dead.body, system.delivery_attempt, system.message_type) == (b"bad", 2, value("MessageType", "DELAY"))
    send(client, topic, b"next")
    assert [each.body for each in receive(client, topic, group)] == [b"next"], "it blocks its queue no more"


def test_who_has_used_up_its_attempts_becomes_a_dead_letter(
    client: GrpcClient, connect: Connect, topic_and_group: TopicAndGroup, typed_server: Server
) -> None:
    topic, group = topic_and_group(retry_max_times=0)
    with AdminClient(typed_server.namesrv_addr) as admin:
        admin.create_topic(typed_server.broker_addr, topic_config(f"%DLQ%{group}"))
    send(client, topic, b"bad")
    (got,) = receive(client, topic, group)
    client.call("ChangeInvisibleDuration", named(topic, group, got, invisible_duration={"seconds": 0}))
    poll = client.open("ReceiveMessage")
    poll.send(receive_request(topic, group), is_last=True)
    assert [each.body for each in receive(connect("other"), f"%DLQ%{group}", "Golden_Group")] == [b"bad"]
    send(client, topic, b"next")
    assert _bodies(poll) == [b"next"]


def test_a_group_named_as_apaches_own_consumers_is_served(client: GrpcClient, topic_and_group: TopicAndGroup) -> None:
    topic, _ = topic_and_group()
    send(client, topic, b"one")
    assert [each.body for each in receive(client, topic, "DEFAULT_CONSUMER")] == [b"one"]


def test_in_order_an_attempt_gets_the_same_again(client: GrpcClient, topic_and_group: TopicAndGroup) -> None:
    topic, group = topic_and_group("FIFO", consume_message_orderly=True)
    for body in (b"1", b"2"):
        send(client, topic, body, message_group="g")
    first = receive(client, topic, group, attempt_id="one")
    again = receive(client, topic, group, attempt_id="one")
    assert [each.body for each in first] == [each.body for each in again] == [b"1", b"2"]
    assert [each.system_properties.delivery_attempt for each in again] == [1, 1]
    other = client.open("ReceiveMessage")
    other.send(receive_request(topic, group, attempt_id="two"), is_last=True)
    assert ack(client, topic, group, *again).status.code == Code.OK
    send(client, topic, b"3", message_group="g")
    assert _bodies(other) == [b"3"], "its queue was another attempt's"


def test_what_a_push_consumer_holds_comes_back_soon_after_it_left(
    connect: Connect, client: GrpcClient, fresh: Fresh, topic_and_group: TopicAndGroup
) -> None:
    topic, group = topic_and_group()
    send(client, topic, b"one")
    consumer, _ = be_consumer(connect, fresh("consumer"), group, topic)
    assert len(receive(consumer, topic, group, auto_renew=True)) == 1
    assert consumer.call("NotifyClientTermination", {"group": {"name": group}}).status.code == Code.OK
    (again,) = receive(client, topic, group)
    assert again.body == b"one"


@pytest.mark.parametrize("kind", ["PUSH", "SIMPLE"])
def test_lite_topics_are_received_by_who_subscribes(
    connect: Connect, client: GrpcClient, fresh: Fresh, kind: str
) -> None:
    """Python's client has both kinds; Apache's proxy of 5.5.0 takes the first."""
    topic, group = "Golden_Lite", "Golden_LiteGroup"
    one, other = fresh("lite"), fresh("lite")
    consumer, _ = be_consumer(connect, fresh("consumer"), group, topic, kind=f"LITE_{kind}_CONSUMER")
    assert consumer.call("SyncLiteSubscription", named(topic, group, lite_topic_set=[one])).status.code == Code.OK
    for name in (one, other):
        send(client, topic, name.encode(), lite_topic=name)
    (got,) = receive(consumer, topic, group, auto_renew=kind == "PUSH")
    assert (got.body, got.system_properties.lite_topic) == (one.encode(), one)
    assert ack(consumer, topic, group, got, lite_topic=one).status.code == Code.OK


def test_who_subscribes_lite_topics_need_not_have_sent_settings(
    connect: Connect, client: GrpcClient, fresh: Fresh
) -> None:
    """After a restart Python's client does so minutes later."""
    topic, group, lite = "Golden_Lite", "Golden_LiteGroup", fresh("lite")
    consumer = connect(fresh("consumer"))
    request = named(topic, group, action=2, lite_topic_set=[lite])
    assert consumer.call("SyncLiteSubscription", request).status.code == Code.OK
    send(client, topic, b"one", lite_topic=lite)
    (got,) = receive(consumer, topic, group, auto_renew=True)
    assert ack(consumer, topic, group, got).status.code == Code.OK
    for name in ("Heartbeat", "NotifyClientTermination"):
        assert consumer.call(name, {"group": {"name": group}}).status.code == Code.OK
    assert consumer.call("NotifyClientTermination", {}).status.code == Code.UNRECOGNIZED_CLIENT_TYPE


def test_a_message_of_a_lite_topic_may_be_changed_by_its_handle_alone(
    connect: Connect, client: GrpcClient, fresh: Fresh
) -> None:
    """Java's client of 5.2.0 does not tell the lite topic when a listener fails."""
    topic, group, lite = "Golden_Lite", "Golden_LiteGroup", fresh("lite")
    consumer, _ = be_consumer(connect, fresh("consumer"), group, topic, kind="LITE_PUSH_CONSUMER")
    assert consumer.call("SyncLiteSubscription", named(topic, group, lite_topic_set=[lite])).status.code == Code.OK
    send(client, topic, b"again", lite_topic=lite)
    (got,) = receive(consumer, topic, group, auto_renew=True)
    handle = got.system_properties.receipt_handle
    changed = consumer.call("ChangeInvisibleDuration", named(topic, group, receipt_handle=handle))
    assert changed.status.code == Code.OK
    (again,) = receive(consumer, topic, group, auto_renew=True)
    assert again.system_properties.delivery_attempt == 2
    assert ack(consumer, topic, group, again).status.code == Code.OK


def test_a_poll_ends_before_its_deadline_however_late_it_is_swept() -> None:
    broker, left_s = Mock(), 6
    broker.topics.get.return_value = broker.groups.get.return_value = None
    broker.clock_ms.return_value = 1_000_000
    call = Mock(**{"left_ms.return_value": left_s * 1000})
    ReceiveCalls(broker, Mock(), Mock()).receive(call, receive_request("T", "G", wait_s=20))
    (header, *_) = broker.pops.pop.call_args.args
    assert header.poll_time + DEADLINE_SWEEP_S * 1000 < left_s * 1000


@pytest.mark.parametrize(("version", "code"), [("5.0.2", Code.BAD_REQUEST), ("5.0.3", Code.ILLEGAL_POLLING_TIME)])
def test_a_client_is_told_of_a_short_deadline_by_a_code_that_it_knows(
    client: GrpcClient, topic_and_group: TopicAndGroup, version: str, code: Code
) -> None:
    topic, group = topic_and_group()
    answers = client.stream("ReceiveMessage", receive_request(topic, group), deadline="4S", x_mq_client_version=version)
    assert answers[0].status.code == code


def test_many_polls_wait_on_one_connection(
    client: GrpcClient, connect: Connect, topic_and_group: TopicAndGroup
) -> None:
    """As a push consumer of many topics has them, beside its sends."""
    topic, group = topic_and_group()
    polls = [client.open("ReceiveMessage") for _ in range(100)]
    request = receive_request(topic, group)
    request.batch_size = 1
    for poll in polls:
        poll.send(request.SerializeToString(), is_last=True)
    sender = connect("sender")

    def send_all() -> None:
        for number in range(100):
            send(sender, topic, b"%d" % number)

    thread = threading.Thread(target=send_all)
    thread.start()
    bodies = [body for poll in polls for body in _bodies(poll)]
    thread.join()
    assert sorted(bodies) == sorted(b"%d" % number for number in range(100))


def test_a_client_has_no_say_in_how_often_a_new_message_was_tried(
    client: GrpcClient, topic_and_group: TopicAndGroup
) -> None:
    """Numbers at the ends of their type once ended the broker."""
    topic, group = topic_and_group()
    for number in (2**31 - 1, -(2**31), 17):
        send(client, topic, b"%d" % number, delivery_attempt=number)
    assert [each.system_properties.delivery_attempt for each in receive(client, topic, group)] == [1, 1, 1]


def test_only_what_a_group_received_goes_to_its_dead_letters(
    client: GrpcClient, topic_and_group: TopicAndGroup
) -> None:
    """A receipt whose last word names a message of another topic, which its client may not see."""
    topic, group = topic_and_group()
    other_topic, other_group = topic_and_group()
    send(client, topic, b"mine")
    send(client, other_topic, b"secret")
    (mine,) = receive(client, topic, group)
    (secret,) = receive(client, other_topic, other_group)
    words = mine.system_properties.receipt_handle.split(" ")
    words[-1] = secret.system_properties.receipt_handle.split(" ")[-1]
    request = named(topic, group, receipt_handle=" ".join(words))
    assert client.call("ForwardMessageToDeadLetterQueue", request).status.code == Code.INVALID_RECEIPT_HANDLE


@pytest.mark.parametrize("how", ["cancel", "disconnect"])
def test_an_answer_that_is_not_taken_is_given_back(
    connect: Connect, client: GrpcClient, fresh: Fresh, how: str,
    topic_and_group: TopicAndGroup,
) -> None:  # fmt: skip
    """The consumer lives on, on another connection: its messages would be renewed for three hours."""
    topic, group = topic_and_group()
    name = fresh("consumer")
    be_consumer(connect, name, group, topic)
    send(client, topic, b"x" * 100_000)
    slow = connect(name)
    slow.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1000})
    poll = slow.open("ReceiveMessage")
    poll.send(receive_request(topic, group, auto_renew=True), is_last=True)
    slow.next_event(poll.number)
    if how == "cancel":
        poll.cancel()
    else:
        slow.close()
    assert [len(each.body) for each in receive(client, topic, group, wait_s=20)] == [100_000]
