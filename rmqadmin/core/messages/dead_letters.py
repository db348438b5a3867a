"""Dead letters, group by group: how many, and since when."""

from __future__ import annotations

import msgspec

from rmqadmin.core import targets
from rmqclient.admin import AdminClient
from rmqproto.errors import RocketMQError
from rmqproto.names import DLQ_PREFIX


class DeadLetters(msgspec.Struct, frozen=True):
    """A group's dead-letter queue: how many messages it holds, and when the oldest and the newest were stored."""

    depth_count: int | None = None
    oldest_ms: int | None = None
    newest_ms: int | None = None
    error: str | None = None


def dead_letter_groups(admin: AdminClient) -> dict[str, str]:
    """Groups that have a dead-letter topic, sorted, and the topic's name."""
    topics = sorted(topic for topic in admin.topic_list() if topic.startswith(DLQ_PREFIX))
    return {topic[len(DLQ_PREFIX) :]: topic for topic in topics}


def read_dead_letters(admin: AdminClient, topic: str) -> DeadLetters:
    """What a dead-letter topic holds on all its brokers together. A failure is part of the answer."""
    try:
        addrs = targets.selected_addrs(admin.topic_route(topic).broker_datas)
        depth, oldest, newest = 0, [], 0
        for addr in addrs:
            for queue, ends in admin.topic_stats(addr, topic).offset_table.items():
                depth += ends.max_offset - ends.min_offset
                newest = max(newest, ends.last_update_timestamp)
                if ends.max_offset > ends.min_offset:
                    oldest.append(admin.earliest_store_time(addr, topic, queue.queue_id))
        return DeadLetters(depth, min((ms for ms in oldest if ms is not None), default=None), newest or None)
    except RocketMQError as error:
        return DeadLetters(error=str(error))
