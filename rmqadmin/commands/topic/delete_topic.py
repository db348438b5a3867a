"""``deleteTopic``: deletes a topic from a cluster and from the name servers."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import OF_CONTEXT, OR_THE_ONLY, Topic
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.cli.shared.changing import change
from rmqadmin.core import targets
from rmqadmin.core.changes import Changes
from rmqadmin.core.topics.deletion import delete_everywhere, loss
from rmqproto.errors import NotFoundError, UsageError
from rmqproto.wording import counted


def delete_topic(
    call: Call,
    topic: Topic,
    cluster_name: Annotated[
        str | None,
        OF_CONTEXT,
        OR_THE_ONLY,
        Value.CLUSTER,
        typer.Option("-c", "--clusterName", metavar="CLUSTER", help="From this cluster; default: the only one."),
    ] = None,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Do not fail if the topic does not exist.")] = False,
) -> Changes:
    """Also deletes its messages and the groups' offsets in it. If producers still send to it, brokers that create
    topics by themselves create it again.

    Examples:
      rmqadmin deleteTopic -c DefaultCluster -t OldTopic
      rmqadmin deleteTopic -c DefaultCluster -t OldTopic --dry-run
      rmqadmin deleteTopic -c DefaultCluster -t OldTopic --if-exists --yes
    """
    topic = topic.strip()
    if not topic:
        raise UsageError("The specified topic is blank.")
    cluster_name = cluster_name.strip() if cluster_name else targets.only_cluster(call.admin.cluster_info(), "-c")
    steps = delete_everywhere(call.admin, topic, cluster_name)
    if not steps:
        if not if_exists and not call.as_mqadmin:
            raise NotFoundError(
                f"there is no topic {topic} in {cluster_name}", hint="With --if-exists this is not an error."
            )
        return Changes([], _deleted_text(topic, cluster_name))
    addrs = [step.target for step in steps if step.changes]
    if call.dry_run:
        call.notice(loss(call.admin, topic, addrs))
    else:
        lost = f": {loss(call.admin, topic, addrs)}" if call.can_ask else ""
        call.confirm(
            f"This deletes the topic {topic} from {counted(len(addrs), 'broker')} of {cluster_name}{lost}.", topic
        )
    return change(call, steps, lambda _done: _deleted_text(topic, cluster_name))


def _deleted_text(topic: str, cluster_name: str) -> str:
    return (
        f"delete topic [{topic}] from cluster [{cluster_name}] success.\n"
        f"delete topic [{topic}] from NameServer success.\n"
    )
