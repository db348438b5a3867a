"""All kinds of sends by the real Java client, and the messages that are stored for them."""

import zlib
from collections.abc import Callable

import pytest

from ..cluster import BROKER_NAME, Cluster
from ..events import Message, Outgoing, Refused, Sent
from ..witness import Witness

pytestmark = pytest.mark.interop

MESSAGE_ILLEGAL = 13
PROPERTIES_LIMIT = 0x7FFF  # their length is stored as a signed 16-bit number
LARGER_THAN_COMPRESSION_STARTS = 20_000  # the client compresses bodies from 4 KiB on

MESSAGES = [
    Outgoing(body=b"no tag, no key"),
    Outgoing(body=b"tag and key", tags="TagA", keys="KEY-1"),
    Outgoing(body=b"three keys", tags="TagB", keys="KEY-1 KEY-2 ORDER_3"),
    Outgoing(
        body="消息 ключ 🚀 ünïcode".encode(),
        tags="标签",
        keys="钥匙 ключ-7",
        properties={"省": "浙江", "emoji": "🚀🚀", "one letter": "x"},
    ),
    Outgoing(body=bytes(range(256)), properties={"region": "eu west", "long": "0123456789" * 300}, flag=123_456),
    Outgoing(body=b"\0"),
]


def check_stored(sent: Sent, outgoing: Outgoing, stored: Message) -> None:
    """The stored message has the given fields and those of the answer."""
    assert (stored.body, stored.tags, stored.keys, stored.flag) == (
        outgoing.body,
        outgoing.tags,
        outgoing.keys,
        outgoing.flag,
    )
    assert stored.user_properties == outgoing.properties
    assert (stored.queue_id, stored.queue_offset) == (sent.queue_id, sent.queue_offset)
    assert (stored.msg_id, stored.offset_msg_id) == (sent.msg_id, sent.offset_msg_id)


def crc(body: bytes) -> int:
    """The CRC as UtilAll.crc32 computes it: never negative."""
    return zlib.crc32(body) & 0x7FFF_FFFF


def by_place(messages: list[Message]) -> dict[tuple[int, int], Message]:
    return {(m.queue_id, m.queue_offset): m for m in messages}


def test_sync_sends_are_answered_and_stored_with_every_field(
    cluster: Cluster, java_by_header: Witness, fresh: Callable[[str], str]
) -> None:
    topic = java_by_header.create_topic(fresh("SendTopic"))
    answers = java_by_header.send(topic, MESSAGES)
    assert [(a.status, a.broker_name) for a in answers] == [("SEND_OK", BROKER_NAME)] * len(MESSAGES)
    stored = by_place(java_by_header.read_all(topic, len(MESSAGES)))
    assert len(stored) == len(MESSAGES)
    for answer, outgoing in zip(answers, MESSAGES, strict=True):
        message = stored[answer.queue_id, answer.queue_offset]
        check_stored(answer, outgoing, message)
        assert message.topic == topic
        assert message.store_host == cluster.broker_addr
        assert message.born_host.startswith("127.0.0.1:")
        assert message.body_crc == crc(outgoing.body)
        assert (message.reconsume_times, message.sys_flag, message.prepared_transaction_offset) == (0, 0, 0)


def test_queue_offsets_are_contiguous_and_log_offsets_rise(java: Witness, fresh: Callable[[str], str]) -> None:
    topic = java.create_topic(fresh("SendTopic"), queues=2)
    java.send(topic, [Outgoing(body=b"%d" % i) for i in range(100)])
    stored = java.read_all(topic, 100)
    assert {q: [m.queue_offset for m in stored if m.queue_id == q] for q in (0, 1)} == {
        0: list(range(50)),
        1: list(range(50)),
    }
    log_offsets = [m.log_offset for m in sorted(stored, key=lambda m: int(m.body))]
    assert log_offsets == sorted(set(log_offsets))


def test_async_sends_are_all_answered(java_by_header: Witness, fresh: Callable[[str], str]) -> None:
    topic = java_by_header.create_topic(fresh("SendTopic"))
    messages = [Outgoing(body=b"async %d" % i, tags="TagA", keys=f"ASYNC-{i}") for i in range(200)]
    answers = java_by_header.send(topic, messages, mode="async")
    assert [a.status for a in answers] == ["SEND_OK"] * len(messages)
    stored = by_place(java_by_header.read_all(topic, len(messages)))
    assert len(stored) == len(messages)
    for answer, outgoing in zip(answers, messages, strict=True):
        check_stored(answer, outgoing, stored[answer.queue_id, answer.queue_offset])


def test_oneway_sends_are_stored(java_by_header: Witness, fresh: Callable[[str], str]) -> None:
    topic = java_by_header.create_topic(fresh("SendTopic"))
    java_by_header.send(topic, [Outgoing(body=b"oneway %d" % i, tags="TagO") for i in range(50)], mode="oneway")
    stored = java_by_header.read_all(topic, 50)
    assert sorted(m.body for m in stored) == sorted(b"oneway %d" % i for i in range(50))
    assert {m.tags for m in stored} == {"TagO"}


