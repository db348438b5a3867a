"""Our own clients against the real broker and ours, and together with the Java client in one group."""

import time
from collections import Counter
from collections.abc import Callable

import pytest
import trio

from rmqclient.admin import AdminClient
from rmqclient.consumers.lite_pull_consumer import LitePullConsumer
from rmqclient.consumers.pull_consumer import PullConsumer
from rmqclient.consumers.push_consumer import PushConsumer
from rmqclient.consuming.start import ConsumeFrom
from rmqclient.listener import NEVER_AGAIN, SUCCESS, ConsumeStatus, later
from rmqclient.message import Message, ReceivedMessage
from rmqclient.producers.producer import Producer
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionData, SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfig
from rmqproto.errors import RefusedError
from rmqproto.filters.subscription import Sql92
from rmqproto.message.message_id import parse_offset_id_untrusted
from tests.support import servers
from tests.support.compressions import KINDS
from tests.support.servers import Fresh, topic_config

from ..cluster import BROKER_NAME, Cluster
from ..events import Outgoing
from ..witness import Witness

pytestmark = pytest.mark.interop

TIMEOUT_S = 150.0
POLL_S = 0.01


class Collector:
    """A listener that keeps its messages and returns SUCCESS, or what ``say`` returns."""

    def __init__(self, say: Callable[[ReceivedMessage], ConsumeStatus] = lambda message: SUCCESS):
        self.say = say
        self.messages: list[ReceivedMessage] = []

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]

    async def __call__(self, message: ReceivedMessage) -> ConsumeStatus:
        self.messages.append(message)
        return self.say(message)


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(TIMEOUT_S):
        while not condition():
            await trio.sleep(POLL_S)


@pytest.fixture
def topic(cluster: Cluster, fresh: Fresh) -> str:
    """A topic of four queues, with its route."""
    name = fresh("PythonTopic")
    with AdminClient(cluster.namesrv_addr) as admin:
        admin.create_topic(cluster.broker_addr, topic_config(name, 4))
        deadline_s = time.monotonic() + TIMEOUT_S
        while name not in admin.topic_list():  # a broker on a busy machine may miss its first registration
            assert time.monotonic() < deadline_s
    return name


def from_first(
    cluster: Cluster, group: str, topic: str, listener: Collector, expression: str | Sql92 = "*"
) -> PushConsumer:
    return PushConsumer(
        cluster.namesrv_addr, group, {topic: expression}, listener, consume_from=ConsumeFrom.FIRST_OFFSET
    )


@pytest.mark.trio
async def test_what_is_sent_is_consumed_with_all_its_fields(cluster: Cluster, topic: str, fresh: Fresh) -> None:
    collect = Collector()
    async with Producer(cluster.namesrv_addr, fresh("Producer")) as producer:
        plain = Message(topic, b"plain", tags="标签", keys=["k1", "k2"], properties={"p": "v"}, flag=7)
        sent = [await producer.send(plain), await producer.send(Message(topic, b"large " * 2000))]
        await producer.send_batch([Message(topic, b"batch %d" % number) for number in range(3)])
        await producer.send_oneway(Message(topic, b"oneway"))
        async with from_first(cluster, fresh("Group"), topic, collect):
            await until(lambda: len(collect.messages) == 6)
    by_body = {message.body: message for message in collect.messages}
    assert set(by_body) == {b"plain", b"large " * 2000, b"batch 0", b"batch 1", b"batch 2", b"oneway"}
    got = by_body[b"plain"]
    assert (got.tags, got.keys, got.properties["p"], got.stored.flag) == ("标签", ["k1", "k2"], "v", 7)
    assert (got.message_id, got.offset_message_id) == (sent[0].message_id, sent[0].offset_message_id)
    assert got.queue == sent[0].queue
    assert len(by_body[b"large " * 2000].stored.body) < 1000


