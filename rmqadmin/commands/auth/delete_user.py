"""``deleteUser``: deletes a user from one broker, or from all of a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.auth_options import EveryReplica, Username
from rmqadmin.cli.options.command_options import BrokerAddr
from rmqadmin.cli.shared.changing_access import change_access
from rmqadmin.core import targets
from rmqadmin.core.access.user_changes import delete_user_in_broker
from rmqadmin.core.changes import Changes, all_keep, plan_each
from rmqproto.errors import NotFoundError
from rmqproto.wording import counted


def delete_user(
    call: Call,
    username: Username,
    broker_addr: BrokerAddr = None,
    cluster_name: EveryReplica = None,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Do not fail if the user does not exist.")] = False,
) -> Changes:
    """Its ACL is deleted too. Each broker keeps its own users.

    Examples:
      rmqadmin deleteUser -c DefaultCluster -u alice --dry-run
      rmqadmin deleteUser -b 127.0.0.1:10911 -u alice --if-exists --yes
    """
    admin, name = call.admin, username.strip()
    addrs = targets.replicas(admin, broker_addr, cluster_name)
    steps = plan_each(addrs, lambda addr: delete_user_in_broker(admin, addr, name))
    if all_keep(steps) and not if_exists and not call.as_mqadmin:
        raise NotFoundError(f"no broker has a user {name}", hint="With --if-exists this is not an error.")
    if not call.dry_run:
        call.confirm(f"This deletes the user {name} from {counted(len(addrs), 'broker')}.", name)
    return change_access(call, steps, lambda done: "".join(f"delete user to {addr} success.\n" for addr in done))
