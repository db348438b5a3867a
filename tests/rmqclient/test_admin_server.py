"""Admin calls against our own broker and name server: written values are read back."""

import time
from collections.abc import Callable, Iterator

import pytest

from rmqclient.admin import AdminClient
from rmqclient.message import Message, SendResult
from rmqclient.pull import PullStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig
from rmqproto.errors import RefusedError
from rmqproto.message.message_id import parse_offset_id_untrusted
from rmqproto.message.record import StoredMessage
from tests.support.servers import Server

INDEX_TIMEOUT_S = 20.0


@pytest.fixture
def admin(server: Server) -> Iterator[AdminClient]:
    with AdminClient(server.namesrv_addr) as client:
        yield client


@pytest.fixture
def queue(server: Server, admin: AdminClient, fresh: Callable[[str], str]) -> MessageQueue:
    topic = fresh("AdminTopic")
    admin.create_topic(server.broker_addr, TopicConfig(topic_name=topic, read_queue_nums=2, write_queue_nums=2))
    return MessageQueue(topic, "broker-a", 1)


def send(admin: AdminClient, server: Server, queue: MessageQueue, *bodies: bytes) -> list[SendResult]:
    messages = [Message(queue.topic, body, tags="A", keys=["k", body.decode()]) for body in bodies]
    return [admin.send_message(server.broker_addr, queue, message) for message in messages]


def test_topics(server: Server, admin: AdminClient, queue: MessageQueue) -> None:
    broker = admin.cluster_info().broker_addr_table["broker-a"]
    assert broker.selected_addr() == server.broker_addr
    assert queue.topic in admin.topic_list()
    assert queue.topic in admin.topic_list_of_cluster("DefaultCluster")
    assert queue.topic in admin.all_topics(server.broker_addr).topic_config_table
    (queues,) = admin.topic_route(queue.topic).queue_datas
    assert (queues.broker_name, queues.read_queue_nums, queues.perm) == ("broker-a", 2, 6)
    config = admin.topic_config(server.broker_addr, queue.topic)
    config.perm = 4
    admin.create_topic(server.broker_addr, config)
    assert admin.topic_config(server.broker_addr, queue.topic).perm == 4
    admin.delete_topic_in_broker(server.broker_addr, queue.topic)
    admin.delete_topic_in_namesrv(server.namesrv_addr, queue.topic)
    with pytest.raises(RefusedError) as caught:
        admin.topic_route(queue.topic)
    assert caught.value.code == 17


def test_groups(server: Server, admin: AdminClient, fresh: Callable[[str], str]) -> None:
    group = fresh("AdminGroup")
    admin.create_group(server.broker_addr, SubscriptionGroupConfig(group_name=group, retry_max_times=3))
    assert admin.group_config(server.broker_addr, group).retry_max_times == 3
    assert group in admin.all_groups(server.broker_addr).subscription_group_table
    admin.delete_group(server.broker_addr, group)
    assert group not in admin.all_groups(server.broker_addr).subscription_group_table
    with pytest.raises(RefusedError) as caught:
        admin.consumer_connection(server.broker_addr, group)
    assert caught.value.code == 206


def test_messages_are_found_by_place_id_and_key(server: Server, admin: AdminClient, queue: MessageQueue) -> None:
    first, second = send(admin, server, queue, b"one", b"two")
    assert (first.queue, first.queue_offset, second.queue_offset) == (queue, 0, 1)
    pulled = admin.pull_message(server.broker_addr, queue, 0)
    assert [message.body for message in pulled.messages] == [b"one", b"two"]
    assert admin.pull_message(server.broker_addr, queue, 2).status is PullStatus.NO_NEW
    assert admin.pull_message(server.broker_addr, queue, 0, expression="B").messages == []
    log_offset = parse_offset_id_untrusted(second.offset_message_id).log_offset
    assert admin.view_message(server.broker_addr, log_offset).body == b"two"
    assert [message.body for message in indexed(admin, server, queue.topic, "k", 2)] == [b"one", b"two"]
    assert [message.body for message in indexed(admin, server, queue.topic, "two", 1)] == [b"two"]
    by_id = admin.query_message(server.broker_addr, queue.topic, first.message_id, unique_key=True)
    assert [message.body for message in by_id] == [b"one"]
    assert admin.query_message(server.broker_addr, queue.topic, "absent") == []


def indexed(admin: AdminClient, server: Server, topic: str, key: str, count: int) -> list[StoredMessage]:
    """The index is written behind the log."""
    deadline_s = time.monotonic() + INDEX_TIMEOUT_S
    while len(found := admin.query_message(server.broker_addr, topic, key)) < count:
        assert time.monotonic() < deadline_s, found
    return found


def test_offsets(server: Server, admin: AdminClient, queue: MessageQueue, fresh: Callable[[str], str]) -> None:
    address, topic, group = server.broker_addr, queue.topic, fresh("AdminGroup")
    send(admin, server, queue, b"0", b"1", b"2")
    assert (admin.min_offset(address, topic, 1), admin.max_offset(address, topic, 1)) == (0, 3)
    assert admin.search_offset(address, topic, 1, 0) == 0
    assert admin.earliest_store_time(address, topic, 0) is None
    assert admin.topic_stats(address, topic).offset_table[queue].max_offset == 3
    admin.create_group(address, SubscriptionGroupConfig(group_name=group))
    assert admin.consumer_offset(address, group, topic, 1) is None
    admin.update_consumer_offset(address, group, topic, 1, 2)
    assert admin.consumer_offset(address, group, topic, 1) == 2
    stats = admin.consume_stats(address, group, topic).offset_table[queue]
    assert (stats.broker_offset, stats.consumer_offset) == (3, 2)
    assert admin.reset_offset(address, topic, group, -1)[queue] == 3
    assert admin.reset_offset(address, topic, group, 0, queue_id=1, queue_offset=1) == {queue: 1}
    assert admin.consumer_offset(address, group, topic, 1) == 1
    assert topic in admin.topics_of_group(address, group)
    assert group in admin.groups_of_topic(address, topic)


def test_configurations(server: Server, admin: AdminClient) -> None:
    assert admin.broker_config(server.broker_addr)["brokerName"] == "broker-a"
    admin.update_broker_config(server.broker_addr, {"maxMessageSize": "4194300"})
    assert admin.broker_config(server.broker_addr)["maxMessageSize"] == "4194300"
    admin.update_broker_config(server.broker_addr, {"maxMessageSize": "4194304"})
    assert admin.namesrv_config(server.namesrv_addr)
    assert admin.broker_runtime_info(server.broker_addr)["brokerVersionDesc"] == "V5_5_0"
    admin.put_kv(server.namesrv_addr, "space", "key", "a;b=c")
    assert admin.kv_value("space", "key") == "a;b=c"
    assert admin.kv_namespace("space") == {"key": "a;b=c"}
    admin.delete_kv(server.namesrv_addr, "space", "key")
    with pytest.raises(RefusedError) as caught:
        admin.kv_value("space", "key")
    assert caught.value.code == 22
