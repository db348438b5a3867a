"""The Java pull consumer: every status a pull can have, filters, and committed offsets."""

import pytest

from tests.support.servers import Fresh

from ..events import Outgoing
from ..witness import CallFailed, Witness

pytestmark = pytest.mark.interop

GROUP_NOT_EXIST = 26


@pytest.fixture
def topic(java_by_header: Witness, fresh: Fresh) -> str:
    """One queue with ten messages, TagA and TagB in turn."""
    name = java_by_header.create_topic(fresh("PullTopic"), queues=1)
    java_by_header.send(name, [Outgoing(body=b"%d" % i, tags=("TagA", "TagB")[i % 2]) for i in range(10)])
    java_by_header.read_all(name, 10)
    return name


def test_found(java_by_header: Witness, topic: str) -> None:
    pulled, messages = java_by_header.pull(topic, 0, 3, max=4)
    assert (pulled.status, pulled.next_offset, pulled.min_offset, pulled.max_offset) == ("FOUND", 7, 0, 10)
    assert [(m.queue_offset, m.body) for m in messages] == [(i, b"%d" % i) for i in range(3, 7)]


def test_the_filter_skips_and_the_next_offset_covers_what_was_skipped(java_by_header: Witness, topic: str) -> None:
    pulled, messages = java_by_header.pull(topic, 0, 0, expression="TagB")
    assert (pulled.status, pulled.next_offset) == ("FOUND", 10)
    assert [m.body for m in messages] == [b"1", b"3", b"5", b"7", b"9"]


def test_nothing_matches(java_by_header: Witness, topic: str) -> None:
    pulled, messages = java_by_header.pull(topic, 0, 0, expression="NoSuchTag")
    assert (pulled.status, pulled.next_offset, messages) == ("NO_MATCHED_MSG", 10, [])


def test_nothing_new(java_by_header: Witness, topic: str) -> None:
    pulled, messages = java_by_header.pull(topic, 0, 10)
    assert (pulled.status, pulled.next_offset, messages) == ("NO_NEW_MSG", 10, [])


def test_an_offset_beyond_the_end_is_corrected(java_by_header: Witness, topic: str) -> None:
    pulled, messages = java_by_header.pull(topic, 0, 1000)
    assert (pulled.status, pulled.next_offset, messages) == ("OFFSET_ILLEGAL", 10, [])


def test_a_pull_that_waits_is_answered_by_the_next_message(java_by_header: Witness, topic: str) -> None:
    waiting = java_by_header.call("pull", topic=topic, queueId=0, queueOffset=10, block=True)
    java_by_header.send(topic, [Outgoing(body=b"awaited")])
    events = waiting.result()
    assert [getattr(event, "body", None) for event in events] == [None, b"awaited"]


def test_a_committed_offset_is_kept_and_can_go_back(java_by_header: Witness, topic: str, fresh: Fresh) -> None:
    group = java_by_header.create_group(fresh("PullGroup"))
    for queue_offset, next_offset in ((3, 7), (0, 4)):
        java_by_header.pull(topic, 0, queue_offset, max=4, group=group, commit=True)
        assert {q: (p.committed_offset, p.broker_offset) for q, p in java_by_header.progress(group, topic).items()} == {
            0: (next_offset, 10)
        }


def test_an_offset_for_a_group_nobody_created_is_refused(java_by_header: Witness, topic: str, fresh: Fresh) -> None:
    with pytest.raises(CallFailed) as refusal:
        java_by_header.commit(fresh("NoGroup"), topic, 0, 7)
    assert refusal.value.code == GROUP_NOT_EXIST
