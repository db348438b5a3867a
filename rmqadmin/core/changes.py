"""Changes on several servers: the plan, the change of one server after another, and one row for each.

If one server fails, the others are still changed. Its row says why, and the exit status is 1. If all of them fail, the
first error is the answer. Changes that only some servers have made can be undone: ``core.manifests.undo``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.contexts.permission import ChangeRefusedError, StoppedAtQuestion
from rmqadmin.core.results import FoundRows, Notice, Row, doc
from rmqadmin.core.servers.broker_answers import ask_each
from rmqadmin.core.terminal_text import display_width, printable
from rmqadmin.core.units import perm_words
from rmqproto.codes import ResponseCode
from rmqproto.errors import (
    ConnectError,
    NotConnectedError,
    NotFoundError,
    RefusedError,
    RequestTimeoutError,
    RocketMQError,
    UsageError,
)

_UNTOLD = (NotConnectedError, NotFoundError, UsageError, ChangeRefusedError, StoppedAtQuestion)
"""Errors after which nothing was sent."""


class NotTakenError(RocketMQError):
    """The user stopped the command before this step."""


NOT_TRIED = "interrupted before this"
"""The error of a step that was not tried, because the user had stopped the command."""


class StoppedAtError(NotTakenError):
    """The user stopped the command at this step; whether it was done is unknown."""


def may_have_acted(error: BaseException) -> bool:
    """Whether the server that was told may have done it. It certainly has not if it was not reached, or if it refused.
    SYSTEM_ERROR is also the answer of a broker that failed half way."""
    if isinstance(error, NotTakenError):
        return isinstance(error, StoppedAtError)
    if isinstance(error, RefusedError):
        return error.code == ResponseCode.SYSTEM_ERROR
    return not isinstance(error, _UNTOLD)


def is_unknown(error: BaseException | None) -> bool:
    """Whether nobody heard how it went: the server was told, and its answer is missing."""
    lost = isinstance(error, RequestTimeoutError | ConnectError | StoppedAtError)
    return lost and error is not None and may_have_acted(error)


def settle_undo_file(path: Path | None, error: BaseException, undo_command: str, notice: Notice) -> None:
    """Called when a change has ended with ``error``. Removes its undo file if nothing was changed. Otherwise the file
    stays, and the user is told of it: in the error's hint, or by ``notice`` after Ctrl-C."""
    if path is not None and not may_have_acted(error):
        path.unlink(missing_ok=True)
        return
    if path is not None:
        tell_way_back(error, undo_command, notice)


def tell_way_back(error: BaseException, undo_command: str, notice: Notice) -> None:
    """Adds to an error how to undo what may have been changed before it."""
    words = f"If anything was changed, this undoes it: {undo_command}"
    if isinstance(error, RocketMQError):
        error.hint = f"{error.hint} {words}" if error.hint else words
    else:
        notice(words[0].lower() + words[1:])


class FieldChange(msgspec.Struct, frozen=True):
    """One value before and after. None for no value."""

    field: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.field} {_text(self.before)} -> {_text(self.after)}"

    def for_people(self) -> str:
        """The change as tables show it."""
        before, after = self.sides()
        return f"{self.field} {before} -> {after}"

    def sides(self) -> tuple[str, str]:
        """Before and after, as tables show them."""
        text = perm_words if self.field == "perm" else _text
        before, after = (_text(None) if value is None else text(value) for value in (self.before, self.after))
        return before, after


class FreeTextChange(FieldChange, frozen=True):
    """A change of a value that may hold anything. The log of changes names only the field."""


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool | dict | list):
        return msgspec.json.encode(value).decode()
    return str(value)


