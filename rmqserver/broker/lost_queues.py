"""Notices at a start that a topic's consume queues are gone. Queues are opened when they are first used, and an empty
one looks like one that was removed: its messages would be hidden, and new ones would get their queue offsets."""

from __future__ import annotations

import logging

from rmqserver.broker.tables.offsets import SEPARATOR, ConsumerOffsets
from rmqserver.store.disk.segments import QUEUES_ANEW
from rmqserver.store.message_store import MessageStore

log = logging.getLogger(__name__)


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