@pytest.mark.trio
async def test_tag_filters(cluster: Cluster, topic: str, fresh: Fresh) -> None:
    """ "Aa" and "BB" have the same hash: the broker sends both, and the client drops the one that was not asked for."""
    by_tag, by_hash = Collector(), Collector()
    async with Producer(cluster.namesrv_addr, fresh("Producer")) as producer:
        for number in range(20):
            tag = ("Aa", "BB", "C", "D")[number % 4]
            await producer.send(Message(topic, b"%d" % number, tags=tag))
        async with (
            from_first(cluster, fresh("Group"), topic, by_tag, "C || D"),
            from_first(cluster, fresh("Group"), topic, by_hash, "Aa"),
        ):
            await until(lambda: len(by_tag.messages) >= 10 and len(by_hash.messages) >= 5)
    assert sorted(map(int, by_tag.bodies)) == [n for n in range(20) if n % 4 >= 2]
    assert sorted(map(int, by_hash.bodies)) == [0, 4, 8, 12, 16]


@pytest.mark.trio
async def test_sql_filters(cluster: Cluster, topic: str, fresh: Fresh) -> None:
    by_sql = Collector()
    subscription = Sql92("n BETWEEN 3 AND 6 OR n = 19")
    async with Producer(cluster.namesrv_addr, fresh("Producer")) as producer:
        for number in range(20):
            await producer.send(Message(topic, b"%d" % number, properties={"n": str(number)}))
    await consume_until(cluster, fresh("Group"), topic, by_sql, subscription, 5)
    assert sorted(map(int, by_sql.bodies)) == [3, 4, 5, 6, 19]
    with pytest.raises(RefusedError) as caught:
        await consume_until(cluster, fresh("Group"), topic, by_sql, Sql92("a >"), 5)
    assert caught.value.code == 23


async def consume_until(
    cluster: Cluster, group: str, topic: str, listener: Collector, subscription: Sql92, count: int
) -> None:
    async with from_first(cluster, group, topic, listener, subscription):
        await until(lambda: len(listener.messages) >= count)


@pytest.mark.trio
async def test_a_message_comes_again_and_then_goes_to_the_dead_letters(
    cluster: Cluster, topic: str, fresh: Fresh
) -> None:
    group = fresh("Group")
    collect = Collector(lambda message: later(1) if message.reconsume_times < 2 else later(NEVER_AGAIN))
    async with (
        Producer(cluster.namesrv_addr, fresh("Producer")) as producer,
        from_first(cluster, group, topic, collect),
    ):
        sent = await producer.send(Message(topic, b"poison"))
        await until(lambda: len(collect.messages) == 3)
        assert [(each.topic, each.reconsume_times, each.message_id) for each in collect.messages] == [
            (topic, times, sent.message_id) for times in range(3)
        ]
        async with PullConsumer(cluster.namesrv_addr, fresh("Puller")) as puller:
            assert [message.body for message in await dead_letters(puller, group)] == [b"poison"]


async def dead_letters(puller: PullConsumer, group: str) -> list[ReceivedMessage]:
    """Waits for the first dead letter: the listener fails before the broker hears of it."""
    topic = f"%DLQ%{group}"
    with trio.fail_after(TIMEOUT_S):
        while not await exists(puller, topic):
            await trio.sleep(POLL_S)
        return (await puller.pull(MessageQueue(topic, BROKER_NAME, 0), 0, wait_s=TIMEOUT_S)).messages


async def exists(puller: PullConsumer, topic: str) -> bool:
    try:
        return bool(await puller.queues(topic))
    except RefusedError:
        return False


