"""``remappingStaticTopic``: moves the logical queues of a static topic to other brokers."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import Topic
from rmqadmin.cli.options.static_topic_options import OLD_LINE, MappingOptions, change
from rmqadmin.core.changes import Changes
from rmqadmin.core.topics.static_mapping import Configs, remapped
from rmqadmin.core.topics.static_topics import MappingWriter
from rmqproto.bodies.static_topics import TopicRemappingDetail
from rmqproto.errors import NotFoundError


def remapping_static_topic(call: Call, topic: Topic, options: MappingOptions) -> Changes:
    """Spreads the queues evenly over the named brokers, and moves as few as possible. Messages stay where they are;
    logical offsets continue after them. Files keep the old and the new mapping. If a broker fails midway, -mf with the
    new file and -fr true finishes the move.

    Examples:
      rmqadmin remappingStaticTopic -t LogicalTopic -b broker-a --dry-run
      rmqadmin remappingStaticTopic -t LogicalTopic -c DefaultCluster
    """
    name = topic.strip()

    def plan(before: Configs, brokers: list[str]) -> TopicRemappingDetail:
        if not before:
            raise NotFoundError("No topic route to do the remapping", hint="updateStaticTopic makes a static topic.")
        return remapped(name, brokers, before, call.now_ms())

    return change(call, name, options, plan, MappingWriter.remap, (OLD_LINE, OLD_LINE))  # mqadmin calls both files old
