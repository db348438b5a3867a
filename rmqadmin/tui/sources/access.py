"""Users and ACL of one broker. Each broker has its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.tui.sources.found import Found
from rmqproto.bodies.acl import AclEntry, UserInfo
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError

_USER = "User:"
_SWITCHES = {"authenticationEnabled": "authentication", "authorizationEnabled": "authorization", "aclEnable": "ACL 1.0"}
"""Keys of a broker's configuration, and what users call them."""

_USERS, _ACLS = ("users", "authenticationMetadataProvider"), ("ACL", "authorizationMetadataProvider")
"""Each kind of entry, and the key of the broker's configuration that says where entries are kept."""

_T = TypeVar("_T")


class Grant(msgspec.Struct, frozen=True):
    """One entry of a subject's policies, or a subject without any; ``user`` None if the broker lists none."""

    subject: str
    user: UserInfo | None
    policy_type: str | None = None
    entry: AclEntry | None = None


class Access(msgspec.Struct, frozen=True):
    """``enforced``: whether the broker's configuration enables each kind of check, by its name."""

    grants: Found[Grant]
    enforced: dict[str, bool]


def read_access(admin: AdminClient, broker_addr: str) -> Access:
    """Reads users and their permissions. A broker that keeps none, or does not know these requests, is a problem and
    not an error, because asking again would not help."""
    config = admin.broker_config(broker_addr)
    enforced = {name: config[key] == "true" for key, name in _SWITCHES.items() if key in config}
    missing: list[str] = []
    try:
        users = {_USER + user.username: user for user in _kept(admin.users, broker_addr, config, _USERS, missing)}
        acls = {acl.subject: acl.policies for acl in _kept(admin.acls, broker_addr, config, _ACLS, missing)}
    except RefusedError as error:
        if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise
        return Access(
            Found({}, problems=["this broker lists no users and no ACL: Apache's do from 5.3.0 on"]), enforced
        )
    rows = {}
    for subject in sorted({*users, *acls}):
        entries = [(policy.policy_type, entry) for policy in acls.get(subject, ()) for entry in policy.entries]
        for at, (policy_type, entry) in enumerate(entries or [(None, None)]):
            rows[f"{subject}/{at}"] = Grant(subject, users.get(subject), policy_type, entry)
    problems = [f"this broker keeps no {' and no '.join(missing)}"] if missing else []
    return Access(Found(rows, problems=problems), enforced)


def _kept(
    ask: Callable[[str], list[_T]],
    broker_addr: str,
    config: Mapping[str, str],
    kept: tuple[str, str],
    missing: list[str],
) -> list[_T]:
    """The broker's entries of one kind. An Apache broker that is not configured to keep them answers SYSTEM_ERROR, for
    users without a reason. The reason then goes into ``missing``."""
    what, provider = kept
    try:
        return ask(broker_addr)
    except RefusedError as error:
        if error.code != ResponseCode.SYSTEM_ERROR or config.get(provider):
            raise
        missing.append(f"{what} ({provider} is not set)")
        return []
