"""``getNamesrvConfig``: shows the configuration of the name servers."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.core.servers.server_configs import Configs, read_configs


def get_namesrv_config(call: Call) -> Configs:
    """Shows every name server of -n.

    Examples:
      rmqadmin getNamesrvConfig
      rmqadmin getNamesrvConfig -n '127.0.0.1:9876' --output wide
    """
    wanted = [(addr, f"============{addr}============\n") for addr in call.admin.namesrv_addrs]
    return read_configs(wanted, call.admin.namesrv_config, as_mqadmin=call.as_mqadmin)
