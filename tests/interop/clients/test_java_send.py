"""All kinds of sends by the real Java client, and the messages that are stored for them."""

import zlib

import pytest

from tests.support.servers import Fresh

from ..events import Message, Outgoing, Refused, Sent
from ..witness import Witness

pytestmark = pytest.mark.interop

MESSAGE_ILLEGAL = 13
PROPERTIES_LIMIT = 0x7FFF  # their length is stored as a signed 16-bit number
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


def crc(body: bytes) -> int:
    """The CRC as UtilAll.crc32 computes it: never negative."""
    return zlib.crc32(body) & 0x7FFF_FFFF


def by_place(messages: list[Message]) -> dict[tuple[int, int], Message]:
    return {(m.queue_id, m.queue_offset): m for m in messages}


def test_queue_offsets_are_contiguous_and_log_offsets_rise(java: Witness, fresh: Fresh) -> None:
    topic = java.create_topic(fresh("SendTopic"), queues=2)
    java.send(topic, [Outgoing(body=b"%d" % i) for i in range(100)])
    stored = java.read_all(topic, 100)
    assert {q: [m.queue_offset for m in stored if m.queue_id == q] for q in (0, 1)} == {
        0: list(range(50)),
        1: list(range(50)),
    }
    log_offsets = [m.log_offset for m in sorted(stored, key=lambda m: int(m.body))]
    assert log_offsets == sorted(set(log_offsets))


def test_a_chosen_queue_is_the_one_stored_to(java: Witness, fresh: Fresh) -> None:
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


def test_a_topic_nobody_created_is_created_by_the_first_send(java: Witness, fresh: Fresh) -> None:
    topic = fresh("AutoTopic")
    [answer] = java.send(topic, [Outgoing(body=b"created from TBW102", tags="TagA")])
    assert answer.status == "SEND_OK"
    stored = java.read_all(topic, 1)
    assert [m.body for m in stored] == [b"created from TBW102"]
    assert len(java.offsets(topic)) == 4, "the client asks for four queues"


def test_properties_too_long_to_store_are_refused_and_nothing_is_stored(java_by_header: Witness, fresh: Fresh) -> None:
    topic = java_by_header.create_topic(fresh("SendTopic"))
    too_long = Outgoing(body=b"x", properties={"long": "p" * PROPERTIES_LIMIT})
    refusal, answer = java_by_header.try_send(topic, [too_long, Outgoing(body=b"the connection is still good")])
    assert isinstance(refusal, Refused)
    assert refusal.code == MESSAGE_ILLEGAL
    assert isinstance(answer, Sent)
    assert [m.body for m in java_by_header.read_all(topic, 1)] == [b"the connection is still good"]
