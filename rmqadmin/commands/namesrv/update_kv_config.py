"""``updateKvConfig``: sets one value of the name servers' key-value table."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import Key, Namespace
from rmqadmin.cli.shared.changing import change
from rmqadmin.core.changes import Changes
from rmqadmin.core.servers.key_values import put_steps


def update_kv_config(
    call: Call,
    namespace: Namespace,
    key: Key,
    value: Annotated[str, typer.Option("-v", "--value", metavar="TEXT", help="The value.")],
) -> Changes:
    """Changes every name server of -n. updateOrderConf writes the namespace ORDER_TOPIC_CONFIG.

    Examples:
      rmqadmin updateKvConfig -s MY_NAMESPACE -k colour -v green
      rmqadmin updateKvConfig -s MY_NAMESPACE -k colour -v green --dry-run
    """
    steps = put_steps(call.admin, namespace.strip(), key.strip(), value.strip())
    return change(call, steps, lambda _done: "create or update kv config to namespace success.\n")
