"""``topicStatus``: shows where each queue of a topic begins and ends."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import LmqParent, Topics
from rmqadmin.cli.options.topic_options import topic_names
from rmqadmin.cli.shared.topic_ends import read_status
from rmqadmin.core.topics.topic_status import TopicStatus, joined_status


def topic_status(
    call: Call,
    topic: Topics,
    cluster: LmqParent = None,
) -> TopicStatus:
    """One row a queue. Queues that keep messages although consumers do not read them are marked. A static topic also
    has rows of its logical queues, under the broker name __syslo__global__.

    Examples:
      rmqadmin topicStatus -t OrderTopic
      rmqadmin topicStatus -t OrderTopic,CopyTopic
      rmqadmin topicStatus -t OrderTopic --watch 5
    """
    with_unread = cluster is None and not call.as_mqadmin

    def read(name: str) -> TopicStatus:
        return read_status(call, name, call.admin.topic_route((cluster or name).strip()), with_unread=with_unread)

    return joined_status([read(name) for name in topic_names([topic])])