@pytest.mark.trio
async def test_offsets_are_kept_and_operators_are_answered(cluster: Cluster, topic: str, fresh: Fresh) -> None:
    group = fresh("Group")
    collect = Collector()
    with AdminClient(cluster.namesrv_addr) as admin:
        async with Producer(cluster.namesrv_addr, fresh("Producer")) as producer:
            async with from_first(cluster, group, topic, collect) as consumer:
                for number in range(8):
                    last = await producer.send(Message(topic, b"%d" % number))
                await until(lambda: len(collect.messages) == 8)
                address, client_id = cluster.broker_addr, consumer.client_id
                online = await trio.to_thread.run_sync(admin.consumer_connection, address, group)
                assert [(each.client_id, each.language) for each in online.connection_set] == [(client_id, "PYTHON")]
                info = await trio.to_thread.run_sync(admin.consumer_running_info, address, group, client_id)
                assert {queue.topic for queue in info.mq_table} >= {topic}
                status = await trio.to_thread.run_sync(admin.consumer_status, address, topic, group)
                assert len(status[client_id]) == 4
                result = await trio.to_thread.run_sync(
                    admin.consume_message_directly, address, group, client_id, last.offset_message_id
                )
                assert result.consume_result == "CR_SUCCESS"
            stats = admin.consume_stats(cluster.broker_addr, group, topic)
            assert sum(each.consumer_offset for each in stats.offset_table.values()) == 8
            admin.reset_offset(cluster.broker_addr, topic, group, 0)
            again = Collector()
            async with from_first(cluster, group, topic, again):
                await until(lambda: len(again.messages) == 8)
    assert Counter(again.bodies) == Counter(b"%d" % number for number in range(8))


@pytest.mark.trio
async def test_java_and_python_share_one_group(cluster: Cluster, topic: str, java: Witness, fresh: Fresh) -> None:
    """Both must allocate queues the same way, or some queues have two owners or none."""
    group = fresh("MixedGroup")
    collect = Collector()
    bodies = [b"%d" % number for number in range(40)]
    async with (
        Producer(cluster.namesrv_addr, fresh("Producer")) as producer,
        from_first(cluster, group, topic, collect) as own,
    ):
        await until(lambda: len(own.assignment) == 4)
        other = await trio.to_thread.run_sync(java.consume, group, topic)
        await until(lambda: len(own.assignment) == 2)
        for body in bodies:
            await producer.send(Message(topic, body))
        await until(lambda: len(collect.messages) >= 20)
        theirs = await trio.to_thread.run_sync(other.until_count, 20)
        assert Counter([*collect.bodies, *(message.body for message in theirs)]) == Counter(bodies)
        # What the leaving member has not committed yet may come again.
        await trio.to_thread.run_sync(other.stop)
        await until(lambda: len(own.assignment) == 4)


def test_python_reads_what_java_sent_and_java_what_python_sent(cluster: Cluster, topic: str, java: Witness) -> None:
    java.send(topic, [Outgoing(body=b"from java", tags="J", keys="jk", properties={"p": "中"}, queue_id=0)])
    queue = MessageQueue(topic, BROKER_NAME, 0)
    with AdminClient(cluster.namesrv_addr) as admin:
        # Apache's broker shows a message some time after it has acknowledged it.
        servers.until(lambda: admin.max_offset(cluster.broker_addr, topic, 0) == 1)
        (message,) = admin.pull_message(cluster.broker_addr, queue, 0).messages
        assert (message.body, message.properties["p"], message.properties["TAGS"]) == (b"from java", "中", "J")
        sent = admin.send_message(
            cluster.broker_addr,
            queue,
            Message(topic, b"from python" * 1000, tags="P", keys=["pk"], properties={"p": "文"}),
        )
        log_offset = parse_offset_id_untrusted(sent.offset_message_id).log_offset
        assert admin.view_message(cluster.broker_addr, log_offset).plain_body() == b"from python" * 1000
    _, read = java.read_all(topic, 2)
    assert (read.body, read.tags, read.keys, read.properties["p"]) == (b"from python" * 1000, "P", "pk", "文")
    assert read.msg_id == sent.message_id


@pytest.mark.parametrize("kind", KINDS)
def test_java_and_python_read_bodies_of_each_compression(
    cluster: Cluster, topic: str, java: Witness, kind: str
) -> None:
    bodies = {b"compressed" * count for count in (500, 200_000)}  # more than one block of LZ4
    with Producer.blocking(cluster.namesrv_addr, "p", compress_type=kind) as producer:
        for body in bodies:
            producer.send(Message(topic, body))
    assert {message.body for message in java.read_all(topic, len(bodies))} == bodies
    with LitePullConsumer.blocking(
        cluster.namesrv_addr, f"reads{kind}", consume_from=ConsumeFrom.FIRST_OFFSET
    ) as consumer:
        consumer.subscribe(topic)
        found: list[bytes] = []
        servers.until(lambda: found.extend(one.body for one in consumer.poll()) or len(found) == len(bodies))
    assert set(found) == bodies


