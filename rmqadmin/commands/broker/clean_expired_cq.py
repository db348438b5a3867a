"""``cleanExpiredCQ``: deletes consume queue files whose messages are gone."""

from __future__ import annotations

from rmqadmin.call import Call
from rmqadmin.core.changes import Changes
from rmqadmin.options.command_options import AllClusters, AnyCluster, BrokerAddr
from rmqadmin.shared.cleaning import clean


def clean_expired_cq(
    call: Call, broker_addr: BrokerAddr = None, cluster: AnyCluster = None, all_clusters: AllClusters = False
) -> Changes:
    """Brokers do this by themselves every ten seconds. Without -b and -c, mqadmin cleans up every cluster, and so does
    --output mqadmin.

    Examples:
      rmqadmin cleanExpiredCQ -b 127.0.0.1:10911
      rmqadmin cleanExpiredCQ -c DefaultCluster
      rmqadmin cleanExpiredCQ --all-clusters --dry-run
    """
    return clean(call, call.admin.clean_expired_consume_queues, broker_addr, cluster, all_clusters=all_clusters)
