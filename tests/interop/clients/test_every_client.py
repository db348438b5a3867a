"""What all real clients can do: the Java client of the release with either form of headers, Go v2, Node's ali-ons, Java
4.9. Each shares one process.

The Java client of the release also creates the topics and inspects stored messages. The timers of Go and Node are too
slow for a test (Go sees a new route after 30 s), so the retry topics exist before their groups.
"""

import random
from collections import Counter
from typing import Any

import pytest

from tests.support.servers import Fresh

from ..client import Client
from ..cluster import BROKER_NAME, Cluster
from ..events import Message, Outgoing
from ..other_clients import start
from ..witness import Witness
from .test_java_order import KEYS, STEPS, check_order, parsed, steps
from .test_java_send import MESSAGES, by_place, crc

pytestmark = pytest.mark.interop

LARGER_THAN_COMPRESSION_STARTS = 20_000  # all compress bodies from 4 KiB on
MIB = 1 << 20

JAVA = ["java", "java ROCKETMQ"]
every_client = pytest.mark.parametrize("client", [*JAVA, "go", "node", "java4"], indirect=True)
not_node = pytest.mark.parametrize("client", [*JAVA, "go", "java4"], indirect=True)  # Node has no such thing


def retrying(java: Witness, group: str) -> str:
    java.create_topic(f"%RETRY%{group}", queues=1)
    return group


@every_client
def test_sync_sends_are_answered_and_stored_with_every_field(
    client: Client, java: Witness, cluster: Cluster, fresh: Fresh
) -> None:
    topic = java.create_topic(fresh("OtherSend"))
    answers = client.send(topic, MESSAGES)
    assert [(a.status, a.broker_name) for a in answers] == [("SEND_OK", BROKER_NAME)] * len(MESSAGES)
    stored = by_place(java.read_all(topic, len(MESSAGES)))
    for answer, outgoing in zip(answers, MESSAGES, strict=True):
        message = stored[answer.queue_id, answer.queue_offset]
        assert (message.body, message.tags, message.keys, message.flag) == (
            outgoing.body, outgoing.tags, outgoing.keys, outgoing.flag,
        )  # fmt: skip
        assert message.user_properties == outgoing.properties
        assert message.offset_msg_id == answer.offset_msg_id
        assert message.store_host == cluster.broker_addr
        assert (message.body_crc, message.reconsume_times) == (crc(outgoing.body), 0)


@every_client
def test_sends_that_do_not_wait_for_each_other_are_all_answered(client: Client, java: Witness, fresh: Fresh) -> None:
    topic = java.create_topic(fresh("OtherSend"))
    messages = [Outgoing(body=b"async %d" % i, tags="TagA", keys=f"ASYNC-{i}") for i in range(200)]
    answers = client.send(topic, messages, mode="async")
    stored = by_place(java.read_all(topic, len(messages)))
    assert [stored[a.queue_id, a.queue_offset].body for a in answers] == [m.body for m in messages]


@not_node
def test_oneway_sends_are_stored(client: Client, java: Witness, fresh: Fresh) -> None:
    topic = java.create_topic(fresh("OtherSend"))
    client.send(topic, [Outgoing(body=b"oneway %d" % i) for i in range(50)], mode="oneway")
    assert {m.body for m in java.read_all(topic, 50)} == {b"oneway %d" % i for i in range(50)}


@not_node
def test_a_batch_takes_consecutive_places_of_one_queue(client: Client, java: Witness, fresh: Fresh) -> None:
    topic = java.create_topic(fresh("OtherBatch"))
    messages = [
        Outgoing(body=b"batch %d" % i, tags="TagA" if i % 2 else None, keys=f"BATCH-{i}", properties={"n": str(i)})
        for i in range(32)
    ]
    answer = client.send_batch(topic, messages)
    stored = by_place(java.read_all(topic, len(messages)))
    for i, outgoing in enumerate(messages):
        message = stored[answer.queue_id, answer.queue_offset + i]
        assert (message.body, message.tags, message.keys, message.user_properties) == (
            outgoing.body, outgoing.tags, outgoing.keys, outgoing.properties,
        )  # fmt: skip
    assert answer.offset_msg_id is not None
    assert answer.offset_msg_id.split(",") == [
        stored[answer.queue_id, answer.queue_offset + i].offset_msg_id for i in range(len(messages))
    ]


