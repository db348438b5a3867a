"""What ``copyUser`` and ``copyAcl`` share: each object of one broker is made, or made equal, on another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from rmqadmin.cli.call import Call
from rmqadmin.cli.shared.changing_access import change_access
from rmqadmin.core.changes import Changes, Step, plan_each
from rmqclient.addresses import split_address
from rmqproto.errors import NotFoundError

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient

T = TypeVar("T")


@dataclass(frozen=True)
class CopiedKind(Generic[T]):
    """A kind of objects that brokers keep by name. ``noun_of_one`` stands before a name. The callables get the address
    of the broker to ask; ``plan`` plans the object's step on it."""

    noun: str
    noun_of_one: str
    name_of: Callable[[T], str]
    all: Callable[[AdminClient, str], list[T]]
    one: Callable[[AdminClient, str, str], T | None]
    plan: Callable[[AdminClient, str, T], Step]


def copy_between(call: Call, kind: CopiedKind[T], from_broker: str, to_broker: str, names: str | None) -> Changes:
    """Copies the objects of these names (separated by commas), or all. UsageError for an address, NotFoundError for a
    name that the first broker does not have. One that cannot be planned does not keep the others."""
    admin, source, target = call.admin, from_broker.strip(), to_broker.strip()
    for addr in (source, target):
        split_address(addr)
    found = kind.all(admin, source) if names is None else _named(admin, kind, source, names)
    if not found:
        kind.all(admin, target)  # as it is not asked otherwise: a wrong address must not look like success
        call.notice(f"there is no {kind.noun} to copy on {source}")
    by_target = {f"{target} {kind.name_of(each)}": each for each in found}

    def text(done: list[str]) -> str:
        copied = [kind.name_of(each) for name, each in by_target.items() if name in done]
        return "".join(f"copy {kind.noun.lower()} of {name} from {source} to {target} success.\n" for name in copied)

    return change_access(call, plan_each(by_target, lambda name: kind.plan(admin, target, by_target[name])), text)


def _named(admin: AdminClient, kind: CopiedKind[T], addr: str, names: str) -> list[T]:
    found = []
    for name in filter(None, (part.strip() for part in names.split(","))):
        each = kind.one(admin, addr, name)
        if each is None:
            raise NotFoundError(f"the broker {addr} has no {kind.noun_of_one} {name}")
        found.append(each)
    return found
