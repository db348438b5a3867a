"""``wipeWritePerm``: keeps producers away from a broker."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerName
from rmqadmin.core.servers.write_perm import WritePerms, change_write_perm, require_broker


def wipe_write_perm(call: Call, broker_name: BrokerName) -> WritePerms:
    """Producers switch to other brokers when they next ask for their routes, which they do every 30 s. Consumers keep
    reading.

    Examples:
      rmqadmin wipeWritePerm -b broker-a --dry-run
      rmqadmin wipeWritePerm -b broker-a --yes
    """
    name = broker_name.strip()
    if not call.as_mqadmin:
        require_broker(call.admin, name)
    if not call.dry_run:
        call.confirm(f"This takes the write permission from all topics of the broker {name}.", name)
    return change_write_perm(call.admin, name, may_write=False, dry_run=call.dry_run)
