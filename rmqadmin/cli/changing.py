"""How commands change several servers, or copy between two: take the steps, print mqadmin's words, and say how to undo
them if some failed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rmqadmin.cli.call import Call
from rmqadmin.core.access.users import without_effect
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.changes import Changes, Step, carry_out, plan_each, rows_of, take, targets_done, warn
from rmqproto.errors import NotFoundError
from rmqproto.hosts import split_address

Question = tuple[str, str]
"""What is done, for a person to confirm once the warnings were shown, and the name to type (``Call.confirm``)."""


def change(
    call: Call, steps: Sequence[Step], mqadmin_text: Callable[[list[str]], str], question: Question | None = None
) -> Changes:
    """Takes the steps. ``mqadmin_text`` gets the targets that are done. Under ``--dry-run`` the steps are only
    shown."""
    _prepare(call, steps, question)
    if call.dry_run:
        return Changes(carry_out(steps, dry_run=True))
    taken = take(steps)
    back = None
    if any(error is not None for error in taken.errors):
        from rmqadmin.core.manifests.undo import way_back  # only if there is something to undo

        back = way_back(call.command, steps, taken, call.now_ms(), call.notice)
    rows = rows_of(steps, taken.errors)
    return Changes(rows, mqadmin_text(targets_done(rows)), back)


def line_each(line: str) -> Callable[[list[str]], str]:
    """As ``mqadmin_text``: the line for each target that is done, which stands in it for ``{}``."""
    return lambda done: "".join(map(line.format, done))


def undoable(call: Call, steps: Sequence[Step], question: Question | None = None) -> Changes:
    """Like ``change``, for commands that mqadmin does not have: always says how to undo the change, if that is
    possible."""
    _prepare(call, steps, question)
    if call.dry_run:
        return Changes(carry_out(steps, dry_run=True))
    from rmqadmin.core.manifests.undo import carry_out_undoable  # as above

    return Changes(carry_out_undoable(call.command, steps, call.now_ms(), call.notice).rows)


def _prepare(call: Call, steps: Sequence[Step], question: Question | None) -> None:
    warn(steps, call.notice)
    if question is not None:
        call.confirm(*question)


def change_access(
    call: Call, steps: Sequence[Step], mqadmin_text: Callable[[list[str]], str], question: Question | None = None
) -> Changes:
    """``change``, for mqadmin's commands."""
    return _told(call, change(call, steps, mqadmin_text, question))


def undoable_access(call: Call, steps: Sequence[Step], question: Question | None = None) -> Changes:
    """``undoable``, for the others."""
    return _told(call, undoable(call, steps, question))


def _told(call: Call, found: Changes) -> Changes:
    if call.as_mqadmin:
        return found
    # A target may be a broker's address, or the address and a name.
    targets = [row.target for row in found.found] if call.dry_run else targets_done(found.found)
    said = without_effect(call.admin, [target.partition(" ")[0] for target in targets])
    if said is not None:
        call.notice(said)
    return found


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
    found = kind.all(admin, source) if names is None else []
    for name in filter(None, (part.strip() for part in (names or "").split(","))):
        each = kind.one(admin, source, name)
        if each is None:
            raise NotFoundError(f"the broker {source} has no {kind.noun_of_one} {name}")
        found.append(each)
    if not found:
        kind.all(admin, target)  # as it is not asked otherwise: a wrong address must not look like success
        call.notice(f"there is no {kind.noun} to copy on {source}")
    by_target = {f"{target} {kind.name_of(one)}": one for one in found}

    def text(done: list[str]) -> str:
        copied = [kind.name_of(one) for name, one in by_target.items() if name in done]
        return "".join(f"copy {kind.noun.lower()} of {name} from {source} to {target} success.\n" for name in copied)

    return change_access(call, plan_each(by_target, lambda name: kind.plan(admin, target, by_target[name])), text)
