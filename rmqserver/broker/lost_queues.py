"""Notices that the consume queues of a topic, or its entry in the table of topics, are gone. Queues are opened when
they are first used, and an empty one looks like one that was removed: its messages would be hidden, and new ones would
get their queue offsets."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from rmqproto.bodies.routes import TopicConfig
from rmqproto.errors import StorageError
from rmqproto.names import LIGHT_QUEUE_PREFIX
from rmqserver.broker.errors import TableFull
from rmqserver.broker.tables.consumer_offsets import SEPARATOR, ConsumerOffsets
from rmqserver.broker.tables.topics import TopicTable
from rmqserver.config.broker_config import BrokerConfig
from rmqserver.store.disk.segments import QUEUES_ANEW
from rmqserver.store.message_store import MessageStore

log = logging.getLogger(__name__)

_NAMES_SHOWN = 10


def tell_lost_queues(offsets: ConsumerOffsets, store: MessageStore) -> None:
    """Logs topics that groups have read and that have no consume queue. Only as long as nothing of the log has expired:
    later the queues may have expired, too."""
    if store.log.min_offset > 0:
        return
    known = set(store.queues.names())
    for key, queues in offsets.committed_table.items():
        topic, _, group = key.partition(SEPARATOR)
        if topic not in known and (read := max(queues.values(), default=0)) > 0:
            known.add(topic)  # one line a topic
            log.error("event=queues-missing topic=%s group=%s read_to=%d hint=%r", topic, group, read, QUEUES_ANEW)


def tell_unlisted_topics(topics: TopicTable, store: MessageStore) -> None:
    """Logs topics that have consume queues and that the table does not name: nobody can read them."""
    found = [
        name
        for name in store.queues.names()
        if topics.get(name) is None and not topics.is_system(name) and not name.startswith(LIGHT_QUEUE_PREFIX)
    ]
    if found:
        log.error(
            "event=topics-unlisted count=%d topics=%s hint='put back config/topics.json, or create them with as many "
            "queues as they had: their messages can be read then'",
            len(found), ",".join(sorted(found)[:_NAMES_SHOWN]),
        )  # fmt: skip


def list_unlisted(config: BrokerConfig, store: MessageStore, topics: TopicTable, known_until: int) -> None:
    """For a new master, whose table may lack topics that were created after it last copied that of the master before.
    Lists each topic that has a message at log offset ``known_until``, where the log ended when the table was copied, or
    behind it. Otherwise nobody could read these messages, although they are acknowledged. The topic's settings are lost
    with its master: it gets as many queues as a first send creates, or more if more have messages. A topic without such
    a message was deleted."""
    found = list(_unlisted(config, store, topics, known_until))
    if not found:
        return
    try:
        topics.put(*found)
    except TableFull as error:
        log.error("event=topics-not-listed count=%d reason=%r", len(found), str(error))
        return
    for topic in found:
        log.warning(
            "event=topic-listed topic=%s queues=%d reason='it has messages, and was created just before its master was "
            "lost; its settings are the defaults'",
            topic.topic_name, topic.write_queue_nums,
        )  # fmt: skip


def _unlisted(config: BrokerConfig, store: MessageStore, topics: TopicTable, known_until: int) -> Iterator[TopicConfig]:
    for name in store.queues.names():
        if topics.get(name) is not None or name.startswith(LIGHT_QUEUE_PREFIX):
            continue
        try:
            queues = store.queues.of_topic(name)
        except StorageError as error:
            log.error("event=topic-not-listed topic=%s reason=%r", name, str(error))
            continue
        newest = [queue.unit(queue.max_offset - 1) for queue in queues]
        if any(unit is not None and unit[0] >= known_until for unit in newest):
            queue_nums = max(config.default_topic_queue_nums, 1 + max(queue.queue_id for queue in queues))
            yield TopicConfig(topic_name=name, read_queue_nums=queue_nums, write_queue_nums=queue_nums)
