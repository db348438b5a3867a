"""``updateControllerConfig``: changes one property of controllers, and reads it back afterwards."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import Property, PropertyValue
from rmqadmin.cli.options.controller_options import ControllerAddrs
from rmqadmin.cli.shared.changing import change
from rmqadmin.core.changes import Changes, Step, plan_each
from rmqadmin.core.servers.server_configs import plan_property
from rmqclient.addresses import parse_addresses


def update_controller_config(
    call: Call, controller_address: ControllerAddrs, key: Property, value: PropertyValue
) -> Changes:
    """Changes every controller that -a names. An unknown property is an error; mqadmin calls that a success, and so
    does --output mqadmin.

    Examples:
      rmqadmin updateControllerConfig -a 127.0.0.1:9878 -k scanNotActiveBrokerInterval -v 3000
      rmqadmin updateControllerConfig -a 127.0.0.1:9878 -k scanNotActiveBrokerInterval -v 3000 --dry-run
    """
    admin, key, value = call.admin, key.strip(), value.strip()
    addrs = parse_addresses(controller_address)

    def plan(addr: str) -> Step:
        return plan_property(
            f"controller {addr}", addr, key, value,
            read=admin.controller_config, write=admin.update_controller_config, is_checked=not call.as_mqadmin,
            listing=f"rmqadmin getControllerConfig -a {addr}", undo=["updateControllerConfig", "-a", addr],
        )  # fmt: skip

    text = f"update controller config success![{', '.join(addrs)}]\n{key} : {value}\n"
    return change(call, plan_each(addrs, plan), lambda _done: text)
