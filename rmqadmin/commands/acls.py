"""What users may do: first the noun ``acl``, then mqadmin's commands."""

from collections.abc import Callable
from typing import Annotated

from rmqadmin.cli.call import Call
from rmqadmin.cli.changing import CopiedKind, change_access, copy_between, line_each, undoable_access
from rmqadmin.cli.options.auth_options import (
    EntryOptions,
    FromBroker,
    IfExists,
    Subject,
    ToBroker,
    UserName,
    WhatActions,
    WhatResource,
)
from rmqadmin.cli.options.command_options import Masters, Replicas
from rmqadmin.cli.options.common_options import Value, argument, option
from rmqadmin.core.access.acls import (
    Acls,
    delete_acl_in_broker,
    parse_actions,
    parse_resource,
    plan_acl,
    plan_grant,
    plan_revocation,
    wished_acl,
)
from rmqadmin.core.access.foretold import AskedAction, ForetoldAccess, access_question, foretell
from rmqadmin.core.access.users import username_of
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.changes import REPLACE, Changes, Step, all_keep, plan_each
from rmqproto.access.resources import PolicyDecision
from rmqproto.bodies.acl import AclInfo
from rmqproto.errors import NotFoundError
from rmqproto.wording import counted


def acl_ls(
    call: Call,
    where: Masters,
    user: Annotated[str | None, argument("Only users with this in their names.", metavar="[TEXT]")] = None,
    resource: Annotated[
        str | None, option("--resource", "Only resources with this in their names.", metavar="TEXT")
    ] = None,
) -> Acls:
    """Each broker keeps its own ACL. Users without any entry are not shown.

    rmqadmin acl ls
    rmqadmin acl ls alice -c DefaultCluster --resource Topic:
    """
    return list_acl(call, where, user, resource)


def acl_grant(
    call: Call,
    user: UserName,
    action: WhatActions,
    resource: WhatResource,
    where: Replicas,
    source_ips: Annotated[
        list[str] | None, Value.NAME, option("--from", "From this address or network; repeatable.", metavar="ADDRESS")
    ] = None,
    is_denied: Annotated[bool, option("--deny", "Deny it instead.")] = False,
) -> Changes:
    """Actions that the entry of this resource already allows stay allowed. If that entry denies, or is for other
    addresses, it is replaced, after the user's name was typed, or with --yes; --dry-run shows both.

      rmqadmin acl grant alice Pub,Sub Topic:OrderTopic --dry-run
      rmqadmin acl grant alice Sub 'Group:Order*' -c DefaultCluster --from 10.0.0.0/8
    """
    name, actions, what = username_of(user), parse_actions(action), parse_resource(resource)
    decision = PolicyDecision.DENY if is_denied else PolicyDecision.ALLOW
    addrs = where.addrs(call.admin)
    steps = plan_each(
        addrs, lambda addr: plan_grant(call.admin, addr, name, actions, what, decision, source_ips or None)
    )
    replaced = [step.target for step in steps if step.action == REPLACE]
    if replaced:
        call.confirm(f"This replaces the entry of {what} for {name} on {', '.join(replaced)}.", name)
    return undoable_access(call, steps)


def acl_revoke(
    call: Call,
    user: UserName,
    action: WhatActions,
    resource: WhatResource,
    where: Replicas,
    if_exists: IfExists = False,
) -> Changes:
    """Removes actions from the entry of exactly this resource; All removes the entry itself. Broader entries still
    apply: `acl can` says which one then decides.

      rmqadmin acl revoke alice Pub Topic:OrderTopic --dry-run
      rmqadmin acl revoke alice All Topic:OrderTopic -c DefaultCluster --if-exists --yes
    """
    name, actions, what = username_of(user), parse_actions(action), parse_resource(resource)
    addrs = where.addrs(call.admin)
    steps = plan_each(addrs, lambda addr: plan_revocation(call.admin, addr, name, actions, what))
    if all_keep(steps) and not if_exists:
        raise NotFoundError(
            f"{name} has no entry of {what} with such an action", hint=f"`rmqadmin acl ls {name}` lists them."
        )
    if not all_keep(steps):
        call.confirm(f"This takes {action} of {what} from {name} on {counted(len(addrs), 'broker')}.", name)
    return undoable_access(call, steps)


def acl_can(
    call: Call,
    user: UserName,
    action: Annotated[AskedAction, Value.ACTION, argument("One action.")],
    resource: Annotated[str, Value.RESOURCE, argument("Topic:, Group: or Cluster: and a name.")],
    where: Masters,
    source: Annotated[
        str | None, Value.NAME, option("--from", "The user's address, as the broker sees it.", metavar="ADDRESS")
    ] = None,
) -> ForetoldAccess:
    """Computed from each broker's users, policies and settings; nothing is tried. Apache's brokers decide alike.
    Actions: Pub, Sub, Create, Update, Delete, Get, List. Exit status 0: every broker says yes. 1: one does not.

      rmqadmin acl can alice Pub Topic:OrderTopic
      rmqadmin acl can alice Sub Group:OrderGroup -c DefaultCluster --from 10.0.0.5
    """
    question = access_question(user, action, resource, source)
    answers = call.answers.of(lambda addr: foretell(call.admin, addr, question), where.addrs(call.admin))
    return ForetoldAccess([*answers.values()])


