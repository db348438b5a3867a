"""``removeBroker``: stops a broker of a broker container."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import ContainerAddr
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.changes import Changes, FieldChange, Step, carry_out
from rmqclient.addresses import split_address
from rmqproto.errors import UsageError
from rmqproto.java.java_numbers import LONG_MAX
from rmqproto.java.whole_numbers import whole_number


def remove_broker(
    call: Call,
    container_addr: ContainerAddr,
    broker_identity: Annotated[
        str, Value.NAME, typer.Option("-b", "--brokerIdentity", metavar="CLUSTER:NAME:ID", help="The broker to stop.")
    ],
) -> Changes:
    """The broker's files stay. Waits up to 20 s for the broker to stop.

    Examples:
      rmqadmin removeBroker -c 127.0.0.1:10811 -b DefaultCluster:broker-b:0 --dry-run
      rmqadmin removeBroker -c 127.0.0.1:10811 -b DefaultCluster:broker-b:0 --yes
    """
    addr = container_addr.strip()
    split_address(addr)
    parts = [part.strip() for part in broker_identity.split(":")]
    broker_id = whole_number(parts[-1], LONG_MAX)
    if len(parts) != 3 or broker_id is None:
        raise UsageError(
            f"{broker_identity!r} does not name a broker", hint="Write CLUSTER:NAME:ID, with 0 for a master."
        )
    cluster, name, _ = parts
    if not call.dry_run:
        call.confirm(f"This stops the broker {name} ({broker_id}) of the container {addr}.", name)
    changes = [FieldChange("broker", broker_identity.strip(), None)]
    step = Step(addr, "delete", changes, lambda: call.admin.remove_broker(addr, cluster, name, broker_id))
    rows = carry_out([step], dry_run=call.dry_run)
    return Changes(rows, None if call.dry_run else f"remove broker from {addr} success\n")
