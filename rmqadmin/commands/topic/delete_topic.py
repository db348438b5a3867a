"""``deleteTopic``: from a cluster and from the name servers."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.call import Call
from rmqadmin.core import targets
from rmqadmin.core.changes import Changes
from rmqadmin.core.topics.deletion import delete_in_broker, delete_in_namesrvs
from rmqadmin.core.topics.topic_config import read_topic
from rmqadmin.options.command_options import OF_CONTEXT, Topic
from rmqadmin.shared.changing import change
from rmqproto.errors import NotFoundError


def delete_topic(
    call: Call,
    topic: Topic,
    cluster_name: Annotated[
        str, OF_CONTEXT, typer.Option("-c", "--clusterName", metavar="CLUSTER", help="Of this cluster.")
    ],
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Do not fail if the topic does not exist.")] = False,
) -> Changes:
    """Its messages, and the groups' offsets in it, are deleted too. If producers still send to it, brokers that create
    topics by themselves create it again.

    Examples:
      rmqadmin deleteTopic -c DefaultCluster -t OldTopic
      rmqadmin deleteTopic -c DefaultCluster -t OldTopic --dry-run
      rmqadmin deleteTopic -c DefaultCluster -t OldTopic --if-exists --yes
    """
    topic, cluster_name = topic.strip(), cluster_name.strip()
    admin = call.admin
    addrs = targets.masters(admin, None, cluster_name)
    before = [read_topic(admin, addr, topic) for addr in addrs]
    has_route = targets.find_route(admin, topic) is not None
    if not has_route and not any(before):
        if not if_exists and not call.as_mqadmin:
            raise NotFoundError(
                f"there is no topic {topic} in {cluster_name}", hint="With --if-exists this is not an error."
            )
        return Changes([], _deleted_text(topic, cluster_name))
    if not call.dry_run:
        call.confirm(f"This deletes the topic {topic} from {len(addrs)} brokers of {cluster_name}.", topic)
    steps = [
        *(delete_in_broker(admin, addr, topic, config) for addr, config in zip(addrs, before, strict=True)),
        *delete_in_namesrvs(admin, topic, cluster_name, has_route=has_route),
    ]
    return change(call, steps, lambda _done: _deleted_text(topic, cluster_name))


def _deleted_text(topic: str, cluster_name: str) -> str:
    return (
        f"delete topic [{topic}] from cluster [{cluster_name}] success.\n"
        f"delete topic [{topic}] from NameServer success.\n"
    )
