"""``copyAcl``: copies users' permissions from one broker to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.auth_options import FromBroker, ToBroker
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.cli.shared.copying import CopiedKind, copy_between
from rmqadmin.core.access.acls import plan_acl
from rmqadmin.core.changes import Changes, Step
from rmqproto.bodies.acl import AclInfo

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


def copy_acl(
    call: Call,
    from_broker: FromBroker,
    to_broker: ToBroker,
    subjects: Annotated[
        str | None, Value.NAME, typer.Option("-s", "--subjects", metavar="User:NAME,...", help="These subjects only.")
    ] = None,
) -> Changes:
    """The users must exist on the other broker: use copyUser first. Entries of other resources stay there.

    Examples:
      rmqadmin copyAcl -f 127.0.0.1:10911 -t 127.0.0.1:10911 --dry-run
      rmqadmin copyAcl -f 127.0.0.1:10911 -t 127.0.0.1:10911 -s User:alice
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
