"""``topicStatus``: shows where each queue of a topic begins and ends."""

from __future__ import annotations

from rmqadmin.call import Call
from rmqadmin.core.topics.topic_status import TopicStatus
from rmqadmin.options.command_options import LmqParent, Topic
from rmqadmin.shared.topic_ends import read_status


def topic_status(
    call: Call,
    topic: Topic,
    cluster: LmqParent = None,
) -> TopicStatus:
    """One row a queue. Queues that keep messages although consumers do not read them are marked. A static topic also
    has rows of its logical queues, under the broker name __syslo__global__.

    Examples:
      rmqadmin topicStatus -t OrderTopic
      rmqadmin topicStatus -t OrderTopic --watch 5
    """
    topic = topic.strip()
    route = call.admin.topic_route((cluster or topic).strip())
    return read_status(call, topic, route, with_unread=cluster is None and not call.as_mqadmin)