def differences(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[FieldChange]:
    """Fields whose values differ, or all fields if one side is missing."""
    old, new = before or {}, after or {}
    names = dict.fromkeys([*new, *old])
    return [FieldChange(name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)]


class WayBack(msgspec.Struct, frozen=True):
    """What a server had before, in the form of a file for `apply`: entries of one section (``topics``) by name, each
    with fields by Apache's names; None for an entry that did not exist."""

    section: str
    entries: dict[str, dict[str, Any] | None] = {}


class Step(msgspec.Struct, frozen=True):
    """One planned change of one server. ``act`` raises RocketMQError. ``undo`` reverses it: entries of a file, or
    commands, each as a list of words; None if it cannot be undone. ``failure``: why it could not even be planned; it is
    then skipped. ``warnings``: what the user should know before. ``plan_back`` plans what those commands do, for a
    program that offers it at once; None where only commands do. ``foretold``: how the server will refuse it, by the
    rules of Apache RocketMQ 5.5.0. A dry run shows it; the step is taken all the same, as other versions have
    others."""

    target: str
    action: str
    changes: list[FieldChange]
    act: Callable[[], object]
    undo: WayBack | list[list[str]] | None = None
    failure: RocketMQError | None = None
    warnings: list[str] = []
    plan_back: Callable[[AdminClient], list[Step]] | None = None
    foretold: RocketMQError | None = None


class ChangeRow(Row, frozen=True):
    target: Annotated[str, doc("address of the server", key=True)]
    action: Annotated[str, doc("create, change, keep, delete, or what else is done")]
    changes: Annotated[list[FieldChange], doc("field, before, after", vital=True)]
    done: Annotated[bool, doc("false under --dry-run, and where it failed", vital=True)]
    error: Annotated[str | None, doc("why it failed", sparse=True)]


class Changes(FoundRows[ChangeRow], frozen=True):
    """What was changed, or would be."""

    mqadmin: str | None = None
    way_back: str | None = None

    def lines_below(self, width: int | None) -> Iterator[str]:
        """Each change on a line, if some row has no room for its own: nobody should confirm a change that was cut off.
        Servers with the same changes share the lines."""
        by_changes: dict[tuple[str, ...], list[ChangeRow]] = {}
        for row in self.found:
            by_changes.setdefault(tuple(printable(change.for_people()) for change in row.changes), []).append(row)
        if width is None:
            return
        beside = {
            texts: max(display_width(row.target + row.action + (row.error or "")) for row in rows)
            for texts, rows in by_changes.items()
        }
        room = width - _DONE_WIDTH - 4 * _GAP
        if all(cells + display_width("; ".join(texts)) <= room for texts, cells in beside.items()):
            return
        for texts, rows in by_changes.items():
            if texts:
                yield f"\n{', '.join(row.target for row in rows)}: {rows[0].action}\n"
                yield from (f"    {text}\n" for text in texts)

    def mqadmin_text(self) -> str | None:
        return self.mqadmin

    def remark(self) -> str | None:
        return self.way_back

    def problem(self) -> str | None:
        failed = [row.error for row in self.found if row.error not in (None, NOT_TRIED)]
        untried_count = sum(row.error == NOT_TRIED for row in self.found)
        if not failed:
            return f"interrupted: {untried_count} of {len(self.found)} were not tried" if untried_count else None
        count = "" if len(self.found) == 1 else f"{len(failed)} of {len(self.found)} failed: "
        rest = f"; {untried_count} were not tried" if untried_count else ""
        return f"{count}{failed[0]}{rest}"


_DONE_WIDTH, _GAP = len("DONE"), 2


KEEP, UNREACHED, REFUSED = "keep", "unreached", "refused"
"""The actions of a step that changes nothing, and of those that could not be planned."""

REPLACE = "replace"
"""The action of a step after which nothing is left of what was there."""

NOT_PLANNED = frozenset({UNREACHED, REFUSED})


def plan_each(addrs: Iterable[str], plan: Callable[[str], Step]) -> list[Step]:
    """A step for each server. All are asked at once, so ``plan`` is called in several threads. A server that cannot be
    reached, or refuses, gets a failed step, so that the others can still be changed; if all fail, the first error is
    raised. UsageError is raised at once: a wrong command line is wrong for every server."""

    def plan_one(addr: str) -> Step:
        try:
            return plan(addr)
        except UsageError:
            raise
        except RocketMQError as error:
            return not_planned(addr, error)

    steps = ask_each(plan_one, list(addrs))
    if steps and all(step.failure is not None for step in steps):
        assert steps[0].failure is not None
        raise steps[0].failure
    return steps


def unless_refused(steps: Sequence[Step], after: Sequence[Step]) -> list[Step]:
    """All steps. Those ``after`` are not taken once a server has refused one of ``steps``: a topic that a broker keeps
    must keep its route, and one that it did not make has no order."""
    refusals = [step.failure for step in steps if isinstance(step.failure, RefusedError)]
    foretold = [step.foretold for step in steps if isinstance(step.foretold, RefusedError)]

    def noting(act: Callable[[], object]) -> object:
        try:
            return act()
        except RefusedError as error:
            refusals.append(error)
            raise

    def not_taken(why: RefusedError) -> NotTakenError:
        return NotTakenError(f"not tried, because {why.address or 'a server'} refused")

    def unless(act: Callable[[], object]) -> object:
        if refusals:
            raise not_taken(refusals[0])
        return act()

    expected = next(map(not_taken, [*refusals, *foretold]), None)
    return [
        *(msgspec.structs.replace(step, act=partial(noting, step.act)) for step in steps),
        *(
            msgspec.structs.replace(step, act=partial(unless, step.act), foretold=expected or step.foretold)
            for step in after
        ),
    ]


def without_foretold(steps: Iterable[Step]) -> list[Step]:
    """The steps as ones to try: what is foretold is no reason not to."""
    return [msgspec.structs.replace(step, foretold=None) for step in steps]


def not_planned(addr: str, error: RocketMQError) -> Step:
    what = UNREACHED if isinstance(error, ConnectError | RequestTimeoutError) else REFUSED
    return Step(addr, what, [], lambda: None, failure=error)


def all_keep(steps: Iterable[Step]) -> bool:
    """Whether it is certain that no server would change."""
    return all(step.action == KEEP for step in steps)


def action(before: object | None, changes: list[FieldChange]) -> str:
    if before is None:
        return "create"
    return "change" if changes else KEEP


def warn(steps: Iterable[Step], notice: Notice) -> None:
    """Tells what the user should know before the steps are taken, and in a dry run."""
    for text in dict.fromkeys(text for step in steps for text in step.warnings):
        notice(text)


class Taken(msgspec.Struct, frozen=True):
    """How each step went: its error, or None. ``interrupt`` is set after Ctrl-C."""

    errors: list[RocketMQError | None]
    interrupt: KeyboardInterrupt | None = None

    def failure(self) -> BaseException | None:
        """The reason, if not one step was done."""
        first = next((error for error in self.errors if error is not None), None)
        return None if first is None or None in self.errors else self.interrupt or first

    def may_be_done(self, steps: Sequence[Step]) -> list[Step]:
        """The steps that were taken, and those whose outcome is unknown."""
        pairs = zip(steps, self.errors, strict=True)
        return [step for step, error in pairs if error is None or (error is not step.failure and may_have_acted(error))]


def take(steps: Sequence[Step]) -> Taken:
    """Takes the steps in order. After Ctrl-C no further one is taken."""
    errors: list[RocketMQError | None] = []
    stopped: KeyboardInterrupt | None = None
    for step in steps:
        error = step.failure
        if error is None and stopped is not None:
            error = NotTakenError(NOT_TRIED)
        elif error is None:
            try:
                step.act()
            except RocketMQError as failure:
                error = failure
            except StoppedAtQuestion as interrupt:
                stopped, error = interrupt, NotTakenError(NOT_TRIED)
            except KeyboardInterrupt as interrupt:
                stopped, error = interrupt, StoppedAtError("interrupted: whether it was done is unknown")
        errors.append(error)
    return Taken(errors, stopped)


def rows_of(steps: Sequence[Step], errors: Sequence[RocketMQError | None], *, dry_run: bool = False) -> list[ChangeRow]:
    return [
        ChangeRow(
            target=step.target,
            action=step.action,
            changes=step.changes,
            done=not dry_run and error is None,
            error=None if error is None else str(error),
        )
        for step, error in zip(steps, errors, strict=True)
    ]


def carry_out(steps: Sequence[Step], *, dry_run: bool) -> list[ChangeRow]:
    """Takes the steps in order. A dry run only shows them. After Ctrl-C the rows say which steps were taken, so that
    they can be undone; KeyboardInterrupt if none was. Without an undo file: ``core.manifests.undo`` has those."""
    taken = Taken([step.failure or step.foretold for step in steps]) if dry_run else take(steps)
    failure = taken.failure()
    if failure is not None:
        raise failure
    return rows_of(steps, taken.errors, dry_run=dry_run)


def targets_done(rows: Sequence[ChangeRow]) -> list[str]:
    return [row.target for row in rows if row.done]
