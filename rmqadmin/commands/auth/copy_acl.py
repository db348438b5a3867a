"""``copyAcl``: copies users' permissions from one broker to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rmqadmin.call import Call
from rmqadmin.core.access.acls import plan_acl
from rmqadmin.core.changes import Changes, Step, plan_each
from rmqadmin.options.auth_options import FromBroker, ToBroker
from rmqadmin.shared.changing import change
from rmqclient.addresses import split_address
from rmqproto.bodies.acl import AclInfo
from rmqproto.errors import NotFoundError

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


def copy_acl(
    call: Call,
    from_broker: FromBroker,
    to_broker: ToBroker,
    subjects: Annotated[
        str | None, typer.Option("-s", "--subjects", metavar="User:NAME,...", help="These subjects only.")
    ] = None,
) -> Changes:
    """The users must exist on the other broker: use copyUser first. Entries of other resources stay there.

    Examples:
      rmqadmin copyAcl -f 127.0.0.1:10911 -t 127.0.0.1:10911 --dry-run
      rmqadmin copyAcl -f 127.0.0.1:10911 -t 127.0.0.1:10911 -s User:alice
    """
    admin, source, target = call.admin, from_broker.strip(), to_broker.strip()
    for addr in (source, target):
        split_address(addr)
    acls = admin.acls(source) if subjects is None else _named(admin, source, subjects)
    if not acls:
        admin.acls(target)  # as it is not asked otherwise: a wrong address must not look like success
        call.notice(f"there is no ACL to copy on {source}")
    by_target = {f"{target} {acl.subject}": acl for acl in acls}

    def text(done: list[str]) -> str:
        copied = [acl.subject for name, acl in by_target.items() if name in done]
        return "".join(f"copy acl of {subject} from {source} to {target} success.\n" for subject in copied)

    return change(call, plan_each(by_target, lambda name: _plan(admin, target, by_target[name])), text)


def _named(admin: AdminClient, addr: str, subjects: str) -> list[AclInfo]:
    found = []
    for subject in filter(None, (part.strip() for part in subjects.split(","))):
        acl = admin.acl(addr, subject)
        if acl is None:
            raise NotFoundError(f"the broker {addr} has no ACL of {subject}")
        found.append(acl)
    return found


def _plan(admin: AdminClient, addr: str, acl: AclInfo) -> Step:
    act = admin.create_acl if admin.acl(addr, acl.subject) is None else admin.update_acl
    return plan_acl(admin, addr, acl, act, target=f"{addr} {acl.subject}")
