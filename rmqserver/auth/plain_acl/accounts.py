"""Accounts of ACL 1.0 and their permissions (``PlainAccessResource``, ``Permission`` and ``PlainPermissionChecker``,
5.3.2, the last Apache release that enforces them)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Flag

from rmqproto.access.resources import Resource, ResourceType
from rmqproto.wire.signing import SigningKey
from rmqserver.auth.plain_acl.white_addresses import WhiteAddresses


class Perm(Flag):
    DENY = 0
    PUB = 1
    SUB = 2


PERMS = {
    "DENY": Perm.DENY, "PUB": Perm.PUB, "SUB": Perm.SUB, "PUB|SUB": Perm.PUB | Perm.SUB, "SUB|PUB": Perm.PUB | Perm.SUB,
}  # fmt: skip
"""Permissions by their names in the files."""


@dataclass(frozen=True, slots=True)
class Account:
    """``perms`` take precedence over the defaults for topics and groups. An administrator may do everything."""

    access_key: str
    secret_key: str = field(repr=False)
    white_addresses: WhiteAddresses
    is_admin: bool
    default_topic_perm: Perm | None
    """None if the file names none, which denies."""
    default_group_perm: Perm | None
    perms: Mapping[Resource, Perm]
    signing_key: SigningKey = field(repr=False)

    def refusal(self, resource: Resource, needed: Perm) -> str | None:
        """Why the account may not use the resource, in Apache's words; None if it may."""
        what = f"{resource.type.value.lower()}:{resource.name}"
        perm = self.perms.get(resource)
        if perm is not None:
            return None if needed in perm else f"No permission for {what}"
        default = self.default_group_perm if resource.type is ResourceType.GROUP else self.default_topic_perm
        return None if needed in (default or Perm.DENY) else f"No default permission for {what}"
