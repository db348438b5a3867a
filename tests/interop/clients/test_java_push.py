"""The Java push consumer: filters, start offsets, progress, and waiting for messages."""

from collections import Counter
from collections.abc import Callable

import pytest

from tests.support.servers import Fresh

from ..client import CallFailed
from ..events import Outgoing
from ..witness import Witness

pytestmark = pytest.mark.interop


def numbered(count: int, tag: Callable[[int], str]) -> list[Outgoing]:
    return [Outgoing(body=b"%d" % i, tags=tag(i), keys=f"N-{i}", properties={"number": str(i)}) for i in range(count)]


def test_tags_with_one_hash_are_told_apart(java: Witness, fresh: Fresh) -> None:
    """ "Aa" and "BB" have the same Java hash code: the broker's filter passes both, so the client must compare the
    tag."""
    topic = java.create_topic(fresh("TagTopic"))
    java.send(topic, numbered(20, lambda i: ("Aa", "BB")[i % 2]))
    consumer = java.consume(fresh("TagGroup"), topic, expression="BB")
    consumer.until_count(10)
    assert Counter(m.tags for m in consumer.stop()) == {"BB": 10}


def test_an_sql_expression_is_applied(java_by_header: Witness, fresh: Fresh) -> None:
    topic = java_by_header.create_topic(fresh("SqlTopic"))
    sql = "number is not null AND number BETWEEN 10 AND 14 OR number = 29"
    java_by_header.send(topic, numbered(30, lambda i: "TagA"))
    consumer = java_by_header.consume(fresh("SqlGroup"), topic, sql=sql)
    consumer.until_count(6)
    java_by_header.send(topic, numbered(30, lambda i: "TagB"))  # wakes the waiting pulls
    consumer.until_count(12)
    assert sorted(int(m.body) for m in consumer.stop()) == sorted([10, 11, 12, 13, 14, 29] * 2)


def test_an_sql_expression_that_does_not_compile_is_refused_in_apaches_words(
    java_by_header: Witness, fresh: Fresh
) -> None:
    topic = java_by_header.create_topic(fresh("SqlTopic"))
    with pytest.raises(CallFailed, match=r'Encountered "<EOF>" at line 1, column 8'):
        java_by_header.consume(fresh("SqlGroup"), topic, sql="number >").until_count(1)


def test_messages_sent_while_it_waits_are_delivered(java_by_header: Witness, fresh: Fresh) -> None:
    topic = java_by_header.create_topic(fresh("PushTopic"))
    consumer = java_by_header.consume(fresh("PushGroup"), topic)
    for round_number in range(1, 6):
        java_by_header.send(topic, [Outgoing(body=b"round %d, %d" % (round_number, i)) for i in range(4)])
        consumer.until_count(4 * round_number)
    assert len({m.body for m in consumer.stop()}) == 20


def test_a_group_goes_on_where_it_stopped(java: Witness, fresh: Fresh) -> None:
    topic, group = java.create_topic(fresh("PushTopic")), fresh("PushGroup")
    java.send(topic, numbered(40, lambda i: "TagA"))
    first = java.consume(group, topic)
    first.until_count(40)
    first.stop()
    assert {q: (p.committed_offset, p.broker_offset) for q, p in java.until_caught_up(group, topic).items()} == {
        q: (10, 10) for q in range(4)
    }
    java.send(topic, [Outgoing(body=b"new %d" % i) for i in range(8)])
    second = java.consume(group, topic)
    second.until_count(8)
    assert sorted(m.body for m in second.stop()) == sorted(b"new %d" % i for i in range(8))


def test_two_groups_each_get_every_message(java: Witness, fresh: Fresh) -> None:
    topic = java.create_topic(fresh("PushTopic"))
    consumers = [java.consume(fresh("PushGroup"), topic) for _ in range(2)]
    java.send(topic, numbered(20, lambda i: "TagA"))
    for consumer in consumers:
        consumer.until_count(20)
        assert sorted(int(m.body) for m in consumer.stop()) == list(range(20))
