"""``acl grant``: gives a user permissions."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.auth_options import EveryReplica, UserName, WhatActions, WhatResource
from rmqadmin.cli.options.command_options import BrokerAddr
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.cli.shared.changing_access import undoable_access
from rmqadmin.core import targets
from rmqadmin.core.access.grants import parse_actions, parse_resource, plan_grant
from rmqadmin.core.access.users import username_of
from rmqadmin.core.changes import REPLACE, Changes, plan_each
from rmqproto.access.resources import PolicyDecision


def acl_grant(
    call: Call,
    user: UserName,
    action: WhatActions,
    resource: WhatResource,
    broker_addr: BrokerAddr = None,
    cluster_name: EveryReplica = None,
    source_ips: Annotated[
        list[str] | None,
        Value.NAME,
        typer.Option("--from", metavar="ADDRESS", help="From this address or network; repeatable."),
    ] = None,
    is_denied: Annotated[bool, typer.Option("--deny", help="Deny it instead.")] = False,
) -> Changes:
    """Actions that the entry of this resource already allows stay allowed. If that entry denies, or is for other
    addresses, it is replaced, after the user's name was typed, or with --yes; --dry-run shows both.

    Examples:
      rmqadmin acl grant alice Pub,Sub Topic:OrderTopic --dry-run
      rmqadmin acl grant alice Sub 'Group:Order*' -c DefaultCluster --from 10.0.0.0/8
    """
    name, actions, what = username_of(user), parse_actions(action), parse_resource(resource)
    decision = PolicyDecision.DENY if is_denied else PolicyDecision.ALLOW
    addrs = targets.replicas(call.admin, broker_addr, cluster_name)
    steps = plan_each(
        addrs, lambda addr: plan_grant(call.admin, addr, name, actions, what, decision, source_ips or None)
    )
    replaced = [step.target for step in steps if step.action == REPLACE]
    if replaced and not call.dry_run:
        call.confirm(f"This replaces the entry of {what} for {name} on {', '.join(replaced)}.", name)
    return undoable_access(call, steps)
