"""Whether a user may do something, and which entry decides it, from a broker's checks, users and policies. The decision
itself is the one that brokers use: ``rmqproto.access.users``."""

import ipaddress
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

import msgspec

from rmqadmin.core.access.acls import entry_text
from rmqadmin.core.access.users import switches, username_of
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.results import FoundRows, Row, doc
from rmqadmin.core.terminal_text import wrapped_lines
from rmqproto.access.policies import Acl, PolicyEntry
from rmqproto.access.resources import Action, Resource, ResourcePattern, ResourceType, group_resource, topic_resource
from rmqproto.access.users import SUBJECT_PREFIX, User, barred, judge
from rmqproto.errors import UsageError

ANY_ADDRESS = "0.0.0.0"
"""Used where no entry depends on the address."""

_INDENT = 2


class AskedAction(StrEnum):
    """The actions that a request can need: each action of a policy except All."""

    PUB = Action.PUB.value
    SUB = Action.SUB.value
    CREATE = Action.CREATE.value
    UPDATE = Action.UPDATE.value
    DELETE = Action.DELETE.value
    GET = Action.GET.value
    LIST = Action.LIST.value


class AccessQuestion(msgspec.Struct, frozen=True):
    """``source_ip`` is None if it was not given."""

    username: str
    action: AskedAction
    resource: Resource
    source_ip: str | None = None


class AccessRow(Row, frozen=True):
    allowed: Annotated[bool | None, doc("whether the user may; none where something else decides", vital=True)]
    why: Annotated[str, doc("the reason; of a refusal, in the broker's words", wide=True)]
    entry: Annotated[str | None, doc("what decided: decision, actions, resource and addresses of an entry", wide=True)]
    username: Annotated[str, doc("the user")]
    action: Annotated[str, doc("the action")]
    resource: Annotated[str, doc("Topic:, Group: or Cluster: and a name")]
    source_ip: Annotated[str | None, doc("address of the client; none if no entry depends on it", wide=True)]
    broker_addr: Annotated[str, doc("address of the broker", key=True)]


class ForetoldAccess(FoundRows[AccessRow], frozen=True):
    """One row a broker. The status is 0 if all of them say yes, else 1."""

    def lines_below(self, width: int | None) -> Iterator[str]:
        """The reasons, whole: they are too long for a column. Brokers with the same reason share its lines."""
        brokers: dict[tuple[str, str | None], list[str]] = {}
        for row in self.found:
            brokers.setdefault((row.why, row.entry), []).append(row.broker_addr)
        for (why, entry), addrs in brokers.items():
            yield "\n"
            yield from wrapped_lines(why if len(brokers) == 1 else f"{', '.join(addrs)}: {why}", width, _INDENT)
            if entry is not None:
                yield from wrapped_lines(f"{'':{_INDENT}}entry: {entry}", width, _INDENT + len("entry: "))

    def exit_status(self) -> int | None:
        return None if all(row.allowed for row in self.found) else 1


def access_question(user: str, action: AskedAction, resource: str, source: str | None) -> AccessQuestion:
    """The parsed question. UsageError for an invalid user, resource or address, and for a resource pattern."""
    name = username_of(user)
    if source is not None:
        try:
            source = str(ipaddress.ip_address(source.strip()))
        except ValueError:
            raise UsageError(
                f"--from {source} is not an address", hint="Write one address, such as 10.0.0.5: no network, no name."
            ) from None
    return AccessQuestion(name, action, _thing(resource.strip()), source)


def _thing(text: str) -> Resource:
    pattern = ResourcePattern.parse(text)
    kinds = {ResourceType.TOPIC: topic_resource, ResourceType.GROUP: group_resource}
    if pattern is None or pattern.type not in (*kinds, ResourceType.CLUSTER) or not pattern.name:
        raise UsageError(
            f"{text} is not a resource", hint="Topic:, Group: or Cluster: and a name, such as Topic:orders."
        )
    if pattern.key.endswith("*"):
        raise UsageError(f"{text} stands for many resources", hint="Name one, such as Topic:orders.")
    make = kinds.get(pattern.type)
    return make(pattern.name) if make is not None else Resource(pattern.type, pattern.name)


def foretell(admin: AdminClient, addr: str, question: AccessQuestion) -> AccessRow:
    """What one broker would decide. UsageError if that depends on an address that was not given."""
    found = switches(admin.broker_config(addr))
    if found.is_authorizing:
        return _by_policies(admin, addr, question)
    if found.is_authenticating:
        refusal = barred(question.username, _user(admin, addr, question.username))
        return _row(addr, question, not refusal, refusal or found.lack or "")
    if found.is_plain:
        return _row(addr, question, None, "ACL 1.0 decides there, by files that only the broker can read")
    return _row(addr, question, True, found.lack or "")


def _by_policies(admin: AdminClient, addr: str, question: AccessQuestion) -> AccessRow:
    name, resource = question.username, question.resource
    user = _user(admin, addr, name)
    refusal = barred(name, user)
    if user is None or refusal:
        return _row(addr, question, False, refusal)
    if user.is_super:
        return _row(addr, question, True, "super users may do everything")
    info = admin.acl(addr, SUBJECT_PREFIX + name)
    acl = None if info is None or not info.policies else Acl(info.policies)
    actions = (Action(question.action.value),)
    if question.source_ip is None and acl is not None and acl.depends_on_address(resource, actions):
        raise UsageError(
            f"on {addr} an entry about {resource.key} holds only for some addresses",
            hint="Give the user's address: --from ADDRESS.",
        )
    judgement = judge(user, acl, resource, actions, question.source_ip or ANY_ADDRESS)
    why = judgement.refusal or "an entry allows it"
    if question.source_ip is None:
        why = why.replace(f" from {ANY_ADDRESS}", "")
    return _row(addr, question, judgement.is_allowed, why, judgement.entry)


def _user(admin: AdminClient, addr: str, name: str) -> User | None:
    return next((User.listed(info) for info in admin.users(addr) if info.username == name), None)


def _row(
    addr: str, question: AccessQuestion, allowed: bool | None, why: str, entry: PolicyEntry | None = None
) -> AccessRow:
    return AccessRow(
        allowed=allowed,
        why=why,
        entry=None if entry is None else f"{entry_text(entry.body())}, {entry.pattern.key}",
        username=question.username,
        action=question.action.value,
        resource=question.resource.key,
        source_ip=question.source_ip,
        broker_addr=addr,
    )
