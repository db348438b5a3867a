"""``deleteKvConfig``: deletes one key of the name servers' key-value table."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import Key, Namespace
from rmqadmin.cli.shared.changing import change
from rmqadmin.core.changes import Changes
from rmqadmin.core.servers.key_values import delete_steps
from rmqproto.wording import counted


def delete_kv_config(call: Call, namespace: Namespace, key: Key) -> Changes:
    """Changes every name server of -n. As in mqadmin, a missing key is not an error.

    Examples:
      rmqadmin deleteKvConfig -s MY_NAMESPACE -k colour
      rmqadmin deleteKvConfig -s MY_NAMESPACE -k colour --dry-run
    """
    namespace, key = namespace.strip(), key.strip()
    steps = delete_steps(call.admin, namespace, key)
    if not call.dry_run:
        call.confirm(
            f"This deletes the key {key} from the namespace {namespace} of {counted(len(steps), 'name server')}.", key
        )
    return change(call, steps, lambda _done: "delete kv config from namespace success.\n")
