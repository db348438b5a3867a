"""Whether a broker checks the users and permissions that it keeps. It keeps them whether it does or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqproto.errors import RocketMQError

if TYPE_CHECKING:
    from collections.abc import Sequence

SWITCH_ON = "authenticationEnabled=true and authorizationEnabled=true in its settings and a restart (docs/security.md)"


class Switches(msgspec.Struct, frozen=True):
    """``is_plain``: ACL 1.0, by files of the broker."""

    is_authenticating: bool
    is_authorizing: bool
    is_plain: bool

    @property
    def lack(self) -> str | None:
        """What is not checked, and what follows; None if users and permissions are."""
        if self.is_plain:
            return "ACL 1.0 decides, by files of the broker, and not by these users and permissions"
        if not self.is_authenticating:
            return "authentication is off: whoever reaches the broker may do everything"
        if not self.is_authorizing:
            return "authorization is off: every user may do everything"
        return None


def switches(config: Mapping[str, str]) -> Switches:
    """From a broker's configuration. Apache's brokers return these settings only if they were set."""
    keys = ("authenticationEnabled", "authorizationEnabled", "aclEnable")
    authenticating, authorizing, plain = (config.get(key, "").lower() == "true" for key in keys)
    return Switches(authenticating, authorizing, plain and not authenticating)


def without_effect(admin: AdminClient, addrs: Sequence[str]) -> str | None:
    """Which of these brokers do not check what was changed on them, why, and how to change that; None if all check it.
    A broker that does not show its settings to this client checks who it is."""
    brokers: dict[str, list[str]] = {}
    for addr, lack in targets.ask_each(lambda addr: (addr, _lack(admin, addr)), sorted(set(addrs))):
        if lack is not None:
            brokers.setdefault(lack, []).append(addr)
    if not brokers:
        return None
    told = "; ".join(f"{', '.join(found)}: {lack}" for lack, found in brokers.items())
    return f"this has no effect: {told}. To change that: {SWITCH_ON}"


def _lack(admin: AdminClient, addr: str) -> str | None:
    try:
        return switches(admin.broker_config(addr)).lack
    except RocketMQError:
        return None
