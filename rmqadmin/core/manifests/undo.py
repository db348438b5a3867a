"""Undoes changes of several servers: a file for `apply`, written next to the undo files of offsets, and commands for
what no file can express.

It holds no passwords, because users and ACLs are not in it. What may have been changed, although no answer came, is
undone as well: to set again what is set does no harm.
"""

import shlex
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.changes import ChangeRow, Step, Taken, WayBack, rows_of, settle_undo_file, take, tell_way_back
from rmqadmin.core.files import state_dir, write_undo_file
from rmqadmin.core.manifests.manifest import (
    Manifest,
    ManifestEntry,
    TextFormat,
    absent,
    document_of,
    read_manifest,
    text_of,
)
from rmqadmin.core.manifests.plan import brokers_of, plan, what_changes
from rmqadmin.core.results import Notice
from rmqproto.errors import RocketMQError, StorageError


class Carried(msgspec.Struct, frozen=True):
    """The outcome of steps: a row and, if it failed, an error for each; those that were taken or may have been, and the
    file that undoes them, if one was written."""

    rows: list[ChangeRow]
    errors: list[RocketMQError | None]
    may_be_done: list[Step]
    undo_file: Path | None = None

    @property
    def can_be_undone(self) -> bool:
        return self.undo_file is not None or any(step.plan_back is not None for step in self.may_be_done)

    def plan_back(self, admin: AdminClient, notice: Notice) -> list[Step]:
        """The steps that undo these, from the present state. ``notice`` takes what has moved since. Changes
        nothing."""
        found = [back for step in self.may_be_done if step.plan_back is not None for back in step.plan_back(admin)]
        if self.undo_file is not None:
            manifest = read_manifest([str(self.undo_file)])
            found += [one.step for one in what_changes(plan(admin, manifest, brokers_of(admin, manifest, None, None)))]
        left = {(step.target, one.field): one.after for step in self.may_be_done for one in step.changes}
        for step in found:
            for change in step.changes:
                if (was_set := left.get((step.target, change.field), change.before)) != change.before:
                    since = msgspec.structs.replace(change, after=change.before, before=was_set)
                    notice(f"changed since on {step.target}: {since.for_people()}")
        return found


def way_back(command: str, steps: Sequence[Step], taken: Taken, now_ms: int, notice: Notice) -> str | None:
    """How to undo the steps of ``command`` that were done or may have been, if others failed; the undo file is written
    now, and if it cannot be, the text says so. None if they cannot be undone. If not one step was done, raises the
    first error, which says how to undo those whose outcome is unknown."""
    open_steps = [step for step in taken.may_be_done(steps) if step.changes]
    commands = _commands_back(open_steps)
    try:
        path = write_undo(command, open_steps, now_ms)
        commands += [] if path is None else [undo_command(path)]
    except StorageError as error:
        commands.append(f"({error})")
    back = "; ".join(commands) or None
    failure = taken.failure()
    if failure is not None:
        if back is not None:
            tell_way_back(failure, back, notice)
        raise failure
    return None if back is None else f"to undo what was done: {back}"


def _commands_back(steps: Iterable[Step]) -> list[str]:
    return [f"rmqadmin {shlex.join(words)}" for step in steps if isinstance(step.undo, list) for words in step.undo]


def carry_out_undoable(command: str, steps: Sequence[Step], now_ms: int, notice: Notice) -> Carried:
    """Writes the undo file before anything is changed, takes the steps, and tells ``notice`` how to undo them. If not
    one step was done, the first error: the file is removed if certainly nothing was changed, else the error names it.
    StorageError if it cannot be written; nothing is changed then."""
    path = write_undo(command, [step for step in steps if not step.failure], now_ms)
    try:
        taken = take(steps)
    except BaseException as error:  # what no step expects, such as a context that forbids the change
        settle_undo_file(path, error, "" if path is None else undo_command(path), notice)
        raise
    open_steps = [step for step in taken.may_be_done(steps) if step.changes]
    if not open_steps and path is not None:
        path.unlink(missing_ok=True)
        path = None
    commands = [*_commands_back(open_steps), *([undo_command(path)] if path is not None else [])]
    failure = taken.failure()
    if failure is not None:
        if commands:
            tell_way_back(failure, "; ".join(commands), notice)
        raise failure
    if commands:
        notice(f"to undo this: {'; '.join(commands)}")
    return Carried(rows_of(steps, taken.errors), taken.errors, open_steps, path)


def write_undo(command: str, steps: Iterable[Step], now_ms: int) -> Path | None:
    """Writes a new file that undoes these steps; its path, or None if a file can undo none. StorageError."""
    manifest: Manifest = {}
    for step in steps:
        if isinstance(step.undo, WayBack):
            for name, before in step.undo.entries.items():
                entry = manifest.setdefault(step.undo.section, {}).setdefault(name, ManifestEntry({}, {}))
                assert entry.brokers is not None
                entry.brokers[step.target] = absent() if before is None else before
    if not manifest:
        return None
    moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now_ms / 1000))
    path = state_dir() / "undo" / f"{moment}.{now_ms % 1000:03d}Z-{command.replace(' ', '-')}.yaml"
    return write_undo_file(path, text_of(document_of(manifest, command), TextFormat.YAML))


def undo_command(path: Path) -> str:
    return f"rmqadmin apply -f {shlex.quote(str(path))}"
