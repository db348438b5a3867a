"""``updateNamesrvConfig``: changes one property of every name server, and reads it back afterwards."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import Property, PropertyValue
from rmqadmin.cli.shared.changing import change
from rmqadmin.core.changes import Changes, Step, plan_each
from rmqadmin.core.servers.server_configs import plan_property


def update_namesrv_config(call: Call, key: Property, value: PropertyValue) -> Changes:
    """Changes every name server of -n. An unknown property is an error; mqadmin calls that a success, and so does
    --output mqadmin.

    Examples:
      rmqadmin updateNamesrvConfig -k orderMessageEnable -v true
      rmqadmin updateNamesrvConfig -n '127.0.0.1:9876' -k clusterTest -v false --dry-run
    """
    admin, key, value = call.admin, key.strip(), value.strip()

    def plan(addr: str) -> Step:
        return plan_property(
            f"name server {addr}", addr, key, value,
            read=admin.namesrv_config, write=admin.update_namesrv_config, is_checked=not call.as_mqadmin,
            listing=f"rmqadmin getNamesrvConfig -n {addr}", undo=["updateNamesrvConfig", "-n", addr],
        )  # fmt: skip

    named = "" if call.namesrv_option is None else f"[{', '.join(admin.namesrv_addrs)}]"
    return change(
        call,
        plan_each(admin.namesrv_addrs, plan),
        lambda _done: f"update name server config success!{named}\n{key} : {value}\n",
    )
