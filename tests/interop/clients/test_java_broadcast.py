"""Java consumers in broadcasting mode: every member gets every message, and keeps its own offsets."""

import pytest

from tests.support.servers import Fresh

from ..events import Outgoing
from ..witness import Witness

pytestmark = pytest.mark.interop


def test_a_failed_broadcast_message_is_dropped_not_retried(java: Witness, fresh: Fresh) -> None:
    topic, group = java.create_topic(fresh("BroadcastTopic")), fresh("BroadcastGroup")
    member = java.consume(group, topic, broadcasting=True, fail_tag="Bad", retry_delay_level=1)
    java.send(topic, [Outgoing(body=b"bad", tags="Bad", queue_id=0)])
    member.until_count(1)
    java.send(topic, [Outgoing(body=b"good", queue_id=0)])
    member.until_count(2)
    assert [(m.body, m.failed) for m in member.stop()] == [(b"bad", True), (b"good", False)]
    assert {p.committed_offset for p in java.progress(group, topic).values()} == {0}, (
        "a broadcasting group commits nothing to the broker"
    )


def test_a_member_that_comes_back_goes_on_from_its_own_offsets(java: Witness, fresh: Fresh) -> None:
    topic, group, instance = java.create_topic(fresh("BroadcastTopic")), fresh("BroadcastGroup"), fresh("instance")
    java.send(topic, [Outgoing(body=b"before %d" % i) for i in range(8)])
    first = java.consume(group, topic, broadcasting=True, instance=instance)
    first.until_count(8)
    first.stop()
    java.send(topic, [Outgoing(body=b"after %d" % i) for i in range(8)])
    again = java.consume(group, topic, broadcasting=True, instance=instance)
    again.until_count(8)
    assert sorted(m.body for m in again.stop()) == [b"after %d" % i for i in range(8)]
