"""``addWritePerm``: lets producers write to a broker again."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerName
from rmqadmin.core.servers.write_perm import WritePerms, change_write_perm, require_broker


def add_write_perm(call: Call, broker_name: BrokerName) -> WritePerms:
    """Every topic of the broker becomes readable and writable, whatever it was before it was wiped.

    Examples:
      rmqadmin addWritePerm -b broker-a
      rmqadmin addWritePerm -b broker-a --dry-run
    """
    name = broker_name.strip()
    if not call.as_mqadmin:
        require_broker(call.admin, name)
    return change_write_perm(call.admin, name, may_write=True, dry_run=call.dry_run)
