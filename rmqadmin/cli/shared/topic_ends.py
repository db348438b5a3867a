"""Reads where a topic's queues begin and end, for the commands that show it."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.core import targets
from rmqadmin.core.topics.stored_queues import add_unread, stored_queues
from rmqadmin.core.topics.topic_status import TopicStatus
from rmqproto.bodies.routes import TopicRoute
from rmqproto.errors import NotFoundError, RocketMQError


def read_status(call: Call, topic: str, route: TopicRoute, *, with_unread: bool) -> TopicStatus:
    """The ends of all queues, those of a static topic's logical queues included. ``with_unread``: also queues past the
    topic's counts, and marks those that consumers do not read. NotFoundError if there is no queue."""
    addrs = targets.selected_addrs(route.broker_datas)
    found = call.answers.of(lambda addr: call.admin.topic_stats(addr, topic), addrs).values()
    offsets = {queue: ends for stats in found for queue, ends in stats.offset_table.items()}
    if not offsets:
        raise NotFoundError("Not found the topic stats info", hint="No broker of the route has a queue of the topic.")
    if route.topic_queue_mapping_by_broker:
        from rmqadmin.core.topics.static_topics import logical_ends, read_configs  # few topics are static

        try:
            configs = read_configs(call.admin, call.admin.cluster_info(), topic, call.answers)
            offsets |= logical_ends(topic, configs, offsets)
        except RocketMQError as error:
            call.notice(f"no logical queues are shown: {error}")
    unread = (
        add_unread(call.admin, stored_queues(call.admin, route, topic, call.notice), offsets) if with_unread else {}
    )
    return TopicStatus(offsets, round(sum(stats.topic_put_tps for stats in found), 2), unread)
