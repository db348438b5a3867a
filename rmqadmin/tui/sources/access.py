"""Users and ACL of one broker, or of all. Each broker has its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.servers.broker_state import Replica
from rmqadmin.tui.memory.cluster import ClusterMemory
from rmqadmin.tui.sources.found import Found, ask_brokers, asked
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
    """One entry of a subject's policies at a broker, or a subject without any; ``user`` None if the broker lists
    none."""

    replica: Replica
    subject: str
    user: UserInfo | None
    policy_type: str | None = None
    entry: AclEntry | None = None


def read_access(admin: AdminClient, memory: ClusterMemory, replica: Replica | None) -> Found[Grant]:
    """Reads users and their permissions, and whether brokers' configurations have each kind of check on. A broker that
    keeps none, or does not know these requests, is a problem and not an error, because asking again would not help."""
    answers, lacks = ask_brokers(memory, asked(admin, memory, replica), lambda broker: _read_one(admin, broker))
    rows: dict[str, Grant] = {}
    off: dict[str, list[str]] = {}
    problems = []
    for broker, (found, enforced, problem) in answers:
        rows |= {key if replica is not None else f"{key} {broker.broker_name}": one for key, one in found.items()}
        problems += [f"{broker.broker_name} {problem}"] if problem else []
        for name, is_on in enforced.items():
            off.setdefault(name, []).extend([] if is_on else [broker.broker_name])
    notes = [f"{name} {_on_text(names, len(answers))}" for name, names in off.items()]
    return Found(rows, lacks, problems, ", ".join(notes))


def _on_text(off: Sequence[str], broker_count: int) -> str:
    if not off:
        return "on"
    return "off" if len(off) == broker_count else f"off at {', '.join(off)}"


def _read_one(admin: AdminClient, replica: Replica) -> tuple[dict[str, Grant], dict[str, bool], str]:
    """The entries of one broker, what its configuration has on, and what it does not keep."""
    config = admin.broker_config(replica.broker_addr)
    enforced = {name: config[key] == "true" for key, name in _SWITCHES.items() if key in config}
    missing: list[str] = []
    try:
        listed = _kept(admin.users, replica.broker_addr, config, _USERS, missing)
        users = {_USER + user.username: user for user in listed}
        acls = {acl.subject: acl.policies for acl in _kept(admin.acls, replica.broker_addr, config, _ACLS, missing)}
    except RefusedError as error:
        if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise
        return {}, enforced, "lists no users and no ACL: Apache's do from 5.3.0 on"
    rows = {}
    for subject in sorted({*users, *acls}):
        entries = [(policy.policy_type, entry) for policy in acls.get(subject, ()) for entry in policy.entries]
        for at, (policy_type, entry) in enumerate(entries or [(None, None)]):
            rows[f"{subject}/{at}"] = Grant(replica, subject, users.get(subject), policy_type, entry)
    return rows, enforced, f"keeps no {' and no '.join(missing)}" if missing else ""


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
