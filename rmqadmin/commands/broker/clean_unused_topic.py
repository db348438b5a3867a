"""``cleanUnusedTopic``: deletes the queues of topics that a broker does not know."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import AllClusters, AnyCluster, BrokerAddr
from rmqadmin.cli.shared.cleaning import clean
from rmqadmin.core.changes import Changes


def clean_unused_topic(
    call: Call, broker_addr: BrokerAddr = None, cluster: AnyCluster = None, all_clusters: AllClusters = False
) -> Changes:
    """Deletes the files of topics that are not in the broker's table; topics without messages stay. Without -b and -c,
    mqadmin cleans up every cluster, and so does --output mqadmin.

    Examples:
      rmqadmin cleanUnusedTopic -b 127.0.0.1:10911
      rmqadmin cleanUnusedTopic -c DefaultCluster
      rmqadmin cleanUnusedTopic --all-clusters --dry-run
    """
    return clean(
        call, call.admin.clean_unused_topics, broker_addr, cluster, all_clusters=all_clusters,
        deletes="the files of unknown topics",
    )  # fmt: skip