def test_admin_calls(cluster: Cluster, topic: str, fresh: Fresh) -> None:
    """Every call that needs no online client is made once; its request and its answer must be understood."""
    group, copy, address, queue = (
        fresh("Group"),
        fresh("Group"),
        cluster.broker_addr,
        MessageQueue(topic, BROKER_NAME, 1),
    )
    with AdminClient(cluster.namesrv_addr) as admin:
        assert admin.cluster_info().cluster_addr_table
        assert topic in admin.topic_list()
        assert topic in admin.topic_list_of_cluster("DefaultCluster")
        assert admin.system_topics_of_namesrv().broker_addr == address
        assert "TBW102" in admin.system_topics_of_broker(address)
        assert admin.broker_member_group("DefaultCluster", BROKER_NAME).broker_addrs == {0: address}
        assert topic in admin.all_topics(address).topic_config_table
        admin.create_topics(address, [TopicConfig(topic_name=fresh("Topic"), attributes={"+message.type": "DELAY"})])
        for each in (group, copy):
            admin.create_groups(address, [SubscriptionGroupConfig(group_name=each)])
        assert group in admin.all_groups(address).subscription_group_table
        admin.send_message(address, queue, Message(topic, b"x"))
        servers.until(lambda: admin.max_offset(address, topic, 1) == 1)  # Apache's queues follow its log
        assert (admin.min_offset(address, topic, 1), admin.max_offset(address, topic, 1)) == (0, 1)
        assert admin.earliest_store_time(address, topic, 1)
        assert admin.topic_stats(address, topic).offset_table[queue].max_offset == 1
        admin.update_consumer_offset(address, group, topic, 1, 1)
        admin.clone_group_offset(address, group, copy, topic)
        assert admin.consumer_offset(address, copy, topic, 1) == 1
        assert admin.all_consumer_offsets(address).offset_table[f"{topic}@{group}"] == {1: 1}
        assert admin.topics_of_group(address, group) == [topic]
        assert set(admin.groups_of_topic(address, topic)) == {group, copy}
        assert admin.subscription_of_group(address, group, topic) is None
        assert len(admin.consume_time_spans(address, topic, group)) == 4
        assert admin.correction_offsets(address, topic, group, [copy]) is not None
        assert not admin.group_forbidden(address, group, topic, readable=False).readable
        assert admin.group_forbidden(address, group, topic, readable=True).readable
        assert admin.delay_offsets(address).offset_table is not None
        assert admin.broker_consume_stats(address).broker_addr == address
        assert admin.broker_stats(address, "TOPIC_PUT_NUMS", topic).stats_minute is not None
        units = admin.query_consume_queue(address, topic, 1, 0, 10)
        assert units is not None
        assert len(units.queue_data) == 1
        admin.check_client_config(address, group, "client", SubscriptionData(topic=topic))
        assert admin.all_producers(address) is not None
        for clean in (admin.clean_expired_consume_queues, admin.delete_expired_commit_log, admin.clean_unused_topics):
            clean(address)
        assert admin.wipe_write_perm(cluster.namesrv_addr, BROKER_NAME) > 0
        assert admin.topic_route(topic).queue_datas[0].perm == 4
        assert admin.add_write_perm(cluster.namesrv_addr, BROKER_NAME) > 0
        assert admin.topic_route(topic).queue_datas[0].perm == 6
        assert (admin.unit_topics(), admin.unit_subscribed_topics(), admin.unit_subscribed_plain_topics()) == (
            [],
            [],
            [],
        )
        admin.update_namesrv_config(cluster.namesrv_addr, {"serverChannelMaxIdleTimeSeconds": "120"})
        assert admin.namesrv_config(cluster.namesrv_addr)
