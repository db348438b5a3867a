"""Bodies about users and ACL."""

from __future__ import annotations

from rmqproto.bodies.base import Body


class UserInfo(Body, kw_only=True):
    """One user in the answer of 3005, for showing users. Brokers send the password in clear text, but it is not read
    here; ``UserAccount`` has it."""

    user_status: str | None = None
    user_type: str | None = None
    username: str


class UserAccount(Body, kw_only=True):
    """One user with the password, for copying users or showing them as mqadmin does. Body of 3001 and 3002: fields that
    are None are not changed, and the name is that of the header."""

    password: str | None = None
    user_status: str | None = None
    user_type: str | None = None
    username: str = ""

    def __repr__(self) -> str:
        return f"UserAccount(username={self.username!r})"


class AclEntry(Body, kw_only=True):
    """The decision for some actions on one resource. ``source_ips`` is None if it holds for all addresses."""

    actions: list[str] = []
    decision: str | None = None
    resource: str | None = None
    source_ips: list[str] | None = None


class AclPolicy(Body, kw_only=True):
    entries: list[AclEntry] = []
    policy_type: str | None = None


class AclInfo(Body, kw_only=True):
    """Answer of 3009, one entry in that of 3010, body of 3006 and 3007: the policies of a subject (``User:name``)."""

    policies: list[AclPolicy] = []
    subject: str = ""
