"""Topics with a fixed number of logical queues, wherever they are: made, extended, moved."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import Topic
from rmqadmin.cli.options.static_topic_options import NEW_LINE, OLD_LINE, MappingOptions, change
from rmqadmin.core.changes import Changes
from rmqadmin.core.topics.static_mapping import LOGICAL_QUEUES_MAX, Configs, extended, remapped
from rmqadmin.core.topics.static_topics import MappingWriter
from rmqproto.bodies.static_topics import TopicRemappingDetail
from rmqproto.errors import NotFoundError, UsageError


def update_static_topic(
    call: Call,
    topic: Topic,
    options: MappingOptions,
    total_queue_num: Annotated[
        int | None,
        typer.Option(
            "-qn",
            "--totalQueueNum",
            min=1,
            max=LOGICAL_QUEUES_MAX,
            help="How many logical queues; never fewer than now.",
        ),
    ] = None,
) -> Changes:
    """New queues go to the brokers with the fewest, among the named brokers and those that the topic is on. Files keep
    the old and the new mapping. -mf applies the mapping of such a file; mqadmin ignores -mf here.

    Examples:
      rmqadmin updateStaticTopic -t LogicalTopic -qn 8 -c DefaultCluster
      rmqadmin updateStaticTopic -t LogicalTopic -qn 12 -b broker-a --dry-run
    """
    name = topic.strip()

    def plan(before: Configs, brokers: list[str]) -> TopicRemappingDetail:
        if total_queue_num is None:
            raise UsageError("Missing required options: -qn/--totalQueueNum")
        return extended(name, total_queue_num, brokers, before, call.now_ms())

    return change(call, name, options, plan, MappingWriter.update, (OLD_LINE, NEW_LINE))


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
