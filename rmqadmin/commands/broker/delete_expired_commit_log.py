"""``deleteExpiredCommitLog``: deletes expired commit log files at once."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import AllClusters, AnyCluster, BrokerAddr
from rmqadmin.cli.shared.cleaning import clean
from rmqadmin.core.changes import Changes


def delete_expired_commit_log(
    call: Call, broker_addr: BrokerAddr = None, cluster: AnyCluster = None, all_clusters: AllClusters = False
) -> Changes:
    """Deletes files older than the broker's fileReservedTime, with their messages. Brokers do this by themselves at the
    hour deleteWhen. Without -b and -c, mqadmin cleans up every cluster, and so does --output mqadmin.

    Examples:
      rmqadmin deleteExpiredCommitLog -b 127.0.0.1:10911
      rmqadmin deleteExpiredCommitLog -c DefaultCluster
      rmqadmin deleteExpiredCommitLog --all-clusters --dry-run
    """
    return clean(
        call, call.admin.delete_expired_commit_log, broker_addr, cluster, all_clusters=all_clusters,
        deletes="commit log files past their time",
    )  # fmt: skip
