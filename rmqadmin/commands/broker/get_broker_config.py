"""``getBrokerConfig``: shows the configuration of a broker, or of all of a cluster."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, EveryReplicaToo
from rmqadmin.core.servers.server_configs import Configs, read_configs, replica_headings


def get_broker_config(call: Call, broker_addr: BrokerAddr = None, cluster_name: EveryReplicaToo = None) -> Configs:
    """With -c, shows every master and slave of the cluster.

    Examples:
      rmqadmin getBrokerConfig -b 127.0.0.1:10911
      rmqadmin getBrokerConfig -c DefaultCluster --output wide
    """
    wanted = replica_headings(call.admin, broker_addr, cluster_name)
    return read_configs(wanted, call.admin.broker_config, as_mqadmin=call.as_mqadmin, mqadmin_end="\n")
