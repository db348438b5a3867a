"""``cleanExpiredCQ``: deletes consume queue files whose messages are gone."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import AllClusters, AnyCluster, BrokerAddr
from rmqadmin.cli.shared.cleaning import clean
from rmqadmin.core.changes import Changes


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
