"""``user rm``: deletes a user and its permissions."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.auth_options import EveryReplica, IfExists, UserName
from rmqadmin.cli.options.command_options import BrokerAddr
from rmqadmin.cli.shared.changing_access import undoable_access
from rmqadmin.core import targets
from rmqadmin.core.access.user_changes import delete_user_in_broker
from rmqadmin.core.changes import Changes, all_keep, plan_each
from rmqproto.errors import NotFoundError
from rmqproto.wording import counted


def user_rm(
    call: Call,
    name: UserName,
    broker_addr: BrokerAddr = None,
    cluster_name: EveryReplica = None,
    if_exists: IfExists = False,
) -> Changes:
    """This cannot be undone: the password is saved nowhere. `user edit --status disable` also locks the user out.

    Examples:
      rmqadmin user rm alice --dry-run
      rmqadmin user rm alice -c DefaultCluster --if-exists --yes
    """
    name = name.strip()
    addrs = targets.replicas(call.admin, broker_addr, cluster_name)
    steps = plan_each(addrs, lambda addr: delete_user_in_broker(call.admin, addr, name))
    if all_keep(steps) and not if_exists:
        raise NotFoundError(f"no broker has a user {name}", hint="With --if-exists this is not an error.")
    if not call.dry_run and not all_keep(steps):
        call.confirm(f"This deletes the user {name} from {counted(len(addrs), 'broker')}.", name)
    return undoable_access(call, steps)