@every_client
def test_a_body_that_the_client_compressed_arrives_whole(client: Client, java: Witness, fresh: Fresh) -> None:
    """Each client's messages are read by Java, and Java's by each client."""
    topic = java.create_topic(fresh("OtherSend"))
    body = b"compress me. " * (LARGER_THAN_COMPRESSION_STARTS // 13)
    client.send(topic, [Outgoing(body=body)])
    [stored] = java.read_all(topic, 1)
    assert stored.body == body
    assert stored.store_size < len(body), "the client did not compress: the test shows nothing"
    java.send(topic, [Outgoing(body=body)])
    consumer = client.consume(retrying(java, fresh("OtherGroup")), topic)
    consumer.until_count(2)
    assert [m.body for m in consumer.stop()] == [body, body]


@every_client
@pytest.mark.parametrize("size", [MIB, 4 * MIB], ids=["1 MiB", "4 MiB"])
def test_a_large_body_is_sent_stored_and_delivered(client: Client, java: Witness, fresh: Fresh, size: int) -> None:
    topic = java.create_topic(fresh("OtherLarge"), queues=1)
    body = random.Random(size).randbytes(size - 4096)  # incompressible; the bytes that zlib adds must fit in the limit
    client.send(topic, [Outgoing(body=body), Outgoing(body=b"small")])
    assert [m.body for m in java.read_all(topic, 2)] == [body, b"small"]
    consumer = client.consume(retrying(java, fresh("OtherGroup")), topic)
    consumer.until_count(2)
    assert sorted(m.body for m in consumer.stop()) == sorted([body, b"small"]), "listeners run side by side"


def essence(message: Message) -> tuple[Any, ...]:
    """The fields of a message that every client shows, in one spelling."""
    return (
        message.offset_msg_id, message.tags, message.keys, message.queue_id, message.queue_offset, message.log_offset,
        message.store_size, message.body, message.user_properties, message.flag, message.born_timestamp,
        message.store_timestamp, message.reconsume_times,
    )  # fmt: skip


@every_client
def test_every_message_arrives_once_with_the_fields_it_is_stored_with(
    client: Client, java: Witness, fresh: Fresh
) -> None:
    topic = java.create_topic(fresh("OtherPush"))
    consumer = client.consume(retrying(java, fresh("OtherGroup")), topic)
    java.send(topic, MESSAGES)
    java.send_batch(topic, [Outgoing(body=b"%d" % i, keys=f"N-{i}") for i in range(20)])
    consumer.until_count(len(MESSAGES) + 20)
    delivered = {m.offset_msg_id: essence(m) for m in consumer.stop()}
    assert len(consumer.messages) == len(MESSAGES) + 20
    assert delivered == {m.offset_msg_id: essence(m) for m in java.read_now(topic)}


@every_client
def test_a_tag_expression_delivers_its_tags_and_nothing_else(client: Client, java: Witness, fresh: Fresh) -> None:
    topic = java.create_topic(fresh("OtherTag"))
    client.send(topic, [Outgoing(body=b"%d" % i, tags=("TagA", "TagB", "TagC")[i % 3]) for i in range(60)])
    consumer = client.consume(retrying(java, fresh("OtherGroup")), topic, expression="TagA || TagC")
    consumer.until_count(40)
    assert Counter(m.tags for m in consumer.stop()) == {"TagA": 20, "TagC": 20}


@pytest.mark.parametrize("client", ["go"], indirect=True)
def test_a_tag_whose_hash_the_client_gets_wrong_is_delivered_by_ours_only(
    client: Client, java: Witness, cluster: Cluster, fresh: Fresh
) -> None:
    """Go hashes the bytes of a tag, Java its characters, and Apache's broker trusts the client's hash."""
    topic = java.create_topic(fresh("OtherTag"), queues=1)
    client.send(topic, [Outgoing(body=b"first", tags="标签"), Outgoing(body=b"last", tags="TagA")])
    consumer = client.consume(retrying(java, fresh("OtherGroup")), topic, expression="TagA || 标签")
    expected = [b"last"] if cluster.name == "apache" else [b"first", b"last"]
    consumer.until(lambda messages: b"last" in [m.body for m in messages], "the message behind")
    consumer.until_count(len(expected))
    assert sorted(m.body for m in consumer.stop()) == expected


@not_node
def test_messages_of_one_key_arrive_in_order(client: Client, java: Witness, fresh: Fresh) -> None:
    topic = java.create_topic(fresh("OtherOrder"), order=True)
    client.send(topic, steps(range(STEPS)))
    consumer = client.consume(retrying(java, fresh("OtherGroup")), topic, orderly=True, fail_tag="Step5", fail_below=1)
    consumer.until(lambda messages: sum(not m.failed for m in messages) >= KEYS * STEPS, "successes")
    messages = consumer.stop()
    check_order(messages)
    assert Counter(parsed(m) for m in messages if m.failed) == {(order, 5): 1 for order in range(KEYS)}


@every_client
def test_every_member_of_a_broadcasting_group_gets_every_message(client: Client, java: Witness, fresh: Fresh) -> None:
    topic, group = java.create_topic(fresh("OtherBroadcast")), fresh("OtherGroup")
    members = [client.consume(group, topic, broadcasting=True) for _ in range(2)]
    client.send(topic, [Outgoing(body=b"%d" % i) for i in range(20)])
    for member in members:
        member.until_count(20)
        assert sorted(int(m.body) for m in member.stop()) == list(range(20))


@every_client
def test_a_delayed_message_is_delivered_once_to_its_own_topic_after_its_level(
    client: Client, java: Witness, fresh: Fresh
) -> None:
    topic = java.create_topic(fresh("OtherDelay"))
    consumer = client.consume(retrying(java, fresh("OtherGroup")), topic)
    client.send(topic, [Outgoing(body=b"later", tags="TagL", keys="LATE", delay_level=1), Outgoing(body=b"now")])
    consumer.until_count(2)
    # A slow pull may bring both at once in any order, so the test looks at the time when "later" was stored.
    later, now = sorted(consumer.stop(), key=lambda message: message.body)
    assert (now.body, later.body) == (b"now", b"later")
    assert (later.topic, later.tags, later.keys) == (topic, "TagL", "LATE")
    assert later.store_timestamp - later.born_timestamp >= 1000, "level 1 is 1 s in SETTINGS"


@every_client
def test_a_message_that_always_fails_comes_again_and_is_dead_lettered(
    client: Client, java: Witness, fresh: Fresh
) -> None:
    topic, group = java.create_topic(fresh("OtherRetry")), retrying(java, fresh("OtherGroup"))
    bad = Outgoing(body=b"bad", tags="Bad", keys="KEY-BAD", properties={"kept": "yes"})
    consumer = client.consume(group, topic, fail_tag="Bad", max_reconsume_times=1)
    client.send(topic, [bad, Outgoing(body=b"good", tags="Good")])
    consumer.until_count(3)
    [dead] = java.read_all(f"%DLQ%{group}", 1)
    messages = consumer.stop()
    assert [(m.reconsume_times, m.failed) for m in messages if m.body == b"bad"] == [(0, True), (1, True)]
    assert len(messages) == 3
    assert (dead.body, dead.tags, dead.keys, dead.user_properties) == (b"bad", "Bad", "KEY-BAD", {"kept": "yes"})
    assert dead.properties["RETRY_TOPIC"] == topic
    assert dead.properties["ORIGIN_MESSAGE_ID"] == next(m.offset_msg_id for m in messages if m.body == b"bad")


@pytest.mark.parametrize("name", ["go", "node", "java4"])
def test_a_group_goes_on_where_a_process_that_ended_stopped(
    cluster: Cluster, java: Witness, fresh: Fresh, name: str
) -> None:
    topic, group = java.create_topic(fresh("OtherRestart")), retrying(java, fresh("OtherGroup"))
    seen: list[list[bytes]] = []
    for number in (1, 2):
        with start(name, cluster.namesrv_addr, cluster.work / f"{name}-restarted") as client:
            client.send(topic, [Outgoing(body=b"process %d, %d" % (number, i)) for i in range(20)])
            consumer = client.consume(group, topic)
            consumer.until_count(20)
            java.until_caught_up(group, topic)  # a shutdown may lose the last commit, which is a oneway request
            seen.append(sorted(m.body for m in consumer.stop()))
    assert seen == [sorted(b"process %d, %d" % (number, i) for i in range(20)) for number in (1, 2)]
