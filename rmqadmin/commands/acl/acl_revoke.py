"""``acl revoke``: takes permissions from a user."""

from __future__ import annotations

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.auth_options import EveryReplica, IfExists, UserName, WhatActions, WhatResource
from rmqadmin.cli.options.command_options import BrokerAddr
from rmqadmin.cli.shared.changing_access import undoable_access
from rmqadmin.core import targets
from rmqadmin.core.access.grants import parse_actions, parse_resource, plan_revocation
from rmqadmin.core.access.users import username_of
from rmqadmin.core.changes import Changes, all_keep, plan_each
from rmqproto.errors import NotFoundError
from rmqproto.wording import counted


def acl_revoke(
    call: Call,
    user: UserName,
    action: WhatActions,
    resource: WhatResource,
    broker_addr: BrokerAddr = None,
    cluster_name: EveryReplica = None,
    if_exists: IfExists = False,
) -> Changes:
    """Removes actions from the entry of exactly this resource; All removes the entry itself. Broader entries still
    apply: `acl can` says which one then decides.

    Examples:
      rmqadmin acl revoke alice Pub Topic:OrderTopic --dry-run
      rmqadmin acl revoke alice All Topic:OrderTopic -c DefaultCluster --if-exists --yes
    """
    name, actions, what = username_of(user), parse_actions(action), parse_resource(resource)
    addrs = targets.replicas(call.admin, broker_addr, cluster_name)
    steps = plan_each(addrs, lambda addr: plan_revocation(call.admin, addr, name, actions, what))
    if all_keep(steps) and not if_exists:
        raise NotFoundError(
            f"{name} has no entry of {what} with such an action", hint=f"`rmqadmin acl ls {name}` lists them."
        )
    if not call.dry_run and not all_keep(steps):
        call.confirm(f"This takes {action} of {what} from {name} on {counted(len(addrs), 'broker')}.", name)
    return undoable_access(call, steps)
