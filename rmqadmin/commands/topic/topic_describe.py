"""``topic describe``: shows topics with their brokers, queues, groups and settings."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.topic_options import TopicNames, topic_names
from rmqadmin.cli.shared.topic_ends import read_status
from rmqadmin.core.topics.described import DescribedTopicRow, DescribedTopics, describe_topic


def topic_describe(call: Call, topics: TopicNames) -> DescribedTopics:
    """Everything about a topic in one view. Queues whose messages consumers do not read are marked.

    Examples:
      rmqadmin topic describe OrderTopic
      rmqadmin -o json topic describe OrderTopic
    """

    def describe(topic: str) -> DescribedTopicRow:
        route = call.admin.topic_route(topic)
        return describe_topic(call.admin, topic, route, read_status(call, topic, route, with_unread=True))

    return DescribedTopics([describe(topic) for topic in topic_names(topics)])
