"""Messages looked up by the Java client, by key, unique id, the broker's id, time and queue offset, and the fields that
they show.

The index is written after a send is answered, so the first query of a test waits until it finds (``eventually``).
"""

import pytest

from tests.support.servers import Fresh

from ..events import Outgoing
from ..witness import CallFailed, Witness, eventually

pytestmark = pytest.mark.interop

NO_MESSAGE = 208
QUERY_NOT_FOUND = 22
FAR_MS = 60_000


def test_a_key_finds_every_message_that_has_it(java_by_header: Witness, fresh: Fresh) -> None:
    topic = java_by_header.create_topic(fresh("QueryTopic"))
    messages = [Outgoing(body=b"%d" % i, keys=f"EVERY KEY-{i} PAIR-{i // 2}", tags="TagA") for i in range(10)]
    java_by_header.send(topic, messages)
    stored = {m.body: m.as_stored() for m in java_by_header.read_all(topic, len(messages))}
    assert {
        m.body: m.as_stored() for m in eventually(lambda: java_by_header.query_key(topic, "EVERY"), len(messages))
    } == stored
    assert [m.as_stored() for m in java_by_header.query_key(topic, "KEY-7")] == [stored[b"7"]]
    assert sorted(m.body for m in java_by_header.query_key(topic, "PAIR-2")) == [b"4", b"5"]


def test_a_key_query_gives_at_most_what_was_asked_for_and_the_newest(java: Witness, fresh: Fresh) -> None:
    topic = java.create_topic(fresh("QueryTopic"))
    java.send(topic, [Outgoing(body=b"%02d" % i, keys="MANY") for i in range(20)])
    assert len(eventually(lambda: java.query_key(topic, "MANY"), 20)) == 20
    assert sorted(m.body for m in java.query_key(topic, "MANY", max=5)) == [b"%02d" % i for i in range(15, 20)]


def test_a_key_query_keeps_to_its_time_range(java: Witness, fresh: Fresh) -> None:
    topic = java.create_topic(fresh("QueryTopic"))
    java.send(topic, [Outgoing(body=b"now", keys="TIMED")])
    [stored] = java.read_all(topic, 1)
    now_ms = stored.store_timestamp
    assert (
        len(eventually(lambda: java.query_key(topic, "TIMED", begin_ms=now_ms - FAR_MS, end_ms=now_ms + FAR_MS), 1))
        == 1
    )
    for begin_ms, end_ms in ((0, now_ms - FAR_MS), (now_ms + FAR_MS, now_ms + 2 * FAR_MS)):
        with pytest.raises(CallFailed) as refusal:
            java.query_key(topic, "TIMED", begin_ms=begin_ms, end_ms=end_ms)
        assert refusal.value.code == NO_MESSAGE


def test_a_key_nobody_used_is_reported_as_no_message(java_by_header: Witness, fresh: Fresh) -> None:
    topic = java_by_header.create_topic(fresh("QueryTopic"))
    java_by_header.send(topic, [Outgoing(body=b"x", keys="USED")])
    assert len(eventually(lambda: java_by_header.query_key(topic, "USED"), 1)) == 1
    with pytest.raises(CallFailed) as refusal:
        java_by_header.query_key(topic, "UNUSED")
    assert refusal.value.code == NO_MESSAGE


def test_keys_of_one_topic_are_not_found_in_another(java: Witness, fresh: Fresh) -> None:
    one, other = java.create_topic(fresh("QueryTopic")), java.create_topic(fresh("QueryTopic"))
    java.send(one, [Outgoing(body=b"in one", keys="SHARED")])
    java.send(other, [Outgoing(body=b"in other", keys="SHARED")])
    assert [m.body for m in eventually(lambda: java.query_key(other, "SHARED"), 1)] == [b"in other"]
    assert [m.body for m in java.query_key(one, "SHARED")] == [b"in one"]


def test_unique_id_and_brokers_id_find_the_message_with_all_its_fields(java_by_header: Witness, fresh: Fresh) -> None:
    topic = java_by_header.create_topic(fresh("QueryTopic"))
    outgoing = Outgoing(body="消息".encode(), tags="标签", keys="ключ", properties={"emoji": "🚀"}, flag=7)
    sent = java_by_header.send(topic, [Outgoing(body=b"before"), outgoing, Outgoing(body=b"after")])[1]
    [found] = eventually(lambda: java_by_header.query_unique_id(topic, sent.msg_id), 1)
    assert sent.offset_msg_id is not None
    viewed = java_by_header.view(topic, sent.offset_msg_id)
    assert (found.body, found.tags, found.keys, found.user_properties, found.flag) == (
        "消息".encode(),
        "标签",
        "ключ",
        {"emoji": "🚀"},
        7,
    )
    assert (found.queue_id, found.queue_offset, found.msg_id, found.offset_msg_id) == (
        sent.queue_id,
        sent.queue_offset,
        sent.msg_id,
        sent.offset_msg_id,
    )
    assert viewed.as_stored() == found.as_stored()


def test_an_id_of_no_message_is_refused(java: Witness, fresh: Fresh) -> None:
    topic = java.create_topic(fresh("QueryTopic"))
    [sent] = java.send(topic, [Outgoing(body=b"x")])
    assert sent.offset_msg_id is not None
    with pytest.raises(CallFailed):
        java.view(topic, sent.offset_msg_id[:16] + "00000000FFFFFFFF")
    with pytest.raises(CallFailed):
        java.query_unique_id(topic, sent.msg_id[:-8] + "FFFFFFFF")


def test_a_batch_is_found_message_by_message(java: Witness, fresh: Fresh) -> None:
    topic = java.create_topic(fresh("QueryTopic"))
    sent = java.send_batch(topic, [Outgoing(body=b"%d" % i, keys=f"BATCH-{i}") for i in range(5)])
    ids = sent.msg_id.split(",")
    assert [m.body for m in eventually(lambda: java.query_key(topic, "BATCH-4"), 1)] == [b"4"]
    assert [m.body for m in java.query_unique_id(topic, ids[3])] == [b"3"]


def test_the_place_of_a_time_is_the_first_message_not_older(java_by_header: Witness, fresh: Fresh) -> None:
    topic = java_by_header.create_topic(fresh("QueryTopic"), queues=1)
    for i in range(5):  # one call each, so that the times differ a little
        java_by_header.send(topic, [Outgoing(body=b"%d" % i)])
    stored = java_by_header.read_all(topic, 5)
    times = [m.store_timestamp for m in stored]
    for time_ms in sorted({*times, times[0] - FAR_MS}):
        expected = next(i for i, stored_ms in enumerate(times) if stored_ms >= time_ms)
        assert java_by_header.search_offset(topic, 0, time_ms) == expected
    assert java_by_header.search_offset(topic, 0, times[-1] + FAR_MS) == len(times)


def test_offsets_of_queues_with_and_without_messages(java_by_header: Witness, fresh: Fresh) -> None:
    topic = java_by_header.create_topic(fresh("QueryTopic"), queues=2)
    java_by_header.send(topic, [Outgoing(body=b"x", queue_id=0)] * 3)
    first = java_by_header.read_all(topic, 3)[0]
    queues = java_by_header.offsets(topic)
    assert {q.queue_id: (q.min_offset, q.max_offset) for q in queues.values()} == {0: (0, 3), 1: (0, 0)}
    assert queues[0].earliest_store_timestamp == first.store_timestamp
