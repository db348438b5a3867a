"""``topicClusterList``: lists the clusters of a topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import Topic
from rmqadmin.core.results import Result, Row, doc


class TopicCluster(Row, frozen=True):
    cluster: Annotated[str, doc("cluster name", key=True)]
    broker_names: Annotated[list[str], doc("the topic's brokers in it")]


class TopicClusters(Result, frozen=True):
    """Clusters of a topic."""

    row_type: ClassVar[type[Row]] = TopicCluster
    found: list[TopicCluster]

    def rows(self) -> Sequence[TopicCluster]:
        return self.found

    def mqadmin_text(self) -> str:
        return "".join(f"{row.cluster}\n" for row in self.found)


def topic_cluster_list(call: Call, topic: Topic) -> TopicClusters:
    """Looks at all brokers of the topic; mqadmin looks at the first one only.

    Examples:
      rmqadmin topicClusterList -t OrderTopic
      rmqadmin -o json topicClusterList -t OrderTopic
    """
    brokers = call.admin.topic_route(topic.strip()).broker_datas
    names = {broker.broker_name for broker in brokers}
    table = call.admin.cluster_info().cluster_addr_table
    rows = [
        TopicCluster(cluster=cluster, broker_names=sorted(names & set(table[cluster]))) for cluster in sorted(table)
    ]
    return TopicClusters([row for row in rows if row.broker_names])