def test_a_batch_takes_consecutive_places_of_one_queue(java_by_header: Witness, fresh: Callable[[str], str]) -> None:
    topic = java_by_header.create_topic(fresh("BatchTopic"))
    messages = [
        Outgoing(
            body=b"batch %d" % i,
            tags="TagA" if i % 2 else None,
            keys=f"BATCH-{i}",
            properties={"number": str(i)} if i % 3 else {},
        )
        for i in range(32)
    ]
    first = java_by_header.send_batch(topic, messages)
    second = java_by_header.send_batch(topic, messages[:1])
    ids = first.msg_id.split(",")
    assert first.status == second.status == "SEND_OK"
    assert len(set(ids)) == len(messages)
    stored = by_place(java_by_header.read_all(topic, len(messages) + 1))
    assert len(stored) == len(messages) + 1
    for i, outgoing in enumerate(messages):
        message = stored[first.queue_id, first.queue_offset + i]
        assert (message.body, message.tags, message.keys, message.user_properties) == (
            outgoing.body,
            outgoing.tags,
            outgoing.keys,
            outgoing.properties,
        )
        assert message.msg_id == ids[i]
    assert first.offset_msg_id is not None
    assert first.offset_msg_id.split(",") == [
        stored[first.queue_id, first.queue_offset + i].offset_msg_id for i in range(len(messages))
    ]


def test_a_chosen_queue_is_the_one_stored_to(java: Witness, fresh: Callable[[str], str]) -> None:
    topic = java.create_topic(fresh("SendTopic"))
    answers = java.send(
        topic,
        [
            Outgoing(body=b"to 3", queue_id=3),
            Outgoing(body=b"to 1", queue_id=1),
            Outgoing(body=b"to 3 again", queue_id=3),
        ],
    )
    assert [(a.queue_id, a.queue_offset) for a in answers] == [(3, 0), (1, 0), (3, 1)]


def test_a_body_that_the_client_compressed_arrives_whole(java_by_header: Witness, fresh: Callable[[str], str]) -> None:
    topic = java_by_header.create_topic(fresh("SendTopic"))
    body = b"compress me. " * (LARGER_THAN_COMPRESSION_STARTS // 13)
    java_by_header.send(topic, [Outgoing(body=body)])
    [stored] = java_by_header.read_all(topic, 1)
    assert stored.body == body
    assert stored.store_size < len(body), "the client did not compress: the test shows nothing"
    assert stored.body_crc != crc(body), "the CRC is of the bytes as stored"


def test_a_topic_nobody_created_is_created_by_the_first_send(java: Witness, fresh: Callable[[str], str]) -> None:
    topic = fresh("AutoTopic")
    [answer] = java.send(topic, [Outgoing(body=b"created from TBW102", tags="TagA")])
    assert answer.status == "SEND_OK"
    stored = java.read_all(topic, 1)
    assert [m.body for m in stored] == [b"created from TBW102"]
    assert len(java.offsets(topic)) == 4, "the client asks for four queues"


def test_properties_too_long_to_store_are_refused_and_nothing_is_stored(
    java_by_header: Witness, fresh: Callable[[str], str]
) -> None:
    topic = java_by_header.create_topic(fresh("SendTopic"))
    too_long = Outgoing(body=b"x", properties={"long": "p" * PROPERTIES_LIMIT})
    refusal, answer = java_by_header.try_send(topic, [too_long, Outgoing(body=b"the connection is still good")])
    assert isinstance(refusal, Refused)
    assert refusal.code == MESSAGE_ILLEGAL
    assert isinstance(answer, Sent)
    assert [m.body for m in java_by_header.read_all(topic, 1)] == [b"the connection is still good"]


@pytest.mark.parametrize("level", [1, 2])
def test_a_delayed_message_is_delivered_once_to_its_own_topic_after_its_level(
    java_by_header: Witness, fresh: Callable[[str], str], level: int
) -> None:
    topic = java_by_header.create_topic(fresh("DelayTopic"))
    consumer = java_by_header.consume(fresh("DelayGroup"), topic)
    java_by_header.send(
        topic,
        [
            Outgoing(body=b"later", tags="TagL", keys="LATE", properties={"kept": "yes"}, delay_level=level),
            Outgoing(body=b"now"),
        ],
    )
    consumer.until_count(2)
    # A slow pull may bring both at once in any order, so the test looks at the time when "later" was stored.
    later, now = sorted(consumer.stop(), key=lambda message: message.body)
    assert (now.body, later.body) == (b"now", b"later")
    assert (later.topic, later.tags, later.keys, later.user_properties) == (topic, "TagL", "LATE", {"kept": "yes"})
    assert later.store_timestamp - later.born_timestamp >= level * 1000, "levels 1 and 2 are 1 s and 2 s in SETTINGS"
