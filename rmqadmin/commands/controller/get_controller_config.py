"""``getControllerConfig``: shows the configuration of controllers."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.controller_options import ControllerAddrs
from rmqadmin.core.servers.server_configs import Configs, read_configs
from rmqclient.addresses import parse_addresses


def get_controller_config(call: Call, controller_address: ControllerAddrs) -> Configs:
    """Shows every controller that -a names.

    Examples:
      rmqadmin getControllerConfig -a 127.0.0.1:9878
      rmqadmin getControllerConfig -a '127.0.0.1:9878;127.0.0.1:9878' --output wide
    """
    wanted = [(addr, f"============{addr}============\n") for addr in parse_addresses(controller_address)]
    return read_configs(wanted, call.admin.controller_config, as_mqadmin=call.as_mqadmin)
