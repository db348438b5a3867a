"""Topics are deleted from a cluster and from the name servers."""

from typing import Annotated

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.changing import change, undoable
from rmqadmin.cli.options.command_options import ClusterName, TheCluster, Topic, TopicNames, topic_names
from rmqadmin.cli.options.common_options import option
from rmqadmin.core import targets
from rmqadmin.core.changes import Changes, FieldChange
from rmqadmin.core.topics.topic_changes import delete_everywhere, loss
from rmqproto.errors import NotFoundError
from rmqproto.wording import counted


def topic_delete(
    call: Call,
    topics: TopicNames,
    cluster_name: ClusterName = None,
    if_exists: Annotated[bool, option("--if-exists", "Do not fail if a topic does not exist.")] = False,
) -> Changes:
    """Also deletes their messages and the groups' offsets in them. Says first how many messages, and who reads them. If
    producers still send to a topic, brokers that create topics by themselves create it again.

      rmqadmin topic delete OldTopic --dry-run
      rmqadmin topic delete OldTopic OlderTopic --if-exists --yes
    """
    names = topic_names(topics)
    cluster = cluster_name or targets.only_cluster(call.admin.cluster_info(), "-c")
    steps_of = {name: delete_everywhere(call.admin, name, cluster) for name in names}
    missing = [name for name, steps in steps_of.items() if not steps]
    if missing and not if_exists:
        raise NotFoundError(
            f"there is no topic {', '.join(missing)} in {cluster}: nothing was deleted",
            hint="With --if-exists this is not an error.",
        )
    there = {name: steps for name, steps in steps_of.items() if steps}
    for name, steps in there.items():
        call.notice(f"{name}: {loss(call.admin, name, [step.target for step in steps if step.changes])}")
    all_steps = [
        msgspec.structs.replace(step, changes=[FieldChange("topic", name, None), *step.changes])
        for name, steps in there.items()
        for step in steps
    ]
    if there:
        what = "the topic" if len(there) == 1 else f"{counted(len(there), 'topic')},"
        name = next(iter(there)) if len(there) == 1 else cluster
        call.confirm(f"This deletes {what} {', '.join(there)}, from {cluster}.", name)
    return undoable(call, all_steps)


def delete_topic(
    call: Call,
    topic: Topic,
    cluster_name: Annotated[
        TheCluster, option("-c", "--clusterName", "From this cluster; default: the only one.")
    ] = None,
    if_exists: Annotated[bool, option("--if-exists", "Do not fail if the topic does not exist.")] = False,
) -> Changes:
    """Also deletes its messages and the groups' offsets in it. If producers still send to it, brokers that create
    topics by themselves create it again.

      rmqadmin deleteTopic -c DefaultCluster -t OldTopic
      rmqadmin deleteTopic -c DefaultCluster -t OldTopic --dry-run
      rmqadmin deleteTopic -c DefaultCluster -t OldTopic --if-exists --yes
    """
    cluster_name = cluster_name or targets.only_cluster(call.admin.cluster_info(), "-c")
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
