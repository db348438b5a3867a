"""Messages that a Java listener fails on come again through the group's retry topic, and finally become dead
letters."""

import pytest

from tests.support.servers import Fresh

from ..events import Message, Outgoing
from ..witness import CallFailed, Witness

pytestmark = pytest.mark.interop

TOPIC_NOT_EXIST = 17
BAD = Outgoing(body=b"bad", tags="Bad", keys="KEY-BAD", properties={"kept": "yes"})
GOOD = Outgoing(body=b"good", tags="Good")


def of_body(messages: list[Message], body: bytes) -> list[Message]:
    return [m for m in messages if m.body == body]


def test_a_message_that_fails_once_is_delivered_again_as_itself(java_by_header: Witness, fresh: Fresh) -> None:
    topic, group = java_by_header.create_topic(fresh("RetryTopic")), fresh("RetryGroup")
    [sent, _] = java_by_header.send(topic, [BAD, GOOD])
    consumer = java_by_header.consume(group, topic, fail_tag="Bad", fail_below=1, retry_delay_level=1)
    consumer.until_count(3)
    messages = consumer.stop()
    assert len(of_body(messages, b"good")) == 1
    first, again = of_body(messages, b"bad")
    assert (first.failed, first.reconsume_times) == (True, 0)
    assert (again.failed, again.reconsume_times) == (False, 1)
    assert (again.topic, again.tags, again.keys, again.user_properties) == (topic, "Bad", "KEY-BAD", {"kept": "yes"})
    assert first.msg_id == again.msg_id == sent.msg_id, "the producer's id survives"
    assert again.properties["ORIGIN_MESSAGE_ID"] == first.offset_msg_id
    assert again.store_timestamp - first.store_timestamp >= 1000, "level 1 is 1 s in SETTINGS"
    assert (again.born_timestamp, again.born_host) == (first.born_timestamp, first.born_host)


def test_a_negative_delay_level_dead_letters_at_once(java: Witness, fresh: Fresh) -> None:
    topic, group = java.create_topic(fresh("RetryTopic")), fresh("RetryGroup")
    java.send(topic, [BAD, GOOD])
    consumer = java.consume(group, topic, fail_tag="Bad", retry_delay_level=-1)
    consumer.until_count(2)
    [dead] = java.read_all(f"%DLQ%{group}", 1)
    assert sorted((m.body, m.reconsume_times) for m in consumer.stop()) == [(b"bad", 0), (b"good", 0)]
    assert dead.body == b"bad"


def test_the_groups_own_limit_counts_where_the_client_sets_none(java: Witness, fresh: Fresh) -> None:
    topic, group = java.create_topic(fresh("RetryTopic")), java.create_group(fresh("RetryGroup"), retry_max_times=0)
    java.send(topic, [BAD])
    consumer = java.consume(group, topic, fail_tag="Bad", max_reconsume_times=0)
    consumer.until_count(1)
    [dead] = java.read_all(f"%DLQ%{group}", 1)
    consumer.stop()
    assert dead.body == b"bad"


def test_only_the_group_that_failed_sees_the_message_again(java: Witness, fresh: Fresh) -> None:
    topic, failing, other = java.create_topic(fresh("RetryTopic")), fresh("RetryGroup"), fresh("OtherGroup")
    bystander = java.consume(other, topic)
    consumer = java.consume(failing, topic, fail_tag="Bad", fail_below=1, retry_delay_level=1)
    java.send(topic, [BAD])
    consumer.until_count(2)
    java.send(topic, [GOOD])
    bystander.until(lambda messages: bool(of_body(messages, b"good")), "later message")
    consumer.stop()
    assert [m.body for m in bystander.stop()] == [b"bad", b"good"]


def test_there_is_no_dead_letter_queue_before_there_is_a_dead_letter(java: Witness, fresh: Fresh) -> None:
    topic, group = java.create_topic(fresh("RetryTopic")), fresh("RetryGroup")
    java.send(topic, [GOOD])
    consumer = java.consume(group, topic)
    consumer.until_count(1)
    consumer.stop()
    with pytest.raises(CallFailed):
        java.read_now(f"%DLQ%{group}")
