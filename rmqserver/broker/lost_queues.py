"""Notices at a start that the consume queues of a topic, or its entry in the table of topics, are gone. Queues are
opened when they are first used, and an empty one looks like one that was removed: its messages would be hidden, and new
ones would get their queue offsets."""

from __future__ import annotations

import logging

from rmqproto.names import LIGHT_QUEUE_PREFIX
from rmqserver.broker.tables.offsets import SEPARATOR, ConsumerOffsets
from rmqserver.broker.tables.topics import TopicTable
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
