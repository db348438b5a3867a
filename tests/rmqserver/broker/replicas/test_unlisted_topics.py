"""Topics that a new master has messages of, and does not know."""

from __future__ import annotations

from rmqserver.broker.assembly import BrokerAssembly
from rmqserver.broker.replicas.unlisted_topics import list_unlisted
from tests.rmqserver.store.conftest import put


def test_topics_of_the_last_messages_are_listed_and_deleted_ones_stay_away(parts: BrokerAssembly) -> None:
    put(parts.store, "Deleted")
    parts.store.commit()
    known_until = parts.store.written_offset
    for topic, queue_id in (("New", 0), ("Wide", 40), ("%LMQ%x", 0), ("TopicTest", 0)):
        put(parts.store, topic, queue_id=queue_id)
    parts.store.commit()
    before = set(parts.topics.all())
    list_unlisted(parts.config, parts.store, parts.topics, known_until)
    assert set(parts.topics.all()) - before - {"TopicTest"} == {"New", "Wide"}
    assert [parts.topics.all()[name].read_queue_nums for name in ("New", "Wide")] == [8, 41]
