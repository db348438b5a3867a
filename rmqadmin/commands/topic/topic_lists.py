"""Lists of topics, and of the clusters that one lives in."""

from collections.abc import Sequence
from typing import Annotated

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import ShowAll, Topic
from rmqadmin.cli.options.common_options import argument, option
from rmqadmin.core import targets
from rmqadmin.core.mqadmin_text import cut
from rmqadmin.core.results import FoundRows, ResultOf, Row, doc
from rmqadmin.core.servers.broker_answers import ask_each
from rmqproto.errors import RocketMQError
from rmqproto.names import DLQ_PREFIX, RETRY_PREFIX


class TopicName(Row, frozen=True):
    topic: Annotated[str, doc("topic name", key=True)]


class Topics(ResultOf[TopicName], frozen=True):
    """Without -c: the topics of the name server."""

    topics: list[str]

    def rows(self) -> Sequence[TopicName]:
        return [TopicName(topic=topic) for topic in sorted(self.topics)]

    def mqadmin_text(self) -> str:
        return "".join(f"{topic}\n" for topic in sorted(self.topics))


def known_topics(call: Call) -> list[str]:
    """All topics. Remembers them, and the groups that have retry topics, for completion. A notice if there is no
    broker."""
    topics = call.admin.topic_list()
    if not topics:
        call.notice_if_no_broker()
    call.remember("topic", topics)
    call.remember("group", (topic[len(RETRY_PREFIX) :] for topic in topics if topic.startswith(RETRY_PREFIX)))
    return topics


class TopicGroup(Row, frozen=True):
    cluster: Annotated[str | None, doc("cluster of the topic's first broker", minor=True)]
    topic: Annotated[str, doc("topic name", key=True)]
    group: Annotated[str | None, doc("a group that consumes the topic or has offsets in it", vital=True)]


class TopicGroups(FoundRows[TopicGroup], frozen=True):
    """With -c: topics with their clusters and the groups that consume them."""

    def mqadmin_text(self) -> str:
        lines = [f"{'#Cluster Name':20}  {'#Topic':48}  {'#Consumer Group':48}\n"]
        lines += [
            f"{cut(row.cluster, 20):20}  {cut(row.topic, 64):64}  {cut(row.group, 64):64}\n" for row in self.found
        ]
        return "".join(lines)


def topic_list(
    call: Call,
    cluster_model: Annotated[
        bool, option("-c", "--clusterModel", "Also show clusters and groups: two requests a topic.")
    ] = False,
    show_all: ShowAll = False,
) -> Topics | TopicGroups:
    """Includes retry (%RETRY%), dead-letter (%DLQ%) and system topics; -c leaves out the first two. A terminal shows
    retry and system topics only with --all.

      rmqadmin topicList
      rmqadmin topicList -c -n 127.0.0.1:9876
      rmqadmin -o json topicList
    """
    topics = known_topics(call)
    if not cluster_model:
        return Topics(call.own_topics(topics, show_all=show_all))
    plain = [topic for topic in sorted(topics) if not topic.startswith((RETRY_PREFIX, DLQ_PREFIX))]
    plain = call.own_topics(plain, show_all=show_all)
    with call.counting("topics") as told:
        found = ask_each(lambda topic: _groups_of(call, topic), plain, told)
    return TopicGroups([row for rows in found for row in rows])


def _groups_of(call: Call, topic: str) -> list[TopicGroup]:
    route = targets.find_route(call.admin, topic)
    if route is None or not route.broker_datas:
        return [TopicGroup(cluster=None, topic=topic, group=None)]
    addrs = targets.selected_addrs(route.broker_datas)
    try:
        answers = call.answers.of(lambda addr: call.admin.groups_of_topic(addr, topic), addrs)
    except RocketMQError:
        answers = {}  # no broker of the topic answers; the command reports that at the end
    groups = {group for answer in answers.values() for group in answer}
    found: list[str | None] = [*sorted(groups)] or [None]
    return [TopicGroup(cluster=route.broker_datas[0].cluster, topic=topic, group=group) for group in found]


def topic_ls(
    call: Call,
    text: Annotated[str | None, argument("Only topics with this in their names.", metavar="[TEXT]")] = None,
    show_all: ShowAll = False,
) -> Topics:
    """A terminal shows retry and system topics only with --all; a pipe gets all of them.

    rmqadmin topic ls
    rmqadmin topic ls Order --output name
    """
    found = [topic for topic in known_topics(call) if text is None or text.strip() in topic]
    return Topics(call.own_topics(found, show_all=show_all))


class TopicCluster(Row, frozen=True):
    cluster: Annotated[str, doc("cluster name", key=True)]
    broker_names: Annotated[list[str], doc("the topic's brokers in it")]


class TopicClusters(FoundRows[TopicCluster], frozen=True):
    """Clusters of a topic."""

    def mqadmin_text(self) -> str:
        return "".join(f"{row.cluster}\n" for row in self.found)


def topic_cluster_list(call: Call, topic: Topic) -> TopicClusters:
    """Looks at all brokers of the topic; mqadmin looks at the first one only.

    rmqadmin topicClusterList -t OrderTopic
    rmqadmin -o json topicClusterList -t OrderTopic
    """
    brokers = call.admin.topic_route(topic).broker_datas
    names = {broker.broker_name for broker in brokers}
    table = call.admin.cluster_info().cluster_addr_table
    rows = [
        TopicCluster(cluster=cluster, broker_names=sorted(names & set(table[cluster]))) for cluster in sorted(table)
    ]
    return TopicClusters([row for row in rows if row.broker_names])
