"""``addBroker``: starts a broker in a broker container."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import ContainerAddr
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.changes import Changes, FieldChange, Step, carry_out
from rmqclient.addresses import split_address


def add_broker(
    call: Call,
    container_addr: ContainerAddr,
    config_path: Annotated[
        str,
        Value.FILE,
        typer.Option("-b", "--brokerConfigPath", metavar="FILE", help="Its configuration, on the container's machine."),
    ],
) -> Changes:
    """Containers are Apache's processes that hold several brokers. Waits up to 20 s for the broker to start.

    Examples:
      rmqadmin addBroker -c 127.0.0.1:10811 -b /etc/rocketmq/broker-b.conf --dry-run
      rmqadmin addBroker -c 127.0.0.1:10811 -b /etc/rocketmq/broker-b.conf
    """
    addr, path = container_addr.strip(), config_path.strip()
    split_address(addr)
    step = Step(addr, "create", [FieldChange("broker", None, path)], partial(call.admin.add_broker, addr, path))
    rows = carry_out([step], dry_run=call.dry_run)
    return Changes(rows, None if call.dry_run else f"add broker to {addr} success\n")
