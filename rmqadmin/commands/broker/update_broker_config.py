"""``updateBrokerConfig``: changes one property, and reads it back afterwards, because brokers report success for
properties that they do not understand."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, ClusterName, Property, PropertyValue
from rmqadmin.cli.shared.changing import change
from rmqadmin.core import targets
from rmqadmin.core.changes import Changes, plan_each
from rmqadmin.core.servers.broker_properties import plan_broker_property


def update_broker_config(
    call: Call,
    key: Property,
    value: PropertyValue,
    broker_addr: BrokerAddr = None,
    cluster_name: ClusterName = None,
    update_all_broker: Annotated[
        str | None, typer.Option("-a", "--updateAllBroker", help="With -c and any value: slaves too.")
    ] = None,
) -> Changes:
    """Reads the value back: an unknown property, or a value that a broker does not understand, is an error. mqadmin
    calls that a success, and so does --output mqadmin.

    Examples:
      rmqadmin updateBrokerConfig -b 127.0.0.1:10911 -k traceOn -v true
      rmqadmin updateBrokerConfig -b 127.0.0.1:10911 -k brokerPermission -v R --dry-run
      rmqadmin updateBrokerConfig -c DefaultCluster -k fileReservedTime -v 48 --dry-run
    """
    admin, key, value = call.admin, key.strip(), value.strip()
    find = targets.masters if update_all_broker is None else targets.replicas
    steps = plan_each(
        find(admin, broker_addr, cluster_name),
        lambda addr: plan_broker_property(admin, addr, key, value, is_checked=not call.as_mqadmin),
    )
    return change(call, steps, lambda done: "".join(f"update broker config success, {addr}\n" for addr in done))