def list_acl(
    call: Call,
    where: Masters,
    subject: Annotated[
        str | None, option("-s", "--subject", "Only subjects with this in their names.", metavar="TEXT")
    ] = None,
    resource: Annotated[
        str | None, option("-r", "--resource", "Only resources with this in their names.", metavar="TEXT")
    ] = None,
) -> Acls:
    """With -c, asks every master of the cluster. Users without any ACL are not shown.

    rmqadmin listAcl -b 127.0.0.1:10911
    rmqadmin listAcl -c DefaultCluster -s alice -r Topic:
    """
    who = None if subject is None else subject.strip()
    what = None if resource is None else resource.strip()
    return Acls(call.answers.of(lambda addr: call.admin.acls(addr, who, what), where.addrs(call.admin)))


def get_acl(call: Call, subject: Subject, where: Masters) -> Acls:
    """With -c, asks every master of the cluster. Each broker keeps its own ACL.

    rmqadmin getAcl -b 127.0.0.1:10911 -s User:alice
    rmqadmin getAcl -c DefaultCluster -s User:alice --output wide
    """
    answers = call.answers.of(lambda addr: call.admin.acl(addr, subject), where.addrs(call.admin))
    return Acls({addr: [acl] if acl else [] for addr, acl in answers.items()})


def create_acl(call: Call, entries: EntryOptions, where: Replicas) -> Changes:
    """Adds one entry for each resource. It replaces an entry that the user has for the same resource; other entries
    stay.

      rmqadmin createAcl -c DefaultCluster -s User:alice -r Topic:OrderTopic -a Pub,Sub -d Allow
      rmqadmin createAcl -b 127.0.0.1:10911 -s User:alice -r 'Group:Order*' -a Sub -d Allow -i 10.0.0.0/8 --dry-run
    """
    return _put(call, entries, where, call.admin.create_acl, "create acl to {} success.\n")


def update_acl(call: Call, entries: EntryOptions, where: Replicas) -> Changes:
    """Sets one entry for each resource; the entries of other resources stay. Brokers treat it as createAcl.

    rmqadmin updateAcl -c DefaultCluster -s User:alice -r Topic:OrderTopic -a Pub,Sub -d Allow
    rmqadmin updateAcl -b 127.0.0.1:10911 -s User:alice -r 'Group:Order*' -a Sub -d Allow -i 10.0.0.0/8 --dry-run
    """
    return _put(call, entries, where, call.admin.update_acl, "update acl to {} success.\n")


def _put(call: Call, entries: EntryOptions, where: Replicas, act: Callable[[str, AclInfo], None], line: str) -> Changes:
    wished = wished_acl(entries.subject, entries.resources, entries.actions, entries.decision, entries.source_ip)
    steps = plan_each(where.addrs(call.admin), lambda addr: plan_acl(call.admin, addr, wished, act))
    return change_access(call, steps, line_each(line))


def delete_acl(
    call: Call,
    subject: Subject,
    where: Replicas,
    resource: Annotated[
        str | None, Value.NAME, option("-r", "--resources", "The entry of this resource only.", metavar="TYPE:NAME")
    ] = None,
) -> Changes:
    """The user stays. Each broker keeps its own ACL.

    rmqadmin deleteAcl -c DefaultCluster -s User:alice -r Topic:OrderTopic
    rmqadmin deleteAcl -b 127.0.0.1:10911 -s User:alice --dry-run
    """
    admin = call.admin
    what = None if resource is None else resource.strip()
    steps = plan_each(where.addrs(admin), lambda addr: delete_acl_in_broker(admin, addr, subject, what))
    if not call.dry_run:
        scope = "the ACL" if what is None else f"the entry {what} of the ACL"
        call.confirm(f"This deletes {scope} of {subject} from {counted(len(steps), 'broker')}.", subject)
    return change_access(call, steps, line_each("delete acl to {} success.\n"))


def copy_acl(
    call: Call,
    from_broker: FromBroker,
    to_broker: ToBroker,
    subjects: Annotated[
        str | None, Value.NAME, option("-s", "--subjects", "These subjects only.", metavar="User:NAME,...")
    ] = None,
) -> Changes:
    """The users must exist on the other broker: use copyUser first. Entries of other resources stay there.

    rmqadmin copyAcl -f 127.0.0.1:10911 -t 127.0.0.1:10921 --dry-run
    rmqadmin copyAcl -f 127.0.0.1:10911 -t 127.0.0.1:10921 -s User:alice
    """
    return copy_between(call, _ACL, from_broker, to_broker, subjects)


def _plan(admin: AdminClient, addr: str, acl: AclInfo) -> Step:
    act = admin.create_acl if admin.acl(addr, acl.subject) is None else admin.update_acl
    return plan_acl(admin, addr, acl, act, target=f"{addr} {acl.subject}")


_ACL: CopiedKind[AclInfo] = CopiedKind(
    noun="ACL",
    noun_of_one="ACL of",
    name_of=lambda acl: acl.subject,
    all=lambda admin, addr: admin.acls(addr),
    one=lambda admin, addr, subject: admin.acl(addr, subject),
    plan=_plan,
)
