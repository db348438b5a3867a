"""Undoes changes that only some servers made: a file for `apply`, written next to the undo files of offsets, and
commands for what no file can express.

It holds no passwords, because users and ACLs are not in it.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from rmqadmin.core.changes import ChangeRow, Step, WayBack, carry_out
from rmqadmin.core.manifests.documents import TextFormat, text_of
from rmqadmin.core.manifests.manifest import Manifest, ManifestEntry, absent, document_of
from rmqadmin.core.own_files import state_dir, write_private
from rmqadmin.core.results import Notice
from rmqproto.errors import RocketMQError


def way_back(command: str, steps: Sequence[Step], rows: Sequence[ChangeRow], now_ms: int) -> str | None:
    """How to undo the steps of ``command`` that were done, if others failed. None if no step failed, if nothing was
    changed, or if it cannot be undone. If the undo file cannot be written, the text says so."""
    if all(row.error is None for row in rows):
        return None
    done = [step for step, row in zip(steps, rows, strict=True) if row.done and step.changes]
    commands = _commands_back(done)
    try:
        path = write_undo(command, done, now_ms)
    except OSError as error:
        return f"no undo file could be written: {error}"
    if path is not None:
        commands.append(undo_command(path))
    return f"to undo what was done: {'; '.join(commands)}" if commands else None


def _commands_back(steps: Iterable[Step]) -> list[str]:
    return [f"rmqadmin {shlex.join(words)}" for step in steps if isinstance(step.undo, list) for words in step.undo]


def carry_out_undoable(
    command: str, steps: Sequence[Step], now_ms: int, notice: Notice
) -> tuple[list[ChangeRow], Path | None]:
    """Writes the undo file before anything is changed, takes the steps, and tells ``notice`` how to undo them. The
    outcome, and the file, which is None if there is nothing to write. OSError if it cannot be written; nothing is
    changed then."""
    path = write_undo(command, [step for step in steps if not step.failure], now_ms)
    try:
        rows = carry_out(steps, dry_run=False)
    except RocketMQError:
        if path is not None:
            path.unlink()  # nothing was changed
        raise
    except KeyboardInterrupt:
        if path is not None:
            notice(f"if the first change was made, this undoes it: {undo_command(path)}")
        raise
    done = [step for step, row in zip(steps, rows, strict=True) if row.done and step.changes]
    commands = [*_commands_back(done), *([undo_command(path)] if path is not None else [])]
    if commands:
        notice(f"to undo this: {'; '.join(commands)}")
    return rows, path


def write_undo(command: str, steps: Iterable[Step], now_ms: int) -> Path | None:
    """Writes a new file that undoes these steps; its path. None if a file can undo none of them. OSError if it cannot
    be written."""
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
    write_private(path, text_of(document_of(manifest, command), TextFormat.YAML))
    return path


def undo_command(path: Path) -> str:
    return f"rmqadmin apply -f {shlex.quote(str(path))}"
